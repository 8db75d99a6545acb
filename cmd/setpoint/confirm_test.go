package main

import (
	"bytes"
	"strings"
	"testing"

	"connectrpc.com/connect"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

// answer runs a command line on what is taken for a terminal, where somebody types.
func (f *fakeServer) answer(t *testing.T, typed string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{in: strings.NewReader(typed), out: &out, errOut: &errOut, env: func(string) string { return "" }, isTerminal: func(any) bool { return true }}
	code := a.run(t.Context(), append([]string{"--data-dir", string(f.dir)}, args...))
	return result{code, out.String(), errOut.String()}
}

// did reports whether the server was asked to do something, and not only to plan it.
func (f *fakeServer) did() bool {
	for _, req := range f.noted() {
		switch m := req.(type) {
		case *apiv1.PlanRequest:
		case *apiv1.LabelNodeRequest:
			if !m.GetDryRun() {
				return true
			}
		default:
			return true
		}
	}
	return false
}

func TestConfirm(t *testing.T) {
	stops := &apiv1.PlanResponse{Settled: true, Slots: []*apiv1.PlanSlot{
		{Job: "web", Slot: "1", Change: "stop", Task: "web/1/5"},
		{Job: "web", Slot: "2", Change: "move", Task: "web/2/5"},
		{Job: "db", Slot: "1", Change: "move", Task: "db/1/5", Waiting: true},
		{Job: "new", Slot: "1", Change: "create"},
	}}
	const number = "3 tasks would stop, of 2 jobs; 1 of them would be replaced; for 1 no node would be found."
	for _, tt := range []struct {
		name, typed, args string
		plan              *apiv1.PlanResponse
		code              int
		done              bool
		errOut            []string
	}{
		{name: "yes", typed: "y\n", args: "job stop web", plan: stops, done: true, errOut: []string{"setpoint job stop web: " + number, "Go on? [y/N]"}},
		{name: "no", typed: "n\n", args: "job stop web", plan: stops, code: exitRefused, errOut: []string{number, "nothing was done", "--yes"}},
		{name: "no answer", typed: "", args: "node drain n1", plan: stops, code: exitRefused, errOut: []string{"setpoint node drain n1: " + number, "nothing was done"}},
		{name: "something else", typed: "sure\n", args: "job rm web", plan: stops, code: exitRefused, errOut: []string{"nothing was done"}},
		{name: "beforehand", args: "job kill web --yes", plan: stops, done: true},
		{name: "beforehand, short", args: "job scale web 1 -y", plan: stops, done: true},
		{
			name: "replaced", typed: "y\n", args: "task stop web/1", done: true, errOut: []string{"setpoint task stop web/1: 1 task would stop, and be replaced."},
			plan: &apiv1.PlanResponse{Settled: true, Slots: []*apiv1.PlanSlot{{Job: "web", Slot: "1", Change: "replace", Task: "web/1/5"}}},
		},
		{name: "nothing stops", args: "job scale web 9", plan: &apiv1.PlanResponse{Settled: true, Slots: []*apiv1.PlanSlot{{Job: "web", Slot: "9", Change: "create"}}}, done: true},
		{
			name: "for ever", typed: "n\n", args: "node decommission n1 --force", plan: &apiv1.PlanResponse{}, code: exitRefused,
			errOut: []string{"setpoint node decommission n1: the node never comes back, and its tasks are gone: no task is touched."},
		},
		{name: "labels", typed: "n\n", args: "node label n1 disk-", code: exitRefused, errOut: []string{"2 running tasks would move: web/1/5, web/2/5", "nothing was done"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.job = func() (*apiv1.Job, error) { return webJob("running", 1, 3), nil }
			f.node = func() *apiv1.Node { return zoneNode("ready") }
			f.plan = tt.plan
			f.answer(t, tt.typed, strings.Fields(tt.args)...).expect(t, tt.code, nil, tt.errOut)
			if f.did() != tt.done {
				t.Errorf("the server was asked for %v, done should be %t", f.noted(), tt.done)
			}
		})
	}
}

// Without a terminal nobody is asked, and nothing is planned: scripts mean what they say.
func TestConfirmNobody(t *testing.T) {
	f := newFake(t)
	f.job = func() (*apiv1.Job, error) { return webJob("running", 1, 3), nil }
	f.run(t, "job", "stop", "web").expect(t, exitDone, []string{"web: version 1"}, nil)
	if got := f.noted(); len(got) != 1 {
		t.Errorf("the server was asked for %v", got)
	}
}

// What the server would refuse is refused before anybody is asked.
func TestConfirmRefused(t *testing.T) {
	f := newFake(t)
	f.planError = refused(connect.CodeNotFound, `there is no job "wbe"`, &apiv1.ErrorDetail{Code: "not_found", Hint: `Is "web" meant?`})
	f.answer(t, "y\n", "job", "stop", "wbe").expect(t, exitError, nil, []string{`there is no job "wbe"`, `Is "web" meant?`})
	if f.did() {
		t.Errorf("the server was asked for %v", f.noted())
	}
}
