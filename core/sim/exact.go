package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/setpointd/setpoint/core/engine"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ask has the engine answer a question about the state as it is, apart from whatever waits to be taken.
func (w *World) ask(op engine.Op) (any, error) {
	waiting := w.inputs
	w.inputs = nil
	out := w.step(engine.Command("check", op))
	w.inputs = append(waiting, w.inputs...)
	return out.Replies[0].Result()
}

// CheckLedger compares what the engine holds to be taken on each node with the sum over the tasks there that are not dead.
func (w *World) CheckLedger() {
	st := w.State()
	v, err := w.ask(engine.Inspect{})
	if err != nil {
		panic(err)
	}
	seen := map[cluster.NodeID]bool{}
	for _, use := range v.(engine.InspectResult).Nodes {
		n := st.Node(use.Node)
		if n == nil {
			w.failf("V2: %s has a ledger and no record", use.Node)
			continue
		}
		seen[use.Node] = true
		var sum cluster.Resources
		tasks, ports := 0, map[uint16]cluster.TaskID{}
		for t := range st.TasksOn(use.Node) {
			if t.Dead() {
				continue
			}
			tasks++
			sum = sum.Add(t.Reserve.Resources)
			for _, p := range t.Placement.Ports {
				if other, taken := ports[p.Number]; taken {
					w.failf("V2: port %d of %s is granted to %s and %s", p.Number, use.Node, other, t.ID)
				}
				ports[p.Number] = t.ID
			}
		}
		free := n.Description.Capacity.Sub(sum)
		if !use.Reserved.Equal(sum) || !use.Free.Equal(free) || use.Tasks != tasks || !maps.Equal(use.Ports, ports) {
			w.failf("V2: %s: the ledger says %+v, its tasks take %+v with ports %v, %d tasks", use.Node, use, sum, ports, tasks)
		}
		if free.MilliCPU < 0 || free.Memory < 0 {
			w.failf("V2: %s has %+v free", use.Node, free)
		}
	}
	for n := range st.Nodes() {
		if !seen[n.ID] {
			w.failf("V2: %s has no ledger", n.ID)
		}
	}
}

// checkStalls checks what a turn wrote of stalls: what goes on keeps its beginning, nothing is written twice, and counts add up.
func (w *World) checkStalls(t engine.Turn) {
	before := map[string]*cluster.Stall{}
	for s := range t.Before.Stalls() {
		before[s.Key()] = s
	}
	for _, c := range t.Changes {
		if c, ok := c.Change.(cluster.RemoveStall); ok {
			delete(before, c.Key) // what follows it in the same turn is another waiting
		}
	}
	for s := range t.State.Stalls() {
		old := before[s.Key()]
		switch {
		case old == s:
			continue
		case old == nil:
		case old.Since != s.Since:
			w.failf("V4: %s waits since %s and then since %s", s.Key(), old.Since.Engine, s.Since.Engine)
		case old.Same(s):
			w.failf("V4: %s was written again and says the same", s.Key())
		case old.Changed != s.Changed && old.Code == s.Code && old.Facts.Nodes == s.Facts.Nodes && slices.Equal(old.Facts.Excluded, s.Facts.Excluded):
			w.failf("V4: %s changed at %s, and neither its code nor its counts did", s.Key(), s.Changed.Engine)
		}
		sum := 0
		for _, x := range s.Facts.Excluded {
			sum += x.Count
		}
		if sum != s.Facts.Nodes {
			w.failf("V4: %s counts %d nodes of %d: %+v", s.Key(), sum, s.Facts.Nodes, s.Facts.Excluded)
		}
	}
}

// counted is a reason under which nodes are counted.
type counted struct {
	source string
	code   cluster.Code
}

// CheckReasons compares what is said of each waiting task with what keeps it from every node, looked at one by one.
func (w *World) CheckReasons() {
	st := w.State()
	seen := map[string]bool{}
	for t := range st.Tasks() {
		key := engine.GroupKey(t)
		if t.Placed() || t.Dead() || seen[key] {
			continue
		}
		seen[key] = true
		stalls := st.StallsOf(cluster.Subject{Kind: cluster.SubjectGroup, ID: key})
		v, err := w.ask(engine.Why{Task: t.ID})
		if err != nil || w.State() != st || len(stalls) == 0 {
			continue // something was still to be decided
		}
		want, got := map[counted]int{}, map[counted]int{}
		judged := true
		for _, n := range v.(engine.WhyResult).Nodes {
			if len(n.Reasons) == 0 {
				w.failf("V4: %s waits, and fits on %s", t.ID, n.Name)
				return
			}
			first := n.Reasons[0]
			judged = judged && !slices.ContainsFunc(n.Reasons, func(r engine.WhyReason) bool { return r.Code == cluster.CodePluginPending })
			want[counted{first.Source, first.Code}]++
		}
		if !judged {
			continue // until a filter has judged anew, what was said stands
		}
		for _, x := range stalls[0].Facts.Excluded {
			got[counted{x.Source, x.Code}] += x.Count
		}
		if !maps.Equal(want, got) {
			w.failf("V4: of %s is said %v, and true is %v", t.ID, got, want)
		}
	}
}

// digest is a running hash of everything that was committed.
func (w *World) digest(t engine.Turn) {
	h := sha256.New()
	fmt.Fprintln(h, w.Digest, t.State.Revision, w.now)
	for _, c := range t.Changes {
		b, err := json.Marshal(c.Change)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(h, "%s %T %s\n", c.By, c.Change, b)
	}
	w.Digest = hex.EncodeToString(h.Sum(nil))
}

// settledUpdate returns what is wrong with a job's update that had time to end: one that goes on has to wait for something that says so.
func settledUpdate(st *engine.State, j *cluster.Job) []string {
	var out, old []string
	stalled := false
	for _, s := range st.Slots(j.Name) {
		stalled = stalled || len(st.StallsOf(cluster.Subject{Kind: cluster.SubjectSlot, ID: s.ID()})) > 0
		for _, t := range st.SlotTasks(j.Name, s.Key) {
			if !t.Desired.State.Wanted() || t.Dead() {
				continue
			}
			stalled = stalled || len(st.TaskStalls(t)) > 0
			ended := j.Update.State == cluster.UpdateCompleted || j.Update.State == cluster.UpdateRolledBack
			if ended && !s.Unwanted && !s.Done && s.Held == "" && t.SpecVersion != j.Control.SpecVersion && j.Control.Spec.Numbered() {
				old = append(old, fmt.Sprintf("%s runs version %d after the update to %d ended", t.ID, t.JobVersion, j.Update.To))
			}
		}
	}
	if stalled || j.Control.Stopped {
		return nil
	}
	if j.Update.State == cluster.Updating {
		out = append(out, fmt.Sprintf("the update of %s goes on and waits for nothing: %+v", j.Name, j.Update))
	}
	return append(out, old...)
}

// leftBehind returns records and stalls that name what is no more.
func leftBehind(st *engine.State) []string {
	var out []string
	groups := map[string]bool{}
	for t := range st.Tasks() {
		if st.Job(t.Job) == nil || st.Slot(t.Job, t.Slot) == nil {
			out = append(out, fmt.Sprintf("%s belongs to no slot", t.ID))
		}
		if !t.Placed() && t.Dead() {
			out = append(out, fmt.Sprintf("%s was never placed and is kept", t.ID))
		}
		if !t.Placed() {
			groups[engine.GroupKey(t)] = true
		}
	}
	slots := map[string]bool{}
	for j := range st.Jobs() {
		for _, s := range st.Slots(j.Name) {
			slots[s.ID()] = true
		}
	}
	for s := range st.Stalls() {
		there := true
		switch s.Subject.Kind {
		case cluster.SubjectJob, cluster.SubjectUpdate:
			there = st.Job(s.Subject.ID) != nil
		case cluster.SubjectSlot:
			there = slots[s.Subject.ID]
		case cluster.SubjectGroup:
			there = groups[s.Subject.ID]
		case cluster.SubjectTask:
			there = st.Task(cluster.TaskID(s.Subject.ID)) != nil
		case cluster.SubjectNode:
			there = st.Node(cluster.NodeID(s.Subject.ID)) != nil
		case cluster.SubjectPlugin, cluster.SubjectCluster:
		}
		if !there {
			out = append(out, "the stall "+s.Key()+" names what is no more")
		}
	}
	return out
}
