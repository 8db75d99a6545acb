package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// memory returns a path in memory that only this test has.
func memory(t *testing.T) string {
	t.Helper()
	path, err := DefaultPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wanted() []cluster.Secret {
	return []cluster.Secret{{Name: "db", Version: 1, Target: "db.txt", Mode: 0o440}, {Name: "key", Version: 2, Target: "key", Mode: 0o400}}
}

func values() Values {
	var v Values
	v.Add("db", []byte("hunter2"), "")
	v.Add("key", []byte("hunter3"), "")
	return v
}

func TestSecretsAreThereFromStartToEnd(t *testing.T) {
	path := memory(t)
	d := open(t, path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is there before there are secrets: %v", err)
	}
	placed, err := d.Place("web/1/5", wanted(), values())
	if err != nil {
		t.Fatal(err)
	}
	if len(placed.Files) != 2 || placed.Files[0].Name != "db.txt" || placed.Files[0].Mode != 0o440 {
		t.Errorf("the driver is told %+v", placed)
	}
	if err := placed.Give(os.Geteuid(), os.Getegid()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"db.txt": "hunter2 -r--r-----", "key": "hunter3 -r--------"} {
		text, err := os.ReadFile(filepath.Join(placed.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(placed.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text) + " " + info.Mode().String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	// An agent that starts again finds them, without values.
	again := open(t, path)
	if err := again.Sweep([]cluster.TaskID{"web/1/5"}); err != nil {
		t.Fatal(err)
	}
	if found, err := again.Place("web/1/5", wanted(), Values{}); err != nil || found.Dir != placed.Dir {
		t.Errorf("after a restart: %+v, %v", found, err)
	}
	if err := again.Remove("web/1/5"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	if err := again.Remove("web/1/5"); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

func TestSweep(t *testing.T) {
	path := memory(t)
	d := open(t, path)
	for _, id := range []cluster.TaskID{"web/1/5", "web/2/5"} {
		if _, err := d.Place(id, wanted(), values()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(path, unfinished+"1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Sweep([]cluster.TaskID{"web/2/5"}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if _, err := os.Stat(d.Path("web/2/5")); err != nil {
		t.Error(err)
	}
}

func TestAllOrNone(t *testing.T) {
	path := memory(t)
	d := open(t, path)
	var some Values
	some.Add("db", []byte("hunter2"), "")
	some.Add("key", nil, "secret key version 2: it is gone")
	var missing *MissingError
	if _, err := d.Place("web/1/5", wanted(), some); !errors.As(err, &missing) || missing.Reason != "secret key version 2: it is gone" {
		t.Errorf("got %v", err)
	}
	if _, err := d.Place("web/1/5", wanted(), Values{}); !errors.As(err, &missing) || !strings.Contains(missing.Reason, "did not send the secret db") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}

func TestNeverOnADisk(t *testing.T) {
	link := memory(t)
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/proc/x": "never written to a disk", "/proc": "never written to a disk", "relative": "not an absolute path", link: "not a directory", "/dev/shm/missing/x": "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestValuesAreNotPrinted(t *testing.T) {
	v := values()
	text, err := json.Marshal(map[string]any{"v": v, "p": &v})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(text), fmt.Sprintf("%v %+v %#v %s %x", v, v, v, v, v), fmt.Sprintf("%+v %#v", struct{ V Values }{v}, []Values{v})} {
		if strings.Contains(s, "hunter") || strings.Contains(s, "104 117") || strings.Contains(s, "68756e") {
			t.Errorf("printed: %s", s)
		}
	}
}
