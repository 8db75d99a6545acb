package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpointd/setpoint/agent/driver"
)

// placed returns secrets as an agent puts them there: its own alone, in a directory that others can reach.
func placed(t *testing.T, files ...driver.SecretFile) driver.Secrets {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "setpoint-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte("value of "+f.Name+"\n"), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	return driver.Secrets{Dir: dir, Files: files}
}

func TestSecretsAreTheTasks(t *testing.T) {
	d := fresh(t)
	spec := sh("web/1/1", `cat "$SETPOINT_SECRETS_DIR"/db; stat -c '%n %a %U' "$SETPOINT_SECRETS_DIR"/* | sed "s,$SETPOINT_SECRETS_DIR,,"; touch "$SETPOINT_SECRETS_DIR"/new 2>/dev/null || echo "read only"`)
	spec.Secrets = placed(t, driver.SecretFile{Name: "db", Mode: 0o400}, driver.SecretFile{Name: "key", Mode: 0o440})
	want := []string{"value of db"}
	if os.Geteuid() == 0 {
		spec.User = "nobody"
		want = append(want, "/db 400 nobody", "/key 440 nobody", "read only")
	}
	h := start(t, d, spec)
	if exit := wait(t, d, h); exit.Code != 0 {
		t.Errorf("exit is %+v", exit)
	}
	got := readAll(t, d, h, driver.LogsRequest{})
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%q is not in %q", line, got)
		}
	}
	text, err := os.ReadFile(d.dir("web/1/1").spec())
	if err != nil || strings.Contains(string(text), "value of") {
		t.Errorf("the intent has the value, or is gone: %v", err)
	}
}

func TestSecretsOfNobodyAreRefused(t *testing.T) {
	d := fresh(t)
	spec := sh("web/1/1", "true")
	spec.Secrets = placed(t, driver.SecretFile{Name: "db", Mode: 0o400})
	spec.Secrets.Files[0].Name = "gone"
	_, err := d.Start(t.Context(), spec)
	var why *driver.RejectedError
	if !errors.As(err, &why) || why.Code != driver.RejectRefusedBySystem || !strings.Contains(why.Reason, "give secret gone") {
		t.Errorf("start returned %v, want it refused", err)
	}
}
