package pluginhost

import (
	"slices"
	"sync"
	"testing"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// A plugin is asked about a state that might be, while it serves, and the engine hears nothing of that.
func TestConverseAside(t *testing.T) {
	r := run(t, Config{Plugins: []Plugin{played("pool")}})
	up := r.up(t, "pool", 0)
	u := first(up)
	u.AddClasses = []engine.Class{class(1, `{"pool":"a"}`)}
	r.Update(u)
	verdictOn(t, r, up.Session, 1)
	heard := &recorder{}
	talk, err := r.Converse(t.Context(), "pool", 77, func(in engine.Input) {
		if err := heard.Send(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	other := first(engine.PluginUp{Name: "pool", Session: 77})
	other.Nodes[1].Node = node("n2", map[string]string{"pool": "a"})
	other.AddClasses = []engine.Class{class(1, `{"pool":"a"}`), class(2, `{"pool":"b"}`)}
	other.Drains = []engine.DrainQuestion{{ID: 9, Revision: 7, Node: 1, Tasks: []engine.DrainTask{{Task: task("web/1/3", cluster.DesiredRunning)}}}}
	talk.Tell(other)
	v := await(t, heard, "class is judged aside", func(in engine.PluginVerdicts) bool {
		return slices.ContainsFunc(in.Classes, func(c engine.ClassVerdict) bool { return c.Class == 1 && c.Full != nil })
	})
	if v.Session != 77 || !slices.Equal(v.Classes[slices.IndexFunc(v.Classes, func(c engine.ClassVerdict) bool { return c.Class == 1 })].Full.Allowed, []byte{3}) {
		t.Errorf("verdicts %+v", v)
	}
	await(t, heard, "drain is answered aside", func(in engine.PluginDrain) bool { return in.Question == 9 && len(in.Transitions) == 1 })
	await(t, heard, "all is answered aside", func(in engine.PluginApplied) bool { return in.Revision == 7 })
	talk.Close()
	var once sync.WaitGroup // a second conversation, closed before it says anything
	once.Go(func() {
		second, err := r.Converse(t.Context(), "pool", 78, func(engine.Input) {})
		if err != nil {
			t.Error(err)
			return
		}
		second.Close()
	})
	once.Wait()
	for _, in := range all[engine.PluginVerdicts](r.engine) {
		if in.Session != up.Session {
			t.Errorf("the engine heard what was said aside: %+v", in)
		}
	}
	next := engine.PluginUpdate{Plugin: "pool", Session: up.Session, AddClasses: []engine.Class{class(5, `{"pool":"b"}`)}}
	r.Update(next)
	if v := verdictOn(t, r, up.Session, 5); !slices.Equal(v.Full.Allowed, []byte{2}) {
		t.Errorf("the session in which it serves goes by another mirror now: %+v", v)
	}
	if _, err := r.Converse(t.Context(), "none", 1, func(engine.Input) {}); err == nil {
		t.Error("a conversation with a plugin that there is none of")
	}
}
