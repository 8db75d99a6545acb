package engine

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// swept has the net look at everything once more, from the beginning of a round, and returns what it caught and how many turns changed something.
func (l *large) swept() (caught []Caught, turns int) {
	l.t.Helper()
	l.cfg.Sweep = time.Minute
	l.sweep.next, l.sweep.began = 0, l.at-l.cfg.Sweep
	began := l.at
	for range 10_000 {
		out := l.step()
		if caught = append(caught, out.Swept.Caught...); len(out.Turn.Changes) > 0 {
			turns++
		}
		switch {
		case out.Swept.Round:
			if took := l.at - began; took > l.cfg.Sweep+time.Second {
				l.t.Errorf("a round takes %s, want %s", took, l.cfg.Sweep)
			}
			return caught, turns
		case out.More:
		case out.Wake <= 0:
			l.t.Fatal("nobody wakes the net")
		default:
			l.at += out.Wake
		}
	}
	l.t.Fatal("the round never ends")
	return nil, 0
}

// forgetting takes an input, and forgets all marks that say what it changed.
func (l *large) forgetting(in Input) {
	l.at += time.Millisecond
	now := cluster.Time{Engine: l.at}
	l.begin(now)
	l.take(in, now)
	l.Forget()
	l.Publish(l.finish(0).Turn)
}

func (l *large) netStalls() int { return len(l.View().StallsOf(aboutCluster("net"))) }

func TestTheNetCatches(t *testing.T) {
	plain := func(*cluster.JobSpec) {}
	waits := func(s *cluster.JobSpec) { s.Count, s.Task.Resources.MilliCPU = 40, 1e8 } // ten fit on a node
	for name, c := range map[string]struct {
		edit  func(*cluster.JobSpec)
		fault func(*large)
		want  Missed
		right func(*large) bool // after it was caught
	}{
		"a failure of which nobody told": {
			plain, func(l *large) { l.forgetting(l.saysOf(l.running(true).ID, cluster.Failed)) }, MissedDecision,
			func(l *large) bool { return len(l.wakes.at) == 1 || l.View().SlotCounts("big").Up == 99 },
		},
		"a delay that nobody waits for": {
			func(s *cluster.JobSpec) { s.Restart.Delay, s.Restart.MaxDelay = time.Hour, time.Hour },
			func(l *large) {
				l.settle(l.saysOf(l.running(true).ID, cluster.Failed))
				l.Forget()
			},
			MissedDeadline, func(l *large) bool { return len(l.wakes.at) == 1 },
		},
		"room of which nobody told those who wait": {
			waits, func(l *large) {
				huge := about
				huge.Capacity = cluster.Resources{MilliCPU: 2e9, Memory: 1 << 50}
				l.forgetting(AgentDescribes{Node: "n0", Session: 1, Description: huge})
			},
			MissedPlacement, func(l *large) bool { return len(l.groups) == 1 && len(l.one().tasks) == 10 },
		},
		"a waiting task that is in no group": {
			waits, func(l *large) { clear(l.groups); clear(l.groupsOf) }, MissedPlacement,
			func(l *large) bool { return len(l.groups) == 1 && len(l.one().tasks) == 20 },
		},
		"a reason that is not so": {
			waits, func(l *large) {
				for _, s := range l.work.StallsOf(groupSubject(l.one().key)) {
					other := *s
					other.Facts.Nodes++
					l.work.stalls.Set(s.Key(), &other)
				}
			},
			MissedReason, func(l *large) bool {
				return l.View().StallsOf(groupSubject(l.one().key))[0].Facts.Nodes == 2
			},
		},
		"room that is taken twice": {
			plain, func(l *large) { l.ledger.take(0, l.running(true)) }, MissedUse,
			func(l *large) bool {
				return l.ledger.nodes[0].Tasks+l.ledger.nodes[1].Tasks == 100 && l.ledger.jobs["big"] == 100
			},
		},
		"a node that is not listed as open": {
			plain, func(l *large) { l.ledger.open = l.ledger.open.With(1, false) }, MissedUse,
			func(l *large) bool { return l.ledger.open.Get(1) },
		},
		"an address of nobody": {
			plain, func(l *large) { l.pools["lan"].Taken[netip.MustParseAddr("10.1.0.9")] = "big/1/1" }, MissedUse,
			func(l *large) bool { return len(l.pools["lan"].Taken) == 0 },
		},
		"slots that are counted twice": {
			plain, func(l *large) {
				n := l.View().SlotCounts("big")
				n.Up++
				l.work.slotCounts.jobs.Set("big", &n)
			},
			MissedCount, func(l *large) bool { return l.View().SlotCounts("big") == SlotCounts{Slots: 100, Wanted: 100, Up: 100} },
		},
		"a task that is said to be on its way": {
			plain, func(l *large) { l.work.unsettled.ids.Set(l.running(true).ID, struct{}{}) }, MissedCount,
			func(l *large) bool { return l.View().unsettled.ids.Len() == 0 },
		},
		"a task that is listed on no node": {
			plain, func(l *large) { x := l.running(true); l.work.onNode.drop(x.Placement.Node, x.ID) }, MissedCount,
			func(l *large) bool {
				n := 0
				for _, id := range []cluster.NodeID{"n0", "n1"} {
					for range l.View().TasksOn(id) {
						n++
					}
				}
				return n == 100
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLarge(t, 100, 2, c.edit)
			l.pools = newPools([]Pool{{Name: "lan", CIDR: "10.1.0.0/24"}})
			if caught, turns := l.swept(); len(caught)+turns != 0 {
				t.Fatalf("before anything went wrong, it caught %+v and made %d turns", caught, turns)
			}
			c.fault(l)
			caught, _ := l.swept()
			if len(caught) == 0 || caught[0].What != c.want {
				t.Fatalf("caught %+v, want a %s", caught, c.want)
			}
			if l.netStalls() != 1 {
				t.Error("no stall says so")
			}
			if again, _ := l.swept(); len(again) != 0 || l.netStalls() != 0 {
				t.Errorf("once it was put right it caught %+v, and %d stalls are left", again, l.netStalls())
			}
			if !c.right(l) {
				t.Error("it was not put right")
			}
			t.Log(caught)
		})
	}
}

// one returns the group that waits.
func (l *large) one() *group {
	for _, g := range l.groups {
		return g
	}
	l.t.Fatal("nothing waits")
	return nil
}

// A cluster with nothing to do is woken a few times in a round, and nothing is written; one with nothing at all is left alone.
func TestTheNetLeavesAlone(t *testing.T) {
	e := New(Config{Sweep: time.Minute}, NewState("test"), cluster.Time{})
	if out := e.Step(nil, cluster.Time{Engine: 1}); out.Wake != 0 {
		t.Errorf("an empty cluster is woken after %s", out.Wake)
	}
	l := newLarge(t, 20, 2, func(*cluster.JobSpec) {})
	l.swept()
	if out := l.step(); out.Wake < 50*time.Second {
		t.Errorf("a small cluster is woken after %s, want about once in a minute", out.Wake)
	}
}

// A look costs no more memory however much there is, and hardly any where all is settled.
func TestTheNetCostsLittle(t *testing.T) {
	l := newLarge(t, 20_000, 20, func(*cluster.JobSpec) {})
	l.swept()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.spent = 0
	if caught, turns := l.swept(); len(caught)+turns != 0 {
		t.Fatalf("caught %+v, %d turns", caught, turns)
	}
	runtime.ReadMemStats(&after)
	perSlot := float64(l.spent) / 20_000
	t.Logf("%d allocations and %d KiB for 20,000 slots and their tasks", l.spent, (after.TotalAlloc-before.TotalAlloc)>>10)
	if perSlot > 2 {
		t.Errorf("%.2f allocations for each slot", perSlot)
	}
}

// BenchmarkARoundOfTheNet looks once at 100,000 tasks of 100 jobs on 1,000 nodes, all of which run, and tells how long one look takes.
func BenchmarkARoundOfTheNet(b *testing.B) {
	l := newLarge(b, 0, 1000, func(s *cluster.JobSpec) { s.Name = "job0" })
	for i := range 100 {
		spec := l.job
		spec.Name, spec.Count = fmt.Sprintf("job%d", i), 1000
		l.obey(command{op: RunJob{Spec: spec}})
	}
	l.swept()
	l.cfg.Sweep, l.sweep.next = 10*time.Minute, 0
	looks, longest := 0, time.Duration(0)
	for b.Loop() {
		for round := false; !round; {
			began := time.Now()
			out := l.Step(nil, cluster.Time{Engine: l.at})
			longest = max(longest, time.Since(began))
			if len(out.Swept.Caught) > 0 {
				b.Fatal(out.Swept.Caught)
			}
			round, looks, l.at = out.Swept.Round, looks+1, l.at+out.Wake
		}
	}
	b.ReportMetric(float64(looks)/float64(b.N), "looks/op")
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
}
