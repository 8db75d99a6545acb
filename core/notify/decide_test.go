package notify

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func at(d time.Duration) cluster.Time {
	return cluster.Time{Engine: d, Wall: time.Unix(1_700_000_000, 0).Add(d).UnixNano()}
}

func cause(code cluster.Code) cluster.StallCause {
	return cluster.StallCause{Code: code, Source: "core"}
}

func TestRules(t *testing.T) {
	waits := func(code cluster.Code, job string, age time.Duration) Waiting {
		return Waiting{Cause: cause(code), Job: job, Count: 1, Since: at(time.Hour - age)}
	}
	for name, c := range map[string]struct {
		rules Rules
		w     Waiting
		told  bool
	}{
		"long enough":             {Rules{After: 5 * time.Minute}, waits("x", "web", 5*time.Minute), true},
		"not long enough":         {Rules{After: 5 * time.Minute}, waits("x", "web", 5*time.Minute-1), false},
		"sooner for its code":     {Rules{After: 5 * time.Minute, Codes: map[cluster.Code]CodeRule{"x": {After: time.Second}}}, waits("x", "web", time.Second), true},
		"later for its code":      {Rules{After: time.Second, Codes: map[cluster.Code]CodeRule{"x": {After: time.Minute}}}, waits("x", "web", 30*time.Second), false},
		"ignored":                 {Rules{Codes: map[cluster.Code]CodeRule{"x": {Ignore: true}}}, waits("x", "web", time.Hour), false},
		"a job that is wanted":    {Rules{Jobs: []string{"a", "w*"}}, waits("x", "web", time.Hour), true},
		"another job":             {Rules{Jobs: []string{"a", "w*"}}, waits("x", "db", time.Hour), false},
		"no job":                  {Rules{Jobs: []string{"*"}}, waits("x", "", time.Hour), false},
		"a code that is wanted":   {Rules{Only: []string{"plugin_*"}}, waits("plugin_error", "", time.Hour), true},
		"another code":            {Rules{Only: []string{"plugin_*"}}, waits("x", "", time.Hour), false},
		"as it should be":         {Rules{}, waits(cluster.CodeWaitingForTurn, "web", time.Hour), false},
		"as it should be, wanted": {Rules{Codes: map[cluster.Code]CodeRule{cluster.CodeWaitingForTurn: {}}}, waits(cluster.CodeWaitingForTurn, "web", time.Hour), true},
		"itself": {
			Rules{Sink: "a"}, Waiting{Cause: cluster.StallCause{Code: cluster.CodeNotificationFailed, Source: "core", Detail: "a"}, Since: at(0)}, false,
		},
		"another sink": {
			Rules{Sink: "b"}, Waiting{Cause: cluster.StallCause{Code: cluster.CodeNotificationFailed, Source: "core", Detail: "a"}, Since: at(0)}, true,
		},
	} {
		if p := Decide([]Waiting{c.w}, Memory{c.w.Cause: {}}, nil, c.rules, at(time.Hour)); (len(p.Begin) == 1) != c.told {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestOneCauseIsOneAlert(t *testing.T) {
	var waiting []Waiting
	for i := range 30 {
		waiting = append(waiting, Waiting{Cause: cause("x"), Job: fmt.Sprintf("job%02d", i), Count: 2, Since: at(time.Duration(100-i) * time.Second), Message: fmt.Sprint(i)})
	}
	waiting = append(waiting, Waiting{Cause: cause("x"), Job: "young", Count: 1, Since: at(999 * time.Second)}, Waiting{Cause: cause("y"), Count: 1, Since: at(500 * time.Second)})
	p := Decide(waiting, Memory{}, nil, Rules{After: time.Minute}, at(1000*time.Second))
	if len(p.Begin) != 2 {
		t.Fatalf("%+v", p)
	}
	a := p.Begin[0]
	if a.Cause.Code != "x" || a.Count != 60 || len(a.Jobs) != maxJobs || a.MoreJobs != 10 || a.Message != "29" || a.Since != at(71*time.Second) {
		t.Errorf("%+v", a)
	}
	if got := a.summary(Stalled); got != "60 wait of 30 jobs: x" {
		t.Error(got)
	}
}

func TestTooManyCauses(t *testing.T) {
	var waiting []Waiting
	for i := range maxOpen + 7 {
		waiting = append(waiting, Waiting{Cause: cluster.StallCause{Code: "x", Detail: fmt.Sprint(i)}, Count: 1, Since: at(time.Duration(i))})
	}
	sent := []*cluster.Notice{{Cause: waiting[maxOpen+6].Cause}}
	p := Decide(waiting, Memory{}, sent, Rules{}, at(time.Hour))
	if len(p.Begin) != maxOpen-1 || p.Omitted != 7 || p.Begin[0].Cause.Detail != "0" {
		t.Errorf("%d begin, %d are left out, the first is %v", len(p.Begin), p.Omitted, p.Begin[0].Cause)
	}
}

func genWaiting(t *rapid.T, now time.Duration) []Waiting {
	var out []Waiting
	for _, code := range []cluster.Code{"a", "b", "c"} {
		for _, job := range []string{"", "web", "db"} {
			if rapid.Bool().Draw(t, "waits") {
				out = append(out, Waiting{
					Cause: cause(code), Job: job, Count: rapid.IntRange(1, 3).Draw(t, "count"), Message: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "message"),
					Since: at(now - time.Duration(rapid.IntRange(0, 20).Draw(t, "age"))*time.Second),
				})
			}
		}
	}
	return out
}

func genRules(t *rapid.T) Rules {
	r := Rules{After: time.Duration(rapid.IntRange(0, 15).Draw(t, "after")) * time.Second}
	if rapid.Bool().Draw(t, "special") {
		r.Codes = map[cluster.Code]CodeRule{"a": {After: time.Duration(rapid.IntRange(0, 15).Draw(t, "after a")) * time.Second, Ignore: rapid.Bool().Draw(t, "ignore")}}
	}
	if rapid.Bool().Draw(t, "jobs") {
		r.Jobs = []string{"web"}
	}
	return r
}

func genSent(t *rapid.T) (out []*cluster.Notice) {
	for _, code := range []cluster.Code{"a", "b", "c", "d"} {
		if rapid.Bool().Draw(t, "sent") {
			out = append(out, &cluster.Notice{Cause: cause(code), Since: at(time.Second)})
		}
	}
	return out
}

// carriedOut is what was told after a plan was.
func carriedOut(sent []*cluster.Notice, p Plan) (out []*cluster.Notice) {
	for _, n := range sent {
		if !slices.ContainsFunc(p.End, func(a Alert) bool { return a.Cause == n.Cause }) {
			out = append(out, n)
		}
	}
	for _, a := range p.Begin {
		out = append(out, &cluster.Notice{Cause: a.Cause, Since: a.Since})
	}
	return out
}

func genMemory(t *rapid.T, now time.Duration) Memory {
	out := Memory{}
	for _, code := range []cluster.Code{"a", "b", "c", "d"} {
		if rapid.Bool().Draw(t, "remembered") {
			out[cause(code)] = Span{
				Here: at(now - time.Duration(rapid.IntRange(0, 20).Draw(t, "here"))*time.Second), Due: at(now - time.Duration(rapid.IntRange(0, 20).Draw(t, "due"))*time.Second),
			}
		}
	}
	return out
}

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := at(time.Minute)
		waiting, sent, rules := genWaiting(t, now.Engine), genSent(t), genRules(t)
		before := genMemory(t, now.Engine)
		given, remembered := slices.Clone(waiting), maps.Clone(before)
		m := Remember(before, waiting, sent, rules, now)
		p := Decide(waiting, m, sent, rules, now)
		if !reflect.DeepEqual(waiting, given) || !reflect.DeepEqual(before, remembered) {
			t.Fatal("the input was changed")
		}
		mixed, others := rapid.Permutation(waiting).Draw(t, "order"), rapid.Permutation(sent).Draw(t, "order")
		if again := Decide(mixed, Remember(before, mixed, others, rules, now), others, rules, now); !reflect.DeepEqual(p, again) {
			t.Fatalf("the order matters:\n%+v\n%+v", p, again)
		}
		told := carriedOut(sent, p)
		if next := Decide(waiting, Remember(m, waiting, told, rules, now), told, rules, now); len(next.Begin)+len(next.End) > 0 {
			t.Fatalf("told twice: %+v", next)
		}
		for _, c := range []cluster.Code{"a", "b", "c", "d"} {
			has := func(list []Alert) bool {
				return slices.ContainsFunc(list, func(a Alert) bool { return a.Cause == cause(c) })
			}
			due := dueOf(waiting, rules, now)[cause(c)] != nil
			was := slices.ContainsFunc(sent, func(n *cluster.Notice) bool { return n.Cause == cause(c) })
			here, gone := now.Sub(m[cause(c)].Here) >= rules.settle(c), now.Sub(m[cause(c)].Due) >= rules.settle(c)
			if has(p.Begin) != (due && !was && here) || has(p.End) != (was && !due && gone) || has(p.Open) != (was && (due || !gone)) {
				t.Fatalf("%s: due %v, told %v, here %v, gone %v: %+v", c, due, was, here, gone, p)
			}
		}
	})
}

// Over any course of things a cause's beginnings and ends take turns, and no beginning is told of what has not been there for a while.
func TestBeginningsAndEndsTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{After: 4 * time.Second}
		var sent []*cluster.Notice
		var m Memory
		here := map[cluster.Code]int{}
		for second := range rapid.IntRange(1, 60).Draw(t, "seconds") {
			now := at(time.Duration(second) * time.Second)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				m = nil
			}
			var waiting []Waiting
			for _, c := range []cluster.Code{"a", "b"} {
				if here[c]++; rapid.IntRange(0, 5).Draw(t, "away") == 0 {
					here[c] = 0
					continue
				}
				waiting = append(waiting, Waiting{Cause: cause(c), Count: 1, Since: at(-time.Hour)}) // as long as another reason was there before
			}
			m = Remember(m, waiting, sent, rules, now)
			p := Decide(waiting, m, sent, rules, now)
			for _, a := range p.Begin {
				if slices.ContainsFunc(sent, func(n *cluster.Notice) bool { return n.Cause == a.Cause }) || here[a.Cause.Code] < 4 {
					t.Fatalf("at %d s %s is told, after %d s", second, a.Cause.Code, here[a.Cause.Code])
				}
			}
			for _, a := range p.End {
				if !slices.ContainsFunc(sent, func(n *cluster.Notice) bool { return n.Cause == a.Cause }) || here[a.Cause.Code] > 0 {
					t.Fatalf("at %d s the end of %s is told", second, a.Cause.Code)
				}
			}
			sent = carriedOut(sent, p)
		}
	})
}
