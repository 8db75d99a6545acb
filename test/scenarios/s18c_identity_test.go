package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpointd/setpoint/test/internal/bench"
)

// staleIdentity runs in a namespace of processes of its own: a server is killed, innocent processes get the numbers that it and its plugins had, one is named
// in a file that asks the server to attach to it, and the server is started again. It prints what came of it, a line for each fact.
const staleIdentity = `
set -u
cd "$1"
serve() {
	"$2" server --config server.hcl >>server.log 2>&1 &
	server=$!
	"$2" status --wait 30s >/dev/null || echo "failed: the server is not ready"
}
pids() { "$2" plugin ls -o json | sed -n 's/.*"pid": \([1-9][0-9]*\).*/\1/p'; }

serve "$@"
old="$(pids "$@") $server"
kill -KILL "$server"
for pid in $old; do
	while [ -e "/proc/$pid" ]; do sleep 0.1; done
done
while grep -qs plugin[-]guard /proc/[0-9]*/cmdline; do sleep 0.1; done
ls server/plugins/ >left

innocent='
for s in HUP INT QUIT TERM USR1 USR2 CONT ALRM; do trap "echo $s >>signalled" $s; done
while :; do sleep 0.2; done'
stand=
for pid in $old; do
	echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
	setsid sh -c "$innocent" &
	[ "$!" = "$pid" ] && stand="$stand $pid"
done
mkdir -p server/attach
echo "{\"socket\":\"$1/server/plugins/gone\",\"pid\":${old%% *},\"protocol\":1}" >server/attach/constraint.json
chmod 600 server/attach/constraint.json

serve "$@"
new=$(pids "$@")
for pid in $new; do
	case " $old " in *" $pid "*) echo "failed: plugin $pid has the number of an innocent process" ;; esac
done
echo "plugins: $(echo $new | wc -w)"
echo "sockets: $(ls server/plugins/ | wc -l)"
echo "left: $(grep -c plugin-dir left)"
kill -TERM "$server"
wait "$server"
for pid in $stand; do
	grep -qs signalled /proc/$pid/cmdline && echo "alive: $pid" || echo "failed: $pid is dead"
done
[ -e signalled ] && echo "failed: signalled with $(cat signalled)"
echo "stand: $(echo $stand | wc -w)"
`

// What a killed server has left names nobody: processes that have its plugins' numbers by now are left alone, and fresh plugins are started without anything
// being deleted by hand.
func Test18CStaleIdentity(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespace of processes can be made here: %v: %s", err, out)
	}
	dir := must(os.MkdirTemp("/tmp", "spbench"))
	defer os.RemoveAll(dir)
	config := fmt.Sprintf("data_dir = %q\nlisten {\n  api = %q\n}\n", filepath.Join(dir, "server"), bench.FreeAddress(t))
	check(t, os.WriteFile(filepath.Join(dir, "server.hcl"), []byte(config), 0o600))
	cmd := exec.Command(unshare[0], append(unshare[1:], "sh", "-c", staleIdentity, "sh", dir, programs.Binaries(t).Setpoint)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "SETPOINT_DATA_DIR=" + filepath.Join(dir, "server")}
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	facts := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, want := range []string{"plugins: 3", "sockets: 3", "left: 3"} {
		if !slices.Contains(facts, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if slices.ContainsFunc(facts, func(f string) bool { return strings.HasPrefix(f, "failed") }) || err != nil {
		t.Errorf("%v", err)
	}
	if slices.Contains(facts, "stand: 0") {
		t.Error("no innocent process got the number of one that has ended")
	}
	t.Logf("%s", out)
	if t.Failed() {
		t.Logf("%s", must(os.ReadFile(filepath.Join(dir, "server.log"))))
	}
}
