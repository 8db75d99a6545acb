package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/setpointd/setpoint/agent/driver"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("SETPOINT_TOKEN", "secret of the agent")
	d := fresh(t)
	spec := driver.Spec{
		TaskID:  "web/3/42",
		Command: []string{"env"},
		Env:     map[string]string{"MODE": "prod", "LANG": "de_DE", "HOME": "/elsewhere", "SETPOINT_TASK_ID": "forged"},
	}
	h := start(t, d, spec)
	wait(t, d, h)
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"HOME=/elsewhere",
		"LANG=de_DE",
		"LOGNAME=" + who.Username,
		"MODE=prod",
		"PATH=" + defaultPath,
		"SETPOINT_TASK_DIR=" + string(d.dir("web/3/42")),
		"SETPOINT_TASK_ID=web/3/42",
		"USER=" + who.Username,
	}
	if got := readAll(t, d, h, driver.LogsRequest{}); !slices.Equal(got, want) {
		t.Errorf("environment is %q, want %q", got, want)
	}
}

func TestBaseEnv(t *testing.T) {
	got := BaseEnv([]string{"PATH=/bin", "LANG=C", "LC_ALL=C", "TZ=UTC", "AWS_SECRET=x", "HTTP_PROXY=http://u:p@h", "odd"})
	if len(got) != 4 || got["PATH"] != "/bin" || got["LC_ALL"] != "C" {
		t.Errorf("base environment is %v", got)
	}
}

func TestWhatATaskInherits(t *testing.T) {
	d := fresh(t)
	h := start(t, d, sh("a/1/1", `umask; pwd; ls /proc/self/fd | tr '\n' ' '; echo; readlink /proc/self/fd/0
		grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\t'; ps -o sid=,pgid= -p $$ | tr -s ' '; echo $$`))
	wait(t, d, h)
	got := readAll(t, d, h, driver.LogsRequest{})
	if len(got) != 8 {
		t.Fatalf("output is %q", got)
	}
	pid := got[7]
	want := []string{
		"0022", d.dir("a/1/1").work(), "0 1 2 3 ", os.DevNull, "SigBlk:0000000000000000", "SigIgn:" + ownSignals(t), pid + " " + pid, pid,
	}
	for i := range want {
		if strings.TrimSpace(got[i]) != strings.TrimSpace(want[i]) {
			t.Errorf("line %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestFilesArePrivate(t *testing.T) {
	d := fresh(t)
	spec := sh("a/1/1", "echo secret; exec sleep 1000")
	spec.Env = map[string]string{"PASSWORD": "secret"}
	h := start(t, d, spec)
	firstLines(t, d, h, 1)
	dir := string(d.dir("a/1/1"))
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		switch {
		case path == dir:
			want = 0o711
		case e.IsDir():
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run tasks as other users")
	}
	d := fresh(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("no user nobody here")
	}
	groups, err := nobody.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		groups[i] = strings.TrimSpace(groups[i])
	}
	for id, test := range map[string]struct{ user, want string }{
		"name/1/1":   {"nobody", nobody.Uid + " " + nobody.Gid + " " + strings.Join(groups, " ") + " nobody"},
		"number/1/1": {nobody.Uid, nobody.Uid + " " + nobody.Gid + " " + strings.Join(groups, " ") + " nobody"},
		"group/1/1":  {"nobody:7", nobody.Uid + " 7 7 nobody"},
	} {
		spec := sh(id, "echo $(id -u) $(id -g) $(id -G) $USER; echo mine > file && cat file")
		spec.User = test.user
		h := start(t, d, spec)
		if exit := wait(t, d, h); exit.Code != 0 {
			t.Errorf("exit is %+v", exit)
		}
		if got := readAll(t, d, h, driver.LogsRequest{}); !slices.Equal(got, []string{test.want, "mine"}) {
			t.Errorf("as %s: %q, want %q", test.user, got, test.want)
		}
	}
}

// The task has its user's groups, and none of those that the agent was started with.
func TestGroupsOfTheAgentAreNotInherited(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run tasks as other users")
	}
	before, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setgroups([]int{4, 24}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setgroups(before); err != nil {
			t.Error(err)
		}
	})
	d := fresh(t)
	spec := sh("a/1/1", "grep Groups: /proc/self/status | tr -d '\\t '")
	spec.User = "65534:7"
	h := start(t, d, spec)
	wait(t, d, h)
	if got := readAll(t, d, h, driver.LogsRequest{}); !slices.Equal(got, []string{"Groups:7"}) {
		t.Errorf("groups are %q", got)
	}
}

func TestRejected(t *testing.T) {
	d := fresh(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("#!/no/such/interpreter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("\x7fnot a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		spec driver.Spec
		code string
	}{
		"no command":          {driver.Spec{}, driver.RejectBadSpec},
		"not in PATH":         {driver.Spec{Command: []string{"no-such-command"}}, driver.RejectNoCommand},
		"no file":             {driver.Spec{Command: []string{"/no/such"}}, driver.RejectNoCommand},
		"relative":            {driver.Spec{Command: []string{"./x"}}, driver.RejectNoCommand},
		"PATH of the task":    {driver.Spec{Command: []string{"sh"}, Env: map[string]string{"PATH": "/no:relative"}}, driver.RejectNoCommand},
		"not executable":      {driver.Spec{Command: []string{file}}, driver.RejectNotExecutable},
		"a directory":         {driver.Spec{Command: []string{"/tmp"}}, driver.RejectNotExecutable},
		"no interpreter":      {driver.Spec{Command: []string{script}}, driver.RejectNoCommand},
		"no program":          {driver.Spec{Command: []string{garbage}}, driver.RejectNotExecutable},
		"no directory":        {driver.Spec{Command: []string{"sh"}, Dir: "/no/such"}, driver.RejectBadDirectory},
		"directory is a file": {driver.Spec{Command: []string{"sh"}, Dir: file}, driver.RejectBadDirectory},
		"relative directory":  {driver.Spec{Command: []string{"sh"}, Dir: "x"}, driver.RejectBadSpec},
		"unknown user":        {driver.Spec{Command: []string{"sh"}, User: "no-such-user"}, driver.RejectUnknownUser},
		"unknown uid":         {driver.Spec{Command: []string{"sh"}, User: "4123456789"}, driver.RejectUnknownUser},
		"unknown group":       {driver.Spec{Command: []string{"sh"}, User: strconv.Itoa(os.Geteuid()) + ":no-such-group"}, driver.RejectUnknownUser},
		"unknown signal":      {driver.Spec{Command: []string{"sh"}, StopSignal: "NOPE"}, driver.RejectBadSpec},
		"zero byte":           {driver.Spec{Command: []string{"sh", "a\x00b"}}, driver.RejectBadSpec},
		"variable name":       {driver.Spec{Command: []string{"sh"}, Env: map[string]string{"A=B": "c"}}, driver.RejectBadSpec},
		"setting":             {driver.Spec{Command: []string{"sh"}, Settings: map[string]string{"image": "x"}}, driver.RejectBadSpec},
		"mask":                {driver.Spec{Command: []string{"sh"}, Settings: map[string]string{"umask": "1777"}}, driver.RejectBadSpec},
		"word":                {driver.Spec{Command: []string{"sh"}, Settings: map[string]string{"new_privileges": "yes please"}}, driver.RejectBadSpec},
		"too much":            {driver.Spec{Command: []string{"sh", strings.Repeat("x", 1<<20)}}, driver.RejectRefusedBySystem},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.spec.TaskID = "a/1/1"
			_, err := d.Start(t.Context(), test.spec)
			var why *driver.RejectedError
			if !errors.As(err, &why) {
				t.Fatalf("start returned %v, want a *RejectedError", err)
			}
			if why.Code != test.code || why.Reason == "" {
				t.Errorf("refusal is %+v, want code %s", why, test.code)
			}
			if _, err := os.Stat(string(d.dir("a/1/1"))); err == nil {
				t.Error("a refused task left its directory")
			}
		})
	}
}

// A task gains no privileges by what it executes unless it says so, whoever it runs as.
func TestSettings(t *testing.T) {
	d := fresh(t)
	for i, test := range []struct {
		settings map[string]string
		want     []string
	}{
		{nil, []string{"0022", "NoNewPrivs:1"}},
		{map[string]string{"umask": "027", "new_privileges": "true"}, []string{"0027", "NoNewPrivs:0"}},
		{map[string]string{"umask": "0", "new_privileges": "false"}, []string{"0000", "NoNewPrivs:1"}},
	} {
		spec := sh(fmt.Sprintf("a/%d/1", i), "umask; grep NoNewPrivs /proc/self/status | tr -d '\\t'")
		spec.Settings = test.settings
		h := start(t, d, spec)
		wait(t, d, h)
		if got := readAll(t, d, h, driver.LogsRequest{}); !slices.Equal(got, test.want) {
			t.Errorf("with %v the task prints %q, want %q", test.settings, got, test.want)
		}
	}
}

// ownSignals returns the mask of ignored signals that a task has when it ignores none that programs use: what this process was started with of the two that
// the C library keeps for itself, which nobody can change.
func ownSignals(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%016x", mask&(1<<31|1<<32))
}
