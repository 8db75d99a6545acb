package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test's program be a member: with JOIN it joins the groups and becomes a shell that runs SCRIPT.
func TestMain(m *testing.M) {
	if dirs := os.Getenv("JOIN"); dirs != "" {
		if err := (Group{Dirs: strings.Split(dirs, ":")}).Join(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(90)
		}
		err := unix.Exec("/bin/sh", []string{"sh", "-c", os.Getenv("SCRIPT")}, []string{"PATH=" + os.Getenv("PATH")})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(91)
	}
	os.Exit(m.Run())
}

// group makes a group with limits of which all are in force, or skips the test.
func group(t *testing.T, l Limits) Group {
	t.Helper()
	tree, err := Find("")
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("setpoint-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	g, lacks, reason := tree.Make(name, l)
	if reason != nil {
		t.Skip("no control group can be made here: ", reason)
	}
	t.Cleanup(func() {
		if !g.End(10 * time.Second) {
			t.Errorf("%v are left", g.Processes())
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if left := tree.Group(name); len(left.Dirs) > 0 {
			t.Errorf("%v are left", left.Dirs)
		}
	})
	for c, err := range lacks {
		t.Skipf("%s cannot be limited here: %v", c, err)
	}
	if again := tree.Group(name); len(again.Dirs) != len(g.Dirs) {
		t.Errorf("found %v, made %v", again, g)
	}
	return g
}

func member(t *testing.T, g Group, script string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "JOIN="+strings.Join(g.Dirs, ":"), "SCRIPT="+script)
	cmd.Stderr = os.Stderr
	return cmd
}

// hog is a script that holds ever more memory: a shell variable that doubles.
const hog = `x=0123456789abcdef; while :; do x=$x$x; done`

func TestOutOfMemory(t *testing.T) {
	g := group(t, Limits{Memory: 32 << 20})
	if n := g.OOMKills(); n != 0 {
		t.Fatalf("%d kills before the first", n)
	}
	if err := member(t, g, hog).Run(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the member ended with %v", err)
	}
	if n := g.OOMKills(); n < 1 {
		t.Errorf("%d kills are counted", n)
	}
}

func TestKilledOtherwise(t *testing.T) {
	g := group(t, Limits{Memory: 256 << 20})
	if err := member(t, g, "kill -9 $$").Run(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the member ended with %v", err)
	}
	if n := g.OOMKills(); n != 0 {
		t.Errorf("%d kills are counted", n)
	}
}

func TestPIDs(t *testing.T) {
	g := group(t, Limits{PIDs: 4})
	out, err := member(t, g, "echo begun; n=0; while [ $n -lt 10 ]; do sleep 60 >/dev/null 2>&1 & n=$((n+1)); done 2>/dev/null; echo all").Output()
	if got := string(out); got != "begun\n" {
		t.Errorf("printed %q; ten processes where four may be are not all started: %v", got, err)
	}
}

func TestQuotaOfTheProcessors(t *testing.T) {
	g := group(t, Limits{CPUShare: 100, CPUQuota: 100})
	cmd := member(t, g, "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done")
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	used, took := cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), time.Since(began)
	if used > took/2 { // a tenth is allowed; what else there is to do here only makes it less
		t.Errorf("used %v of %v", used, took)
	}
}

// What left the process group and the session is ended all the same.
func TestEndReachesWhatLeft(t *testing.T) {
	g := group(t, Limits{})
	cmd := member(t, g, "setsid sleep 1000 & setsid sh -c 'setsid sleep 1000 & echo $!; exec sleep 1000' & sleep 0.2; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	far, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if members := g.Processes(); len(members) < 3 {
		t.Errorf("members are %v", members)
	}
	if !g.End(10 * time.Second) {
		t.Errorf("%v are left", g.Processes())
	}
	_ = cmd.Wait() // killed
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", far))
	if err == nil && strings.Contains(string(text), "(sleep)") && !strings.Contains(string(text), ") Z ") { // dead, and not reaped yet, will do
		t.Errorf("process %d is left: %s", far, text)
	}
}

// Each group of version 1 alone ends its members, too, and a fork bomb with them.
func TestEndWithoutTheKernelsHelp(t *testing.T) {
	g := group(t, Limits{PIDs: 64})
	for _, dir := range g.Dirs {
		if At(dir).Version() != "v1" {
			continue
		}
		alone := At(dir)
		cmd := member(t, alone, "f() { while :; do setsid sh -c 'sleep 1000' & sleep 0.001; done; }; f & f & f 2>/dev/null")
		cmd.Stderr = nil
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for len(alone.Processes()) < 20 {
			if t.Context().Err() != nil {
				t.Fatal("it did not fork")
			}
		}
		if !alone.End(20 * time.Second) {
			t.Errorf("%v are left", alone.Processes())
		}
		_ = cmd.Wait() // killed
		return
	}
	t.Skip("no hierarchy of version 1 limits processes here")
}
