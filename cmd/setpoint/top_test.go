package main

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/setpointd/setpoint/cmd/setpoint/internal/console"
	"github.com/setpointd/setpoint/cmd/setpoint/internal/top"
	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
)

func waits(kind, id, code, detail string, since int64) *apiv1.Stall {
	s := &apiv1.Stall{
		Subject: &apiv1.Subject{Kind: kind, Id: id}, Code: code, Source: "placement", Since: timestamppb.New(time.Unix(since, 0)), Message: "no node can run it", Clears: "a node joins",
	}
	if detail != "" {
		s.Facts = &apiv1.Facts{Nodes: 1, Excluded: []*apiv1.Exclusion{{Code: code, Detail: detail, Count: 1}}}
	}
	return s
}

// TestTopGroupsStalls holds that what waits for the same is one row, longest first, and what waits as it should comes last.
func TestTopGroupsStalls(t *testing.T) {
	shot := &topShot{status: &apiv1.GetStatusResponse{Ready: true}, causes: causesOf([]*apiv1.Stall{
		waits("slot", "web/9", "waiting_for_turn", "", 100), waits("task", "a/1/1", "constraint", "node.labels.disk == ssd", 200),
		waits("task", "b/1/1", "constraint", "node.labels.gpu == a100", 300), waits("task", "a/2/1", "constraint", "node.labels.disk == ssd", 400), waits("plugin", "drain", "plugin_timeout", "", 500),
	})}
	s := shot.Screen(time.Unix(1000, 0), console.Style{}).Sections[0]
	var got []string
	for _, r := range s.Rows {
		got = append(got, strings.Join(r.Cells, " | "))
	}
	want := []string{
		"! constraint | 2 tasks | 13m | node.labels.disk == ssd | a node joins", "! constraint | b/1/1 | 11m | no node can run it | a node joins",
		"! plugin_timeout | plugin drain | 8m20s | no node can run it | a node joins", "  waiting_for_turn | web/9 | 15m | no node can run it | a node joins",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Note != "! 4 things wait, 3 causes" {
		t.Errorf("note %q", s.Note)
	}
}

// How far an update has come is drawn and said, and only while it goes on.
func TestTopShowsUpdates(t *testing.T) {
	j := webJob("updating", 2, 3)
	j.Update = &apiv1.Update{State: "updating", From: 1, To: 2, Total: 10, Moved: 4}
	if got, want := movement(j), "████······ updating, version 1 to 2, 4 of 10 moved"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j.Update.State = "completed"
	if got := movement(j); got != "" {
		t.Errorf("a complete update is shown as %q", got)
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	newFake(t).run(t, "top").expect(t, exitRefused, nil, []string{"top needs a terminal", "setpoint status"})
}

// Details are what the commands print.
func TestTopDetails(t *testing.T) {
	f := newFake(t)
	f.wait(ssdStall())
	f.job = func() (*apiv1.Job, error) { return webJob("stalled", 1, 2), nil }
	f.node = func() *apiv1.Node { return zoneNode("ready") }
	f.tasks = func(*apiv1.ListTasksRequest) *apiv1.ListTasksResponse {
		return &apiv1.ListTasksResponse{Tasks: []*apiv1.Task{{Id: "web/1/5", Job: "web", Slot: "1", Node: "n1", Phase: "running"}}}
	}
	f.why = &apiv1.WhyTaskResponse{Task: &apiv1.Task{Id: "web/3/9", Phase: "stalled"}, Nodes: []*apiv1.WhyNode{{Node: "n2", Reasons: []*apiv1.WhyReason{{Source: "constraint", Code: "constraint", Detail: "fails disk"}}}}}
	a := &app{env: func(string) string { return "" }, dataDir: string(f.dir)}
	s, err := a.connect()
	if err != nil {
		t.Fatal(err)
	}
	x := &topSource{s}
	for _, tt := range []struct {
		section, key string
		want         []string
	}{
		{topStalls, "constraint|placement|node.labels.disk == ssd", []string{"web/3/9 stalled 4h: constraint", "n2    constraint  constraint  fails disk"}},
		{topStalls, "gone", []string{"Nothing waits for this any more."}},
		{topJobs, "web", []string{"replicated, version 1", "2/3", "web/3/9 stalled"}},
		{topNodes, "n1", []string{"availability  active", "web/1/5  n1    running"}},
	} {
		text, err := x.Detail(t.Context(), tt.section, tt.key, console.Style{})
		if err != nil {
			t.Errorf("%s %s: %v", tt.section, tt.key, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s lacks %q:\n%s", tt.section, tt.key, want, text)
			}
		}
	}
}

// However long the names are, what matters of a row is in a window of 80 columns: names are shortened first.
func TestTopLongNames(t *testing.T) {
	long := strings.Repeat("n", 63)
	j, n, stall := webJob("stalled", 1, 2), zoneNode("silent"), ssdStall()
	j.Name, n.Name, stall.Subject.Id = long, long, long+"/1/9"
	shot := &topShot{status: &apiv1.GetStatusResponse{}, causes: causesOf([]*apiv1.Stall{stall}), jobs: []*apiv1.Job{j}, nodes: []*apiv1.Node{n}}
	for i, want := range []string{"no node", "stalled", "silent"} {
		s := shot.Screen(time.Now(), console.Style{}).Sections[i]
		table := console.NewTable(s.Headings...).Long(s.Long...)
		table.Row(s.Rows[0].Cells...)
		var text strings.Builder
		table.Write(&text, console.Style{Columns: 76})
		_, row, _ := strings.Cut(text.String(), "\n")
		if !strings.Contains(console.Cut(row, 76), want) {
			t.Errorf("%s lack %q:\n%s", s.Name, want, text.String())
		}
	}
}

// Somebody whom the server does not let in any more is not shown what was before as if there were no answer.
func TestTopEndsWhereItIsRefused(t *testing.T) {
	f := newFake(t)
	f.status = func() (*apiv1.GetStatusResponse, error) {
		return nil, connect.NewError(connect.CodeUnauthenticated, errorText("the certificate was revoked"))
	}
	a := &app{env: func(string) string { return "" }, dataDir: string(f.dir)}
	s, err := a.connect()
	if err != nil {
		t.Fatal(err)
	}
	err = (&topSource{s}).Watch(t.Context(), func(_ top.Shot, err error) { t.Errorf("shown: %v", err) })
	if err == nil || !strings.Contains(err.Error(), "the certificate was revoked") {
		t.Errorf("got %v", err)
	}
}
