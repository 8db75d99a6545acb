package notify

import (
	"fmt"
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
		if p := Decide([]Waiting{c.w}, nil, c.rules, at(time.Hour)); (len(p.Begin) == 1) != c.told {
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
	p := Decide(waiting, nil, Rules{After: time.Minute}, at(1000*time.Second))
	if len(p.Begin) != 2 || p.Wake != 59*time.Second {
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
	p := Decide(waiting, sent, Rules{}, at(time.Hour))
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

func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := at(time.Minute)
		waiting, sent, rules := genWaiting(t, now.Engine), genSent(t), genRules(t)
		given := slices.Clone(waiting)
		p := Decide(waiting, sent, rules, now)
		if !reflect.DeepEqual(waiting, given) {
			t.Fatal("the input was changed")
		}
		if again := Decide(rapid.Permutation(waiting).Draw(t, "order"), rapid.Permutation(sent).Draw(t, "order"), rules, now); !reflect.DeepEqual(sorted(p), sorted(again)) {
			t.Fatalf("the order matters:\n%+v\n%+v", p, again)
		}
		if next := Decide(waiting, carriedOut(sent, p), rules, now); len(next.Begin)+len(next.End) > 0 {
			t.Fatalf("told twice: %+v", next)
		}
		due := map[cluster.StallCause]bool{}
		for _, w := range waiting {
			if after, ok := rules.after(&w); ok && now.Sub(w.Since) >= after {
				due[w.Cause] = true
			}
		}
		told := map[cluster.StallCause]bool{}
		for _, n := range sent {
			told[n.Cause] = true
		}
		for _, c := range []cluster.Code{"a", "b", "c", "d"} {
			has := func(list []Alert) bool {
				return slices.ContainsFunc(list, func(a Alert) bool { return a.Cause == cause(c) })
			}
			d, s := due[cause(c)], told[cause(c)]
			if has(p.Begin) != (d && !s) || has(p.End) != (s && !d) || has(p.Open) != (s && d) {
				t.Fatalf("%s: due %v, told %v: %+v", c, d, s, p)
			}
		}
		if p.Wake > 0 {
			earlier := Decide(waiting, carriedOut(sent, p), rules, now.Add(p.Wake-1))
			later := Decide(waiting, sent, rules, now.Add(p.Wake))
			if len(earlier.Begin) > 0 || reflect.DeepEqual(later, p) {
				t.Fatalf("nothing is due just when it was said: before %+v, then %+v", earlier, later)
			}
		}
	})
}

// sorted leaves out what of alerts that are alike depends on nothing.
func sorted(p Plan) Plan {
	for _, list := range [][]Alert{p.Begin, p.End, p.Open} {
		for i := range list {
			slices.Sort(list[i].Jobs)
		}
	}
	return p
}
