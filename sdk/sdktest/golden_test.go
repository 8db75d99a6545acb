package sdktest_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/sdk"
	"github.com/setpointd/setpoint/sdk/sdktest"
)

var _ = flag.Bool("update", false, "rewrite golden files")

func TestGolden(t *testing.T) {
	sdktest.Golden(t, func() sdk.Plugin { return whole("") }, "testdata/golden/*.txtar")
}

// goldenEnv has TestGoldenOfAnother run, in a process of its own, on the files that it names.
const goldenEnv = "SDKTEST_GOLDEN"

func TestGoldenOfAnother(t *testing.T) {
	pattern := os.Getenv(goldenEnv)
	if pattern == "" {
		t.Skip("only for TestGoldenTellsAndUpdates")
	}
	sdktest.Golden(t, func() sdk.Plugin { return whole("!") }, pattern)
}

func TestGoldenTellsAndUpdates(t *testing.T) {
	text, err := os.ReadFile("testdata/golden/everything.txtar")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.txtar")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestGoldenOfAnother$"}, args...)...)
		cmd.Env = append(os.Environ(), goldenEnv+"="+file)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	for _, part := range []string{"-   n2: refused, broken.no_label (disk)\n", "+   n2: refused, broken.no_label (disk!)\n", "go test -update"} {
		if err == nil || !strings.Contains(strings.ReplaceAll(out, "        ", ""), part) {
			t.Errorf("another plugin: %v, without %q:\n%s", err, part, out)
		}
	}
	if out, err := run("-update"); err != nil {
		t.Fatalf("update: %v\n%s", err, out)
	}
	if out, err := run(); err != nil {
		t.Errorf("after the update: %v\n%s", err, out)
	}
	updated, err := os.ReadFile(file)
	want := strings.NewReplacer("(disk)", "(disk!)", "  n1: on n1", "  n1!: on n1", "  n2: on n2", "  n2!: on n2", "shutdown (", "shutdown, forced (").Replace(string(text))
	if err != nil || string(updated) != want {
		t.Errorf("updated file: %v\n%s\nwant:\n%s", err, updated, want)
	}
}

func TestGoldenRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"unknown part":  "-- node --\n",
		"unknown key":   "-- class a --\n{\"setting\":1}\n",
		"no number":     "-- nodes --\nn1 memory=much\n",
		"unknown state": "-- drain n1 --\nweb/1/1 desired=gone\n",
	} {
		file := filepath.Join(t.TempDir(), "x.txtar")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestGoldenOfAnother$")
		cmd.Env = append(os.Environ(), goldenEnv+"="+file)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s passes:\n%s", name, fmt.Sprint(string(out)))
		}
	}
}
