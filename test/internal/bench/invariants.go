package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// oneAlive holds V1.
func (s *Sampler) oneAlive(v view) {
	away := s.away(returning)
	slots := make(map[string][]string)
	for task, node := range s.alive(v) {
		job, slot, _, err := cluster.TaskID(task).Parts()
		if err != nil {
			s.violate("V1"+task, "V1: %q is no task's id", task)
			continue
		}
		if !away[node] {
			slots[job+"/"+string(slot)] = append(slots[job+"/"+string(slot)], task+" on "+node)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(slots)) {
		job, _, _ := strings.Cut(slot, "/")
		most := 1
		if s.c.jobNamed(job).startFirst() {
			most = 2
		}
		if len(slots[slot]) > most {
			s.violate("V1"+slot, "V1: slot %s has %d tasks alive: %v", slot, len(slots[slot]), slices.Sorted(slices.Values(slots[slot])))
		}
	}
}

func (c *Cluster) jobNamed(name string) Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[name]
}

// sums holds V2, for what the server says and for what is alive.
func (s *Sampler) sums(v view) {
	reserved, truly, ports := make(map[string]int64), make(map[string]int64), make(map[string]string)
	for _, t := range v.tasks {
		if t.GetDead() || t.GetNodeId() == "" {
			continue
		}
		reserved[t.GetNodeId()] += s.reservation(t.GetId(), t.GetJob())
		for _, p := range t.GetPorts() {
			key := fmt.Sprintf("port %d of %s", p.GetNumber(), t.GetNode())
			if other := ports[key]; other != "" {
				s.violate("V2"+key, "V2: %s is granted to %s and %s", key, other, t.GetId())
			}
			ports[key] = t.GetId()
		}
	}
	for task, node := range s.alive(v) {
		job, _, _ := strings.Cut(task, "/")
		truly[node] += s.reservation(task, job)
	}
	for _, n := range v.nodes {
		capacity, used, free := n.GetCapacity().GetMilliCpu(), n.GetUsed().GetMilliCpu(), n.GetFree().GetMilliCpu()
		if used > capacity || free < 0 || free != capacity-used {
			s.violate("V2"+n.GetName(), "V2: node %s has %d milli-CPU, %d used and %d free", n.GetName(), capacity, used, free)
		}
		if v.same && used != reserved[n.GetId()] {
			s.violate("V2sum"+n.GetName(), "V2: %d milli-CPU of node %s are used, its tasks reserve %d", used, n.GetName(), reserved[n.GetId()])
		}
		if !n.GetDecommissioned() && truly[n.GetName()] > capacity {
			s.violate("V2truth"+n.GetName(), "V2: what is alive on node %s takes %d milli-CPU of %d", n.GetName(), truly[n.GetName()], capacity)
		}
	}
}

// closed holds V3 for nodes that take nothing.
func (s *Sampler) closed(v view) {
	closed := s.c.closedSpans()
	for _, b := range v.starts {
		for _, span := range closed[b.Node] {
			if span.within(b.At, underWay) {
				s.violate("V3"+b.Task, "V3: %s began to start task %s %s after its drain or pause was acknowledged", b.Node, b.Task, b.At.Sub(span.from))
			}
		}
	}
}

// whileDown holds V3 for nodes that are down: as seen in one sample and still in another, with a start in between.
func (s *Sampler) whileDown(v view) {
	for _, n := range v.nodes {
		if n.GetDecommissioned() {
			continue
		}
		spans := s.down[n.GetName()]
		open := len(spans) > 0 && spans[len(spans)-1].to.IsZero()
		switch down := n.GetState() == "down"; {
		case down && !open:
			s.down[n.GetName()] = append(spans, span{from: v.seen})
		case down:
			for _, b := range v.starts {
				if b.Node == n.GetName() && b.At.After(spans[len(spans)-1].from) && b.At.Before(v.at) {
					s.violate("V3down"+b.Task, "V3: %s began to start task %s at %s, and was down from %s at the latest until %s at least",
						b.Node, b.Task, b.At, spans[len(spans)-1].from, v.at)
				}
			}
		case open:
			s.down[n.GetName()] = spans[:len(spans)-1]
		}
	}
}

// explained holds V4.
func (s *Sampler) explained(v view) {
	seen, stalls := make(map[string]stillness), make(map[string]stallSeen)
	for _, t := range v.tasks {
		id := t.GetId()
		if len(t.GetStalls()) > 0 && (t.GetDead() || runs(t)) {
			s.violate("V4over"+id, "V4: task %s is %s and says why it waits: %v", id, t.GetPhase(), t.GetStalls())
		}
		s.sameStalls(t, stalls)
		if t.GetDead() || runs(t) || t.GetCondition().GetState() != "ok" {
			continue
		}
		now := stillness{fmt.Sprint(t.GetDesired().GetState(), t.GetNodeId(), t.GetObserved().GetState(), t.GetObserved().GetAt().AsTime()), v.at}
		if before, known := s.still[id]; known && before.state == now.state {
			now.since = before.since
		}
		seen[id] = now
		if v.at.Sub(now.since) > Soon+lag && len(t.GetStalls()) == 0 {
			s.violate("V4silent"+id, "V4: task %s has been %s for %s and does not say why", id, t.GetPhase(), v.at.Sub(now.since))
		}
	}
	s.still, s.stalls = seen, stalls
}

func runs(t *apiv1.Task) bool {
	return t.GetObserved().GetState() == "running" && t.GetDesired().GetState() == "running" && t.GetObserved().GetHealthy() && t.GetCondition().GetState() == "ok"
}

// sameStalls compares a task's stalls with those of the sample before.
func (s *Sampler) sameStalls(t *apiv1.Task, stalls map[string]stallSeen) {
	for _, stall := range t.GetStalls() {
		key := t.GetId() + "|" + stall.GetSource()
		if stall.GetSource() != cluster.SourcePlacement {
			key += "|" + stall.GetCode()
		}
		if _, twice := stalls[key]; twice {
			s.violate("V4twice"+key, "V4: task %s says twice what %s says: %v", t.GetId(), stall.GetSource(), t.GetStalls())
		}
		if stall.GetCode() == "" || stall.GetMessage() == "" || stall.GetSince() == nil {
			s.violate("V4empty"+key, "V4: task %s has a stall without code, text or time: %v", t.GetId(), stall)
		}
		var counts []string
		for _, e := range stall.GetFacts().GetExcluded() {
			counts = append(counts, fmt.Sprint(e.GetSource(), e.GetCode(), e.GetDetail(), e.GetCount()))
		}
		now := stallSeen{since: stall.GetSince().AsTime(), changed: stall.GetChanged().AsTime(), content: stall.GetCode() + strings.Join(counts, ",")}
		before, known := s.stalls[key]
		if known && !before.since.Equal(now.since) {
			s.violate("V4since"+key, "V4: task %s waits since %s, and a moment before it was %s: %v", t.GetId(), now.since, before.since, stall)
		}
		if known && before.content == now.content {
			now.again = before.again
			if !before.changed.Equal(now.changed) {
				now.again++
			}
		}
		if now.again > thereAndBack {
			s.violate("V4changed"+key, "V4: task %s: its stall changed at %s, and is what it was: %v", t.GetId(), now.changed, stall)
		}
		stalls[key] = now
	}
}

// listed holds V5.
func (s *Sampler) listed(v view) {
	s.c.mu.Lock()
	settled := v.at.Sub(s.c.serverUp) > settling
	s.c.mu.Unlock()
	if !settled {
		clear(s.differs)
		return
	}
	away, alive := s.away(lag), s.alive(v)
	listed := make(map[string]bool)
	wrong := make(map[string]string)
	for _, t := range v.tasks {
		if t.GetObserved().GetState() != "running" || t.GetCondition().GetState() != "ok" || away[t.GetNode()] {
			continue
		}
		listed[t.GetId()] = true
		if alive[t.GetId()] == "" {
			wrong[t.GetId()] = "is listed as running and is not alive"
		}
	}
	for task, node := range alive {
		if !listed[task] && !away[node] {
			wrong[task] = "is alive on " + node + " and is not listed as running"
		}
	}
	maps.DeleteFunc(s.differs, func(task string, _ difference) bool { return wrong[task] == "" })
	for task, what := range wrong {
		d, known := s.differs[task]
		if !known {
			d.since = v.at
		}
		d.samples++
		s.differs[task] = d
		if v.at.Sub(d.since) > lag && d.samples > lagSamples {
			s.violate("V5"+task, "V5: task %s %s, for %s", task, what, v.at.Sub(d.since))
		}
	}
}
