package pluginhost

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/pluginhost/runner"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// busySite is a site on which web runs on n2 and tape waits.
func busySite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.join("n1", "hdd")
	s.join("n2", "ssd")
	s.job("web", cluster.TypeReplicated, 2, "node.labels.disk == ssd")
	s.job("tape", cluster.TypeReplicated, 1, "node.labels.disk == tape")
	s.awaitPlaced("web", "n2", "n2")
	s.runs()
	return s
}

// tasks returns the ids of all tasks.
func (s *site) tasks() []cluster.TaskID {
	var out []cluster.TaskID
	for t := range s.eng.View().Tasks() {
		out = append(out, t.ID)
	}
	return out
}

func (s *site) status(plugin string) Status {
	for _, st := range s.host.Status() {
		if st.Name == plugin {
			return st
		}
	}
	return Status{}
}

// configured returns the plugins of the site with another mode for the constraint plugin.
func configured(mode string) []Plugin {
	constraint := played(mode)
	constraint.Name = "constraint"
	return []Plugin{constraint, played("drain"), played("global")}
}

func TestReload(t *testing.T) {
	s := busySite(t)
	eventually(t, "tape has its reason", func() bool { return s.waits("tape") == cluster.CodeConstraint })
	before, tasks := s.status("constraint"), s.tasks()
	var reasons []cluster.Code
	stop := s.watch(func() { reasons = append(reasons, s.waits("tape")) })
	done, err := s.host.Reload(t.Context(), "constraint")
	if err != nil {
		t.Fatal(err)
	}
	after := s.status("constraint")
	if done.Before.PID != before.PID || done.After.PID == before.PID || done.Comparison.Total != 0 || done.Comparison.Classes != 2 || done.Comparison.Unjudged != 0 {
		t.Errorf("reloaded %+v", done)
	}
	s.job("more", cluster.TypeReplicated, 1, "node.labels.disk == hdd")
	s.awaitPlaced("more", "n1")
	stop()
	if slices.ContainsFunc(reasons, func(c cluster.Code) bool { return c != cluster.CodeConstraint }) {
		t.Errorf("tape waited for %v meanwhile", reasons)
	}
	eventually(t, "the new process serves and the old one is gone", func() bool {
		after = s.status("constraint")
		return after.State == StateRunning && after.PID == done.After.PID && errors.Is(syscall.Kill(before.PID, 0), syscall.ESRCH)
	})
	if after.Restarts != 0 || after.LastError != "" {
		t.Errorf("status %+v", after)
	}
	if now := s.tasks(); !containsAll(now, tasks) {
		t.Errorf("tasks were %v and are %v", tasks, now)
	}
}

func containsAll(all, some []cluster.TaskID) bool {
	return !slices.ContainsFunc(some, func(id cluster.TaskID) bool { return !slices.Contains(all, id) })
}

// waits returns the code that keeps a job's waiting task from most nodes.
func (s *site) waits(job string) (code cluster.Code) {
	for st := range s.eng.View().Stalls() {
		if strings.HasPrefix(st.Subject.ID, job+"@") && len(st.Facts.Excluded) > 0 {
			code = st.Facts.Excluded[len(st.Facts.Excluded)-1].Code
		}
	}
	return code
}

// watch calls look again and again until it is stopped.
func (s *site) watch(look func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				look()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

func TestReloadOfWhatCannotServeChangesNothing(t *testing.T) {
	for mode, want := range map[string]struct {
		cause error
		says  []string
	}{
		"crash": {runner.ErrExited, []string{"exited with status 3", "no licence found", "nothing has changed"}},
		"old":   {nil, []string{"version 99", "upgrade the host", "nothing has changed"}},
		"mute":  {nil, []string{"the verdicts for job web", "nothing has changed"}},
		"liar":  {nil, []string{"revision 1000, which it was not told of", "nothing has changed"}},
	} {
		t.Run(mode, func(t *testing.T) {
			s := busySite(t)
			before := s.status("constraint")
			changes := s.host.Apply(t.Context(), configured(mode))
			if len(changes) != 1 || changes[0].Plugin != "constraint" || changes[0].What != Changed || changes[0].Err == nil {
				t.Fatalf("changes %+v", changes)
			}
			err := changes[0].Err
			if want.cause != nil && !errors.Is(err, want.cause) || slices.ContainsFunc(want.says, func(x string) bool { return !strings.Contains(err.Error(), x) }) {
				t.Errorf("refused: %v", err)
			}
			if after := s.status("constraint"); after.PID != before.PID || after.State != StateRunning || after.Restarts != 0 {
				t.Errorf("status was %+v and is %+v", before, after)
			}
			s.job("more", cluster.TypeReplicated, 1, "node.labels.disk == hdd")
			s.awaitPlaced("more", "n1")
		})
	}
}

func TestApply(t *testing.T) {
	s := busySite(t)
	if changes := s.host.Apply(t.Context(), configured("constraint")); len(changes) != 0 {
		t.Fatalf("nothing changed, and it says %+v", changes)
	}
	changes := s.host.Apply(t.Context(), append(configured("contrary"), played("pool")))
	if len(changes) != 2 || changes[0].Err != nil || changes[1].Err != nil || changes[1].What != Added {
		t.Fatalf("changes %+v", changes)
	}
	if diff := cmp.Diff([]string{"args"}, changes[0].Why); diff != "" || changes[0].Done.After.Version != "9.9.9" || changes[0].Done.Comparison.Total != 2 {
		t.Errorf("changed %+v, why %v", changes[0].Done, changes[0].Why)
	}
	eventually(t, "both serve", func() bool {
		return s.status("constraint").State == StateRunning && s.status("pool").State == StateRunning
	})
	s.do(engine.RunJob{Spec: cluster.JobSpec{
		Name: "swim", Type: cluster.TypeReplicated, Count: 1, Task: cluster.TaskSpec{Driver: "sim", Command: []string{"x"}},
		Plugins: []cluster.PluginSettings{{Plugin: "pool", JSON: `{"pool":"a"}`}},
	}.WithDefaults()})
	eventually(t, "swim waits for the pool", func() bool { return s.waits("swim") == "pool.other_pool" })
	pid := s.status("pool").PID
	changes = s.host.Apply(t.Context(), configured("contrary"))
	if len(changes) != 1 || changes[0].What != Removed || changes[0].Err != nil {
		t.Fatalf("changes %+v", changes)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the removed plugin is still there: %v", err)
	}
	eventually(t, "swim is placed", func() bool { return len(s.placed("swim")) == 1 })
	if names := s.host.Names(); !slices.Equal(names, []string{"constraint", "drain", "global"}) {
		t.Errorf("plugins %v", names)
	}
}

func TestShadow(t *testing.T) {
	s := busySite(t)
	eventually(t, "tape has its reason", func() bool { return s.waits("tape") == cluster.CodeConstraint })
	before := s.status("constraint")
	got, err := s.host.Shadow(t.Context(), "constraint", Candidate{Path: "/proc/self/exe", Args: []string{asPlugin, "contrary"}})
	if err != nil {
		t.Fatal(err)
	}
	got.Revision = 0
	want := Comparison{
		Serving: before.Version, Candidate: "9.9.9", Nodes: 2, Classes: 2, Total: 2,
		Differences: []Difference{
			{
				Kind: DifferentVerdict, Jobs: []string{"tape"}, Node: "n2",
				Serving: "refused: constraint (node.labels.disk == tape), evicts", Candidate: "refused: constraint.full_moon (moon is full)",
			},
			{Kind: DifferentVerdict, Jobs: []string{"web"}, Node: "n2", Serving: "allowed", Candidate: "refused: constraint.full_moon (moon is full)"},
		},
	}
	slices.SortFunc(got.Differences, func(a, b Difference) int { return strings.Compare(a.Jobs[0], b.Jobs[0]) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
	if after := s.status("constraint"); after.PID != before.PID || after.State != StateRunning {
		t.Errorf("status was %+v and is %+v", before, after)
	}
	s.awaitPlaced("web", "n2", "n2")
}

func TestShadowOfADrainer(t *testing.T) {
	s := busySite(t)
	s.do(engine.SetAvailability{Nodes: []string{"n2"}, Availability: cluster.Drain})
	eventually(t, "the drainer has answered", func() bool {
		got, err := s.host.Shadow(t.Context(), "drain", Candidate{Path: "/proc/self/exe", Args: []string{asPlugin, "drain"}})
		if err != nil {
			t.Fatal(err)
		}
		return got.Drains == 1 && got.Unjudged == 0 && got.Total == 0
	})
	got, err := s.host.Shadow(t.Context(), "drain", Candidate{Path: "/proc/self/exe", Args: []string{asPlugin, "keeper"}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Total != 2 || got.Differences[0].Kind != DifferentTransition || got.Differences[0].Candidate != "kept: it is precious" || got.Differences[0].Node != "n2" {
		t.Errorf("compared %+v", got)
	}
}

func TestLogs(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool"), played("crash")}})
	r.up(t, "pool", 0)
	var lines []runner.Line
	collect := func(l []runner.Line) error { lines = append(lines, l...); return nil }
	eventually(t, "the crash is kept", func() bool {
		lines = nil
		return r.Logs(t.Context(), "crash", -1, false, collect) == nil && len(lines) > 1
	})
	if lines[0].Text != "no licence found" || lines[0].Stream != "stderr" || lines[0].PID == 0 || lines[0].At.IsZero() {
		t.Errorf("lines %+v", lines)
	}
	lines = nil
	if err := r.Logs(t.Context(), "crash", 1, false, collect); err != nil || len(lines) != 1 {
		t.Errorf("the last line: %v, %v", lines, err)
	}
	enough := errors.New("enough")
	seen := 0
	err := r.Logs(t.Context(), "crash", 0, true, func(l []runner.Line) error {
		if seen += len(l); seen > 1 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("following: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Logs(ctx, "pool", 0, true, collect); err != nil {
		t.Errorf("given up: %v", err)
	}
	if err := r.Logs(t.Context(), "nobody", 0, false, collect); !errors.Is(err, ErrUnknownPlugin) {
		t.Errorf("unknown: %v", err)
	}
}

func TestLineRingIsBounded(t *testing.T) {
	r := newLineRing()
	for range 3 * maxLines {
		r.add(runner.Line{Text: "x"})
	}
	if lines, next, _ := r.from(0); len(lines) != maxLines || next != 3*maxLines {
		t.Errorf("%d lines up to %d", len(lines), next)
	}
	long := strings.Repeat("x", maxLineBytes/4)
	for range 10 {
		r.add(runner.Line{Text: long})
	}
	if lines, _, _ := r.from(0); len(lines) != 4 || r.bytes > maxLineBytes {
		t.Errorf("%d long lines, %d bytes", len(lines), r.bytes)
	}
}

// What a new version would stop at once is not stopped before somebody has said that it may.
func TestReloadStopsNothingUnconfirmed(t *testing.T) {
	s := busySite(t)
	changes := s.host.Apply(t.Context(), configured("evictor"))
	if len(changes) != 1 || changes[0].Err != nil {
		t.Fatalf("changes %+v", changes)
	}
	held := func() bool {
		for st := range s.eng.View().Stalls() {
			if st.Code == cluster.CodeMassEviction && st.Subject.ID == "constraint" && strings.Contains(st.Message, "would stop 2 of 2 running tasks") {
				return true
			}
		}
		return false
	}
	eventually(t, "the new answers wait to be confirmed", held)
	s.job("more", cluster.TypeReplicated, 1, "node.labels.disk == hdd")
	s.awaitPlaced("more", "n1")
	if !slices.Equal(s.placed("web"), []cluster.NodeID{"n2", "n2"}) || !held() {
		t.Errorf("web is on %v", s.placed("web"))
	}
	s.do(engine.ConfirmPlugin{Plugin: "constraint"})
	eventually(t, "web leaves", func() bool { return !slices.Equal(s.placed("web"), []cluster.NodeID{"n2", "n2"}) })
}
