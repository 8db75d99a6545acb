package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// TestCompletion holds what the shells' scripts are given.
func TestCompletion(t *testing.T) {
	f := newFake(t)
	f.node = func() *apiv1.Node { return zoneNode("ready") }
	f.job = func() (*apiv1.Job, error) {
		j := webJob("running", 2, 3)
		j.Versions = []*apiv1.JobVersion{{Version: 1, Reason: "submitted"}, {Version: 2, Reason: "scaled"}}
		return j, nil
	}
	f.tasks = func(req *apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		if req.GetJob() != "web" {
			t.Errorf("asked for the tasks of %q", req.GetJob())
		}
		return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{
			{Id: "web/1/5", Job: "web", Slot: "1", Phase: "stopped"}, {Id: "web/1/9", Job: "web", Slot: "1", Phase: "running"}, {Id: "web/2/5", Job: "web", Slot: "2", Phase: "stalled"},
		}}
	}
	f.wait(ssdStall())
	const nothing, noFiles, noSpace = "", ":4", ":6"
	for _, tt := range []struct {
		typed string // a dash at the end: nothing yet of the last word
		want  []string
	}{
		{"job stop -", []string{"web\treplicated, running", noFiles}},
		{"job stop w", []string{"web\treplicated, running", noFiles}},
		{"job stop x", []string{noFiles}},
		{"job stop web -", []string{noFiles}},
		{"job rollback web --to -", []string{"1\tsubmitted", "2\tscaled", noFiles}},
		{"job history web 1 -", []string{"2\tscaled", noFiles}},
		{"task logs w", []string{"web/\treplicated, running", noSpace}},
		{"task logs web/", []string{"web/1\trunning", "web/2\tstalled", noFiles}},
		{"task logs web/1/", []string{"web/1/5\tstopped", "web/1/9\trunning", noFiles}},
		{"task ls --job -", []string{"web\treplicated, running", noFiles}},
		{"node drain -", []string{"n1\tready, active", noFiles}},
		{"node drain n1 -", []string{noFiles}}, // it is named already
		{"node label n1 -", []string{"disk=\tis ssd", "zone=\tis a", noSpace}},
		{"stalls --code -", []string{"constraint", noFiles}},
		{"job ls -o -", []string{"table", "wide", "json", "yaml", "name", noFiles}},
		{"job ls -", []string{noFiles}},
		{"completion -", []string{"bash", "fish", "zsh", noFiles}},
		{"job run -", []string{":0"}}, // a file
	} {
		t.Run(tt.typed, func(t *testing.T) {
			words := strings.Fields(strings.TrimSuffix(tt.typed, " -"))
			if strings.HasSuffix(tt.typed, " -") {
				words = append(words, nothing)
			}
			r := execute(t, "", append([]string{"__complete", "--data-dir", string(f.dir)}, words...)...)
			if got := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != exitDone || strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("exit code %d, got %q, want %q", r.code, got, tt.want)
			}
		})
	}
}

// A server that is not there, or does not answer, completes nothing, soon and without a word.
func TestCompletionWithoutAServer(t *testing.T) {
	f := newFake(t)
	hang := make(chan struct{})
	f.refuse = func() bool { <-hang; return true }
	defer close(hang)
	for name, dir := range map[string]string{"none": t.TempDir(), "silent": string(f.dir)} {
		began := time.Now()
		r := execute(t, "", "__complete", "--data-dir", dir, "job", "stop", "")
		if r.code != exitDone || r.out != ":4\n" || strings.Contains(r.errOut, "rror") {
			t.Errorf("%s: exit code %d, %q, %q", name, r.code, r.out, r.errOut)
		}
		if took := time.Since(began); took > 10*completionPatience {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for shell, text := range map[string]string{"bash": "__start_setpoint", "zsh": "#compdef setpoint", "fish": "complete -c setpoint"} {
		execute(t, "", "completion", shell).expect(t, exitDone, []string{text}, nil)
	}
	execute(t, "", "completion", "tcsh").expect(t, exitRefused, nil, []string{`no completion for "tcsh"`, "bash, zsh or fish"})
}

// TestEveryNameIsCompleted holds that each command whose argument names something that there is completes it.
func TestEveryNameIsCompleted(t *testing.T) {
	creates := map[string]bool{"secret create": true, "plugin new": true, "plugin serve": true, "plugin record": true, "plugin run": true}
	lists := argumentNames()
	takesName := regexp.MustCompile(`^\S+ (\[FLAGS\] )?(NAME|ID|SERIAL)`)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "setpoint ")
		if takesName.MatchString(cmd.Use) && !creates[path] && lists[path] == nil {
			t.Errorf("%s completes nothing", path)
		}
		delete(lists, path)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
	for path := range lists {
		t.Errorf("%s is no command", path)
	}
}

// A command, a flag or a name that is spelled almost right is asked after.
func TestDidYouMean(t *testing.T) {
	for typed, hint := range map[string]string{
		"jbo ls": "Is `setpoint job` meant?", "job stpo web": "Is `setpoint job stop` meant?", "job list --wacth": "Is --watch meant?", "job ls --outptu json": "Is --output meant?",
		"job ls --zzzzzz": "`setpoint job ls --help` shows what there is.", "job zzzzzz": "`setpoint job --help` shows what there is.",
	} {
		execute(t, "", strings.Fields(typed)...).expect(t, exitRefused, nil, []string{hint})
	}
}
