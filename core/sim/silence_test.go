package sim_test

import (
	"testing"
	"time"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/core/sim"
	"github.com/setpointd/setpoint/sdk/cluster"
)

func starts(w *sim.World) int {
	n := 0
	for _, a := range w.Agents {
		n += a.Starts
	}
	return n
}

func silent(w *sim.World, yes bool, agents ...*sim.Agent) {
	for _, a := range agents {
		a.Silent = yes
		w.Run(150 * time.Millisecond) // not all at the same moment
	}
}

func massSilence(w *sim.World) bool {
	return len(w.State().StallsOf(cluster.Subject{Kind: cluster.SubjectCluster, ID: "nodes"})) > 0
}

func TestSilenceOfAllReplacesNothing(t *testing.T) {
	w := newWorld(t, 10)
	w.MustDo(engine.RunJob{Spec: job("web", 30, nil)})
	if !w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 30 }) {
		t.Fatal("not up")
	}
	before := starts(w)
	silent(w, true, w.Agents...)
	if !w.RunUntil(5*time.Second, func() bool { return massSilence(w) }) {
		t.Fatal("nothing says that all are silent")
	}
	w.Run(30 * time.Second)
	silent(w, false, w.Agents...)
	if !w.RunUntil(5*time.Second, func() bool { return !massSilence(w) }) {
		t.Fatal("it is still said that all are silent")
	}
	w.Run(20 * time.Second)
	if got := starts(w); got != before || up(w, "web") != 30 {
		t.Errorf("%d starts, %d up; want none and 30", got-before, up(w, "web"))
	}
}

func TestThoseThatStaySilentAreReplaced(t *testing.T) {
	w := newWorld(t, 10)
	w.MustDo(engine.RunJob{Spec: job("web", 30, nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 30 })
	before := starts(w)
	silent(w, true, w.Agents...)
	w.Run(30 * time.Second)
	silent(w, false, w.Agents[2:]...)
	spoke := w.Now()
	ready := func(a *sim.Agent) bool { return w.State().Node(a.Node).Status.State == cluster.NodeReady }
	ok := w.RunUntil(15*time.Second, func() bool {
		if ready(w.Agents[0]) || ready(w.Agents[1]) {
			t.Fatal("a node that did not speak counts as ready")
		}
		return starts(w) == before+6 && up(w, "web") == 30
	})
	if !ok {
		t.Errorf("%d starts %s after the others spoke, %d up; want 6 and 30", starts(w)-before, w.Now().Sub(spoke), up(w, "web"))
	}
}

func TestSilenceOfFewIsLoss(t *testing.T) {
	w := newWorld(t, 10)
	w.MustDo(engine.RunJob{Spec: job("web", 30, nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 30 })
	silent(w, true, w.Agents[:4]...)
	if !w.RunUntil(10*time.Second, func() bool {
		return up(w, "web") == 30 && w.State().Node(w.Agents[0].Node).Status.State == cluster.NodeDown
	}) {
		t.Errorf("up %d, want all replaced", up(w, "web"))
	}
	if massSilence(w) {
		t.Error("4 of 10 are no mass")
	}
	silent(w, true, w.Agents[4:7]...) // and 3 more soon after: 3 of the 10 that were ready a minute ago
	if !w.RunUntil(10*time.Second, func() bool { return w.State().Node(w.Agents[6].Node).Status.State == cluster.NodeDown }) || massSilence(w) {
		t.Error("3 of 10 are no mass")
	}
}

func TestConfirmDownEndsMassSilence(t *testing.T) {
	w := newWorld(t, 4)
	w.MustDo(engine.RunJob{Spec: job("web", 4, nil)})
	w.RunUntil(5*time.Second, func() bool { return up(w, "web") == 4 })
	silent(w, true, w.Agents[:3]...)
	w.Run(10 * time.Second)
	if !massSilence(w) {
		t.Fatal("3 of 4 are a mass")
	}
	w.MustDo(engine.ConfirmDown{Nodes: []string{"n1", "n2"}})
	if !w.RunUntil(10*time.Second, func() bool { return up(w, "web") == 4 }) || massSilence(w) {
		t.Errorf("up %d after two of three were confirmed to be down", up(w, "web"))
	}
}
