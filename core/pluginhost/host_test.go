package pluginhost

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// verdictOn waits for a class's answer that is no failure.
func verdictOn(t *testing.T, r *running, session uint64, id uint32) engine.ClassVerdict {
	t.Helper()
	var out engine.ClassVerdict
	await(t, r.engine, "class is answered", func(in engine.PluginVerdicts) bool {
		for _, v := range in.Classes {
			if in.Session == session && v.Class == id && v.Failure == nil {
				out = v
				return true
			}
		}
		return false
	})
	return out
}

func TestPluginAnswers(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}, Version: "v1"})
	up := r.up(t, "pool", 0)
	want := engine.PluginUp{
		Name: "pool", Session: 1, Version: "1.2.3", Filter: true, Drainer: true, JobTypes: []string{"pools"}, Watches: cluster.Mask(cluster.FieldLabels),
	}
	if diff := cmp.Diff(want, up); diff != "" {
		t.Errorf("up (-want +got):\n%s", diff)
	}
	u := first(up)
	u.AddClasses = []engine.Class{class(1, `{"pool":"a"}`), class(2, ""), class(3, `{"pool":"nowhere"}`), class(4, `{"pool":"fails"}`)}
	u.AddJobs = []engine.PluginJob{{Name: "j", Revision: 6, Type: "pools", Count: 1}}
	u.Drains = []engine.DrainQuestion{{ID: 1, Revision: 7, Node: 1, Tasks: []engine.DrainTask{
		{Task: task("web/1/3", cluster.DesiredRunning)}, {Task: task("kept/1/4", cluster.DesiredRunning)},
	}}}
	r.Update(u)

	v := verdictOn(t, r, 1, 1)
	wantFull := &engine.FullVerdict{
		Allowed: []byte{1}, Rejections: []engine.Rejection{{Code: "pool.other_pool", Detail: "pool is not a", Evicts: true}}, Nodes: []uint32{1}, Reasons: []uint32{0},
	}
	if diff := cmp.Diff(wantFull, v.Full); diff != "" || v.ClassRevision != 5 {
		t.Errorf("class 1 at revision %d (-want +got):\n%s", v.ClassRevision, diff)
	}
	if v := verdictOn(t, r, 1, 2); !v.Indifferent {
		t.Errorf("class 2: %+v, want indifferent", v)
	}
	if v := verdictOn(t, r, 1, 3); v.Stall == nil || v.Stall.Code != "pool.no_pool" || v.Stall.Message != `there is no pool "nowhere"` {
		t.Errorf("class 3: %+v", v.Stall)
	}
	failed := await(t, r.engine, "class 4 fails", func(in engine.PluginVerdicts) bool { return in.Classes[len(in.Classes)-1].Failure != nil })
	if f := failed.Classes[len(failed.Classes)-1]; f.Class != 4 || f.Failure.Code != cluster.CodePluginError || !strings.Contains(f.Failure.Message, "pool service is away") {
		t.Errorf("class 4: %+v", f.Failure)
	}
	slots := await(t, r.engine, "slots", func(engine.PluginSlots) bool { return true })
	wantSlots := engine.PluginSlots{
		Name: "pool", Session: 1, Revision: 7, Job: "j", JobRevision: 6,
		Upsert: []engine.SlotAnswer{{Key: "on-n1", Nodes: []uint32{0}}, {Key: "on-n2", Nodes: []uint32{1}}},
	}
	if diff := cmp.Diff(wantSlots, slots); diff != "" {
		t.Errorf("slots (-want +got):\n%s", diff)
	}
	drain := await(t, r.engine, "drain answer", func(engine.PluginDrain) bool { return true })
	wantDrain := engine.PluginDrain{
		Name: "pool", Session: 1, Question: 1,
		Transitions: []cluster.Transition{{
			Task: "web/1/3", To: cluster.DesiredShutdown, Strength: cluster.Voluntary, Reason: "node drains", By: "pool", Grace: -1,
		}},
		Kept: []engine.KeptAnswer{{Task: "kept/1/4", Stall: engine.StallAnswer{Code: "pool.precious", Message: "it is precious"}}},
	}
	if diff := cmp.Diff(wantDrain, drain); diff != "" {
		t.Errorf("drain (-want +got):\n%s", diff)
	}
	await(t, r.engine, "revision 7 is applied", func(in engine.PluginApplied) bool { return in.Revision == 7 })

	r.Update(engine.PluginUpdate{Plugin: "pool", Session: 1, Revision: 9, Nodes: []engine.IndexedNode{
		{Index: 1, Node: node("n2", map[string]string{"pool": "a"})}, {Index: 0},
	}})
	flips := await(t, r.engine, "flips", func(in engine.PluginVerdicts) bool { return in.Revision == 9 && in.Classes[0].Flips != nil })
	if diff := cmp.Diff(&engine.FlipVerdict{Nodes: []uint32{1}, Reasons: []uint32{0}}, flips.Classes[0].Flips); diff != "" {
		t.Errorf("flips (-want +got):\n%s", diff)
	}
	await(t, r.engine, "revision 9 is applied", func(in engine.PluginApplied) bool { return in.Revision == 9 })
	await(t, r.engine, "slot is removed", func(in engine.PluginSlots) bool {
		return in.Delta && slices.Equal(in.Remove, []cluster.SlotKey{"on-n1"}) && len(in.Upsert) == 0
	})
	st := r.Status()[0]
	if st.State != StateRunning || st.PID == 0 || st.Version != "1.2.3" || st.Classes != 4 || st.Jobs != 1 || st.Protocol != 1 || len(st.Digest) != 64 || st.Latency.Samples != 2 {
		t.Errorf("status %+v", st)
	}
	if downs := all[engine.PluginDown](r.engine); len(downs) != 0 {
		t.Errorf("the engine was told %+v", downs)
	}
}

func task(id cluster.TaskID, desired cluster.DesiredState) *cluster.Task {
	job, slot, rev, err := id.Parts()
	if err != nil {
		panic(err)
	}
	return &cluster.Task{ID: id, Job: job, Slot: slot, CreatedRev: rev, Desired: cluster.Desired{State: desired}}
}

func TestEmptyClusterIsApplied(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	r.Update(engine.PluginUpdate{Plugin: "pool", Session: up.Session, Reset: true})
	await(t, r.engine, "revision 0 is applied", func(in engine.PluginApplied) bool { return in.Revision == 0 })
}

func TestKilledPluginIsBackWithinTwoSeconds(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	u := first(up)
	u.AddClasses = []engine.Class{class(1, `{"pool":"a"}`)}
	r.Update(u)
	verdictOn(t, r, up.Session, 1)
	pid := r.Status()[0].PID
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := r.up(t, "pool", up.Session)
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("back after %s", took)
	}
	var order []engine.Input
	for _, in := range r.engine.inputs() {
		switch in.(type) {
		case engine.PluginUp, engine.PluginDown:
			order = append(order, in)
		}
	}
	down, ok := order[1].(engine.PluginDown)
	if len(order) != 3 || !ok || down.Session != up.Session || down.Code != cluster.CodePluginUnavailable || !strings.Contains(down.Message, "SIGKILL") {
		t.Errorf("the engine was told %+v", order)
	}
	u = first(again)
	u.AddClasses = []engine.Class{class(1, `{"pool":"b"}`)}
	r.Update(u)
	if v := verdictOn(t, r, again.Session, 1); !slices.Equal(v.Full.Nodes, []uint32{0}) {
		t.Errorf("the new session refuses %v", v.Full.Nodes)
	}
	if st := r.Status()[0]; st.Restarts != 1 || st.PID == pid || st.State != StateRunning || st.LastError != "" {
		t.Errorf("status %+v", st)
	}
}

func TestHangInOneClassDelaysNoOther(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	u := first(up)
	u.AddClasses = []engine.Class{class(1, `{"pool":"never"}`), class(2, `{"pool":"a"}`)}
	r.Update(u)
	verdictOn(t, r, up.Session, 2)
	await(t, r.engine, "class 1 is late", func(in engine.PluginVerdicts) bool {
		v := in.Classes[0]
		return v.Class == 1 && v.Failure != nil && v.Failure.Code == cluster.CodePluginTimeout
	})
	r.Update(engine.PluginUpdate{Plugin: "pool", Session: up.Session, Revision: 8, Nodes: []engine.IndexedNode{{Index: 0, Node: node("n1", nil)}}})
	await(t, r.engine, "the other class is judged", func(in engine.PluginVerdicts) bool { return in.Revision == 8 && in.Classes[0].Class == 2 })
	applied := await(t, r.engine, "applied", func(in engine.PluginApplied) bool { return in.Revision == 8 })
	if diff := cmp.Diff([]uint32{1}, applied.LateClasses); diff != "" {
		t.Errorf("late (-want +got):\n%s", diff)
	}
	if r.Status()[0].Restarts != 0 {
		t.Error("the plugin was restarted")
	}
}

func TestFrozenPluginIsReplaced(t *testing.T) {
	p := played("pool")
	p.Timeout = 200 * time.Millisecond
	r := run(t, Config{Plugins: []Plugin{p}})
	up := r.up(t, "pool", 0)
	r.Update(first(up))
	await(t, r.engine, "applied", func(in engine.PluginApplied) bool { return in.Revision == 7 })
	if err := syscall.Kill(r.Status()[0].PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.Update(engine.PluginUpdate{Plugin: "pool", Session: up.Session, Revision: 8, Nodes: []engine.IndexedNode{{Index: 0, Node: node("n1", nil)}}})
	down := await(t, r.engine, "down", func(engine.PluginDown) bool { return true })
	// On a busy machine it is a ping that finds out first.
	if down.Code != cluster.CodePluginTimeout || !strings.Contains(down.Message, "has not applied revision 8") && !strings.Contains(down.Message, "ping") {
		t.Errorf("down: %+v", down)
	}
	r.up(t, "pool", up.Session)
}

func TestStopIsBounded(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool"), played("deaf")}})
	r.up(t, "pool", 0)
	r.up(t, "deaf", 0)
	for _, st := range r.Status() {
		if st.Name == "pool" {
			if err := syscall.Kill(st.PID, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopped after %s", took)
	}
	for _, st := range r.Status() {
		if st.State != StateStopped || st.PID != 0 {
			t.Errorf("status %+v", st)
		}
	}
}

func TestLiarIsEnded(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("liar"), played("pool")}})
	up := r.up(t, "liar", 0)
	r.Update(first(up))
	down := await(t, r.engine, "down", func(in engine.PluginDown) bool { return in.Name == "liar" })
	if down.Code != cluster.CodePluginInvalid || !strings.Contains(down.Message, "revision 1000, which it was not told of") {
		t.Errorf("down: %+v", down)
	}
	if len(all[engine.PluginApplied](r.engine)) != 0 {
		t.Error("the engine was told of it")
	}
	r.up(t, "liar", up.Session)
	r.up(t, "pool", 0)
}

func TestFailedStarts(t *testing.T) {
	absent := played("absent")
	absent.Command.Path = "/nonexistent/plugin"
	refused := played("pool")
	refused.Name = "refused"
	refused.ConfigJSON = func(*pluginv1.Schema) (string, []Diagnostic) { return `{"pools":["earth","mars"]}`, nil }
	refused.Locate = func([]*pluginv1.PathStep) string { return "setpoint.hcl:8,30" }
	undecoded := played("pool")
	undecoded.Name = "undecoded"
	undecoded.ConfigJSON = func(s *pluginv1.Schema) (string, []Diagnostic) {
		return "", []Diagnostic{{Warning: true, Summary: "Old name"}, {Summary: "Unknown key", Detail: s.Attributes[0].Name + " is meant", Where: "setpoint.hcl:9,1"}}
	}
	r := run(t, Config{
		Plugins: []Plugin{absent, refused, undecoded, played("old"), played("crash")},
		Restart: RestartPolicy{Min: time.Millisecond, Max: 10 * time.Millisecond, Healthy: time.Minute, Window: time.Minute, Limit: 3},
	})
	for name, want := range map[string]struct {
		code cluster.Code
		says []string
	}{
		"absent":    {cluster.CodePluginUnavailable, []string{"/nonexistent/plugin"}},
		"refused":   {cluster.CodePluginUnavailable, []string{"setpoint.hcl:8,30: pools[1]: Unknown pool: There is no pool on Mars.", "config validate"}},
		"undecoded": {cluster.CodePluginUnavailable, []string{"setpoint.hcl:9,1: Unknown key: pools is meant"}},
		"old":       {cluster.CodePluginInvalid, []string{"version 99", "upgrade the host"}},
		"crash":     {cluster.CodePluginUnavailable, []string{"exited with status 3", "no licence found"}},
	} {
		down := await(t, r.engine, name+" is down", func(in engine.PluginDown) bool { return in.Name == name })
		if down.Code != want.code || down.Session != 0 || slices.ContainsFunc(want.says, func(s string) bool { return !strings.Contains(down.Message, s) }) {
			t.Errorf("%s: %+v, want %s with %q", name, down, want.code, want.says)
		}
		await(t, r.engine, name+" is in a crash loop", func(in engine.PluginDown) bool {
			return in.Name == name && strings.Contains(in.Message, "failed 3 times within 1m0s and is tried again every 10ms")
		})
	}
	eventually(t, "five failures", func() bool { return r.Status()[4].Restarts >= 5 })
	downs := 0
	for _, d := range all[engine.PluginDown](r.engine) {
		if d.Name == "crash" {
			downs++
		}
	}
	if downs != 2 {
		t.Errorf("the engine was told %d times of two states", downs)
	}
	if st := r.Status()[4]; st.State != StateCrashLoop || !strings.Contains(st.LastError, "no licence found") {
		t.Errorf("status %+v", st)
	}
}

func TestRestartOnRequest(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	if err := r.Restart("pool"); err != nil {
		t.Fatal(err)
	}
	r.up(t, "pool", up.Session)
	down := all[engine.PluginDown](r.engine)
	if len(down) != 1 || !strings.Contains(down[0].Message, "restarted by an operator") || r.Status()[0].Restarts != 0 {
		t.Errorf("the engine was told %+v; status %+v", down, r.Status()[0])
	}
	if err := r.Restart("other"); err == nil {
		t.Error("an unknown plugin was restarted")
	}
}

func TestCheckJob(t *testing.T) {
	absent := played("absent")
	absent.Command.Path = "/nonexistent/plugin"
	r := run(t, Config{Plugins: []Plugin{played("pool"), absent}})
	r.up(t, "pool", 0)
	spec := &cluster.JobSpec{Name: "j", Type: cluster.TypeReplicated, Plugins: []cluster.PluginSettings{
		{Plugin: "absent", JSON: `{"what":"ever"}`}, {Plugin: "pol", JSON: `{}`}, {Plugin: "pool", JSON: `{"pool":"a","also":["b","mars"]}`},
	}}
	want := []cluster.Problem{
		{Path: `plugin["pol"]`, Summary: "Unknown plugin", Detail: `Did you mean "pool"? Configured are: pool, absent.`},
		{Path: `plugin["pool"].also[1]`, Summary: "Unknown pool", Detail: "There is no pool on Mars."},
	}
	if diff := cmp.Diff(want, r.CheckJob(t.Context(), spec)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestCheckJobWhilePluginIsAway(t *testing.T) {
	h := New(Config{
		Plugins: []Plugin{played("pool")},
		CheckSettings: func(s *pluginv1.Schema, settings string) []Diagnostic {
			return []Diagnostic{
				{Summary: s.Description + settings, Path: []*pluginv1.PathStep{{Step: &pluginv1.PathStep_Attribute{Attribute: "pool"}}}},
				{Warning: true, Summary: "not shown"},
			}
		},
	})
	spec := &cluster.JobSpec{Plugins: []cluster.PluginSettings{{Plugin: "pool", JSON: "{}"}}}
	if p := h.CheckJob(t.Context(), spec); len(p) != 0 {
		t.Errorf("without a schema: %v", p)
	}
	h.supervisors["pool"].about = &description{job: &pluginv1.Schema{Description: "last known: "}}
	want := []cluster.Problem{{Path: `plugin["pool"].pool`, Summary: "last known: {}"}}
	if diff := cmp.Diff(want, h.CheckJob(t.Context(), spec)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestValidateConfigs(t *testing.T) {
	good, bad, gone := played("pool"), played("pool"), played("crash")
	bad.Name = "bad"
	bad.ConfigJSON = func(*pluginv1.Schema) (string, []Diagnostic) { return `{"pools":["mars"]}`, nil }
	worse := played("pool") // something does not fit its schema besides
	worse.Name = "worse"
	worse.ConfigJSON = func(*pluginv1.Schema) (string, []Diagnostic) {
		return `{"pools":["mars"]}`, []Diagnostic{{Summary: "Unsupported argument", Detail: "There is no pol."}}
	}
	h := New(Config{Launcher: newLauncher(t), Plugins: []Plugin{good, bad, gone, worse}})
	out := h.ValidateConfigs(t.Context())
	if len(out) != 4 || !out[0].OK() || out[0].Version != "1.2.3" {
		t.Fatalf("validations %+v", out)
	}
	const mars, taken = "pools[0]: Unknown pool: There is no pool on Mars.", `Job type "pools" is served twice: Plugin bad serves it too, and is asked about such jobs because its name comes first.`
	for i, want := range [][]string{{taken}, {mars}, nil, {"Unsupported argument: There is no pol.", mars, taken}} {
		var got []string
		for _, d := range out[i].Diagnostics {
			got = append(got, d.String())
		}
		if !slices.Equal(got, want) || i == 1 && (out[i].OK() || out[i].Err != nil) {
			t.Errorf("%s: %q, %v, want %q", out[i].Plugin, got, out[i].Err, want)
		}
	}
	if out[2].OK() || out[2].Err == nil || !strings.Contains(out[2].Err.Error(), "no licence found") {
		t.Errorf("gone: %+v", out[2])
	}
}

func TestTrial(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	if _, err := r.Trial(t.Context(), "pool", []engine.Class{class(1, `{"pool":"a"}`)}, nil); err == nil {
		t.Error("a plugin without nodes answered")
	}
	r.Update(first(up))
	as := []engine.IndexedNode{{Index: 1, Node: node("n2", map[string]string{"pool": "a"})}, {Index: 2, Node: node("n3", nil)}}
	got, err := r.Trial(t.Context(), "pool", []engine.Class{class(8, `{"pool":"a"}`), class(9, "")}, as)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Class != 8 || !slices.Equal(got[0].Full.Allowed, []byte{3}) || !slices.Equal(got[0].Full.Nodes, []uint32{2}) || !got[1].Indifferent {
		t.Errorf("trial: %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Trial(ctx, "pool", []engine.Class{class(8, `{"pool":"never"}`)}, nil); err == nil {
		t.Error("a trial that never ends was answered")
	}
	if len(all[engine.PluginVerdicts](r.engine)) != 0 {
		t.Error("the engine heard of a trial")
	}
}
