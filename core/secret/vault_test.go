package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/setpointd/setpoint/core/secret"
)

// kept is a vault in a directory.
type kept struct {
	*secret.Vault
	dir string
}

func (k *kept) reopen(t *testing.T) {
	t.Helper()
	v, err := secret.Open(filepath.Join(k.dir, "secrets"), filepath.Join(k.dir, "secrets.key"), "c1")
	if err != nil {
		t.Fatal(err)
	}
	k.Vault = v
}

func open(t *testing.T) *kept {
	t.Helper()
	k := &kept{dir: t.TempDir()}
	k.reopen(t)
	return k
}

func (k *kept) put(t *testing.T, name, value string, first bool) secret.Info {
	t.Helper()
	info, _, err := k.Put(secret.Put{Name: name, Value: secret.NewValue([]byte(value)), By: "ann", First: first})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (k *kept) want(t *testing.T, name string, version uint64, value string) {
	t.Helper()
	got, err := k.Read(name, version)
	if err != nil || string(got.Reveal()) != value {
		t.Errorf("%s version %d: %q, %v; want %q", name, version, got.Reveal(), err, value)
	}
}

// files returns the content of all files.
func (k *kept) files(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(k.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVersions(t *testing.T) {
	k := open(t)
	k.put(t, "db", "hunter2", true)
	info := k.put(t, "db", "hunter3", false)
	if len(info.Versions) != 2 || info.Newest().Number != 2 || info.Newest().By != "ann" || info.Newest().Size != 7 || info.Newest().Digest == info.Versions[0].Digest {
		t.Errorf("second version: %+v", info)
	}
	if _, changed, err := k.Put(secret.Put{Name: "db", Value: secret.NewValue([]byte("hunter3"))}); changed || err != nil {
		t.Errorf("the same value again: changed %t, %v", changed, err)
	}
	k.reopen(t)
	k.want(t, "db", 1, "hunter2")
	k.want(t, "db", 2, "hunter3")
	for path, text := range k.files(t) {
		if strings.Contains(text, "hunter") {
			t.Errorf("%s has the value: %s", path, text)
		}
	}
	if err := k.Remove("db", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Read("db", 1); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("removed version: %v", err)
	}
	if err := k.Remove("db", 0); err != nil {
		t.Fatal(err)
	}
	k.reopen(t)
	if list := k.List(); len(list) != 0 {
		t.Errorf("after its removal: %v", list)
	}
	if info := k.put(t, "db", "again", true); info.Newest().Number != 3 {
		t.Errorf("made again as version %d; numbers are not used twice", info.Newest().Number)
	}
}

func TestOldVersionsGoUnlessInUse(t *testing.T) {
	k := open(t)
	k.put(t, "db", "0", true)
	for i := range 30 {
		_, _, err := k.Put(secret.Put{Name: "db", Value: secret.NewValue(fmt.Append(nil, i+1)), InUse: func(n uint64) bool { return n == 3 }})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, _ := k.Info("db")
	if len(info.Versions) != 11 || info.Versions[0].Number != 3 || info.Versions[1].Number != 22 || info.Newest().Number != 31 {
		t.Errorf("kept: %+v", info.Versions)
	}
}

func TestRefused(t *testing.T) {
	k := open(t)
	k.put(t, "db", "x", true)
	value := func(n int) secret.Value { return secret.NewValue(bytes.Repeat([]byte("x"), n)) }
	for _, c := range []struct {
		put  secret.Put
		want error
	}{
		{secret.Put{Name: "db", Value: value(1), First: true}, secret.ErrExists},
		{secret.Put{Name: "other", Value: value(1)}, secret.ErrNotFound},
		{secret.Put{Name: "other", Value: value(0), First: true}, secret.ErrTooLarge},
		{secret.Put{Name: "other", Value: value(secret.MaxValue + 1), First: true}, secret.ErrTooLarge},
		{secret.Put{Name: "db", Value: value(1), Configured: true}, secret.ErrByHand},
		{secret.Put{Name: "../db", Value: value(1), First: true}, nil},
	} {
		if _, _, err := k.Put(c.put); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.put.Name, err, c.want)
		}
	}
	if err := k.Remove("other", 0); !errors.Is(err, secret.ErrNotFound) {
		t.Errorf("remove what is not there: %v", err)
	}
	if err := k.Remove("db", 7); !errors.Is(err, secret.ErrNoVersion) {
		t.Errorf("remove a version that is not there: %v", err)
	}
}

func TestConfigured(t *testing.T) {
	k := open(t)
	for range 2 {
		if _, _, err := k.Put(secret.Put{Name: "tls", Value: secret.NewValue([]byte("k")), Configured: true}); err != nil {
			t.Fatal(err)
		}
	}
	if info, ok := k.Info("tls"); !ok || len(info.Versions) != 1 || !info.Configured {
		t.Errorf("configured: %+v", info)
	}
	if _, _, err := k.Put(secret.Put{Name: "tls", Value: secret.NewValue([]byte("l"))}); !errors.Is(err, secret.ErrConfigured) {
		t.Errorf("rotated by hand: %v", err)
	}
	if err := k.Remove("tls", 0); !errors.Is(err, secret.ErrConfigured) {
		t.Errorf("removed by hand: %v", err)
	}
	if err := k.Release(nil); err != nil {
		t.Fatal(err)
	}
	k.reopen(t)
	if info := k.put(t, "tls", "l", false); info.Newest().Number != 2 || info.Configured {
		t.Errorf("after the block is gone: %+v", info)
	}
}

func TestRekey(t *testing.T) {
	k := open(t)
	for i := range 5 {
		k.put(t, fmt.Sprint("s", i), fmt.Sprint("value-", i), true)
	}
	before := k.files(t)
	digest := k.List()[0].Newest().Digest
	if err := k.Rekey(); err != nil {
		t.Fatal(err)
	}
	after := k.files(t)
	for path, text := range before {
		if after[path] == text {
			t.Errorf("%s is as it was", path)
		}
	}
	k.reopen(t)
	for i := range 5 {
		k.want(t, fmt.Sprint("s", i), 1, fmt.Sprint("value-", i))
	}
	if got := k.List()[0].Newest().Digest; got != digest {
		t.Error("the digest changed with the key")
	}

	// A crash in the midst of it: the file of keys has both, and some secrets are sealed with the old one.
	old, now := readKeys(t, before, k.dir), readKeys(t, after, k.dir)
	now["keys"] = append(now["keys"].([]any), old["keys"].([]any)...)
	text, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(k.dir, "secrets.key"), string(text))
	for _, i := range []int{1, 3} {
		path := filepath.Join(k.dir, "secrets", fmt.Sprintf("s%d.json", i))
		write(t, path, before[path])
	}
	k.reopen(t)
	for i := range 5 {
		k.want(t, fmt.Sprint("s", i), 1, fmt.Sprint("value-", i))
	}
	if left := readKeys(t, k.files(t), k.dir)["keys"].([]any); len(left) != 1 {
		t.Errorf("%d keys are left", len(left))
	}
}

func readKeys(t *testing.T, files map[string]string, dir string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(files[filepath.Join(dir, "secrets.key")]), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLostDamagedAndForeignFiles(t *testing.T) {
	k := open(t)
	k.put(t, "a", "value-a", true)
	k.put(t, "b", "value-b", true)
	files := k.files(t)
	a, b, key := filepath.Join(k.dir, "secrets", "a.json"), filepath.Join(k.dir, "secrets", "b.json"), filepath.Join(k.dir, "secrets.key")

	// The sealed bytes of one secret serve in no other place.
	write(t, b, strings.Replace(files[a], `"a"`, `"b"`, 1))
	k.reopen(t)
	if v, err := k.Read("b", 1); err == nil {
		t.Errorf("the value of another secret was opened: %s", v.Reveal())
	}
	write(t, b, "{")
	if _, err := secret.Open(filepath.Join(k.dir, "secrets"), key, "c1"); err == nil || !strings.Contains(err.Error(), b) {
		t.Errorf("damaged: %v", err)
	}
	write(t, b, files[b])
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Open(filepath.Join(k.dir, "secrets"), key, "c1"); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Open(filepath.Join(k.dir, "secrets"), key, "c1"); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("without the key: %v", err)
	}
}

func TestValuesAreNotPrinted(t *testing.T) {
	v := secret.NewValue([]byte("hunter2"))
	in := struct {
		V secret.Value
		P *secret.Value
	}{v, &v}
	var log bytes.Buffer
	hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Trace}).Info("x", "v", v, "in", in, "list", []secret.Value{v})
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{log.String(), string(text)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out = append(out, fmt.Sprintf(verb, v), fmt.Sprintf(verb, in), fmt.Sprintf(verb, []secret.Value{v}))
	}
	for _, s := range out {
		if strings.Contains(s, "hunter") || strings.Contains(s, "68756e746572") || strings.Contains(s, "104 117") {
			t.Errorf("printed: %s", s)
		}
	}
	if !slices.Equal(v.Reveal(), []byte("hunter2")) || v.Len() != 7 {
		t.Error("the value itself is not given")
	}
}
