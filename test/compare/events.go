package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// report is what came of all events on one system.
type report struct {
	system string
	events []event
}

// event is one of them.
type event struct {
	what   string
	values []value
	told   string // by the system, of what waits; empty: nothing was asked
}

// value is one thing that was measured. Less is better.
type value struct {
	what    string
	seconds bool
	n       float64 // less than 0: it did not happen within the limit
}

// limit is how long each event may take.
const limit = 90 * time.Second

// player plays events on one system.
type player struct {
	lab *lab
	sys system
	report
}

// container is one that runs.
type container struct{ id, node, image string }

// look returns the containers of a service that run, as the engines say.
func (p *player) look(service string) []container {
	var mu sync.Mutex
	var out []container
	var all sync.WaitGroup
	for _, e := range p.lab.engines {
		all.Go(func() {
			r := e.docker("ps", "--no-trunc", "--filter", p.sys.filter()+service, "--format", "{{.ID}} {{.Image}}")
			if !r.ok() {
				return // the engine was killed
			}
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(r.out) {
				if f := strings.Fields(line); len(f) == 2 {
					out = append(out, container{f[0], e.name, f[1]})
				}
			}
		})
	}
	all.Wait()
	return out
}

// on counts containers by node.
func on(all []container) map[string]int {
	out := map[string]int{}
	for _, c := range all {
		out[c.node]++
	}
	return out
}

// watch looks until it is so, and returns how long that took, or less than 0, and with how few containers the service was meanwhile.
func (p *player) watch(service string, so func([]container) bool) (took float64, fewest int) {
	began := time.Now()
	fewest = 1 << 30
	ok := until(limit, func() bool {
		now := p.look(service)
		fewest = min(fewest, len(now))
		return so(now)
	})
	if !ok {
		return -1, fewest
	}
	return time.Since(began).Seconds(), fewest
}

func (p *player) note(what, told string, values ...value) {
	p.events = append(p.events, event{what, values, told})
	fmt.Fprintf(os.Stderr, "%s: %s: %v\n", p.sys.name(), what, values)
}

func took(what string, n float64) value { return value{what, true, n} }
func count(what string, n int) value    { return value{what, false, float64(n)} }

// anew counts containers that were not there before.
func anew(before, now []container) int {
	n := 0
	for _, c := range now {
		if !slices.ContainsFunc(before, func(b container) bool { return b.id == c.id }) {
			n++
		}
	}
	return n
}

func total(n int) func([]container) bool { return func(all []container) bool { return len(all) == n } }

// play plays all events.
func play(l *lab, s system) (report, error) {
	p := &player{lab: l, sys: s, report: report{system: s.name()}}
	if err := s.begin(); err != nil {
		return p.report, err
	}
	web := service{name: "web", image: "task:1", count: 6}
	p.grow(&web)
	p.update(&web)
	p.drain()
	p.image(web)
	p.constraint()
	p.cable()
	p.daemon()
	p.head()
	return p.report, s.end()
}

func (p *player) grow(web *service) {
	p.sys.run(*web)
	up, _ := p.watch("web", total(6))
	p.note("A service of six is made", "", took("six run", up), count("most on one node", slices.Max(append(slices.Collect(maps.Values(on(p.look("web")))), 0))))
	before := p.look("web")
	web.count = 9
	p.sys.run(*web)
	up, _ = p.watch("web", total(9))
	p.note("It is scaled to nine", "", took("nine run", up), count("of the six started anew", anew(before, p.look("web"))-3))
	web.count = 6
	p.sys.run(*web)
	down, _ := p.watch("web", total(6))
	p.note("And back to six", "", took("six run", down))
}

func (p *player) update(web *service) {
	web.image = "task:2"
	p.sys.run(*web)
	done, fewest := p.watch("web", func(all []container) bool {
		return len(all) == 6 && !slices.ContainsFunc(all, func(c container) bool { return c.image != "task:2" })
	})
	p.note("A rolling update, one at a time, each watched for a second", "", took("all six are new", done), count("missing at the worst moment", 6-fewest))
}

func (p *player) drain() {
	p.sys.drain("n2")
	done, fewest := p.watch("web", func(all []container) bool { return len(all) == 6 && on(all)["n2"] == 0 })
	p.note("A node is drained", "", took("nothing runs there, and six run elsewhere", done), count("missing at the worst moment", 6-fewest))
	p.sys.activate("n2")
	until(limit, func() bool { return p.sys.ready() == hosts })
}

func (p *player) image(web service) {
	bad := web
	bad.image = "nowhere.invalid/x:1"
	p.sys.run(bad)
	_, fewest := p.watchFor("web", 10*time.Second)
	p.note("An update to an image that does not exist, after 10 s", p.sys.told("web"), count("missing at the worst moment", 6-fewest))
	p.sys.run(web)
	up, _ := p.watch("web", total(6))
	p.note("The image is corrected", "", took("six run", up))
}

// watchFor looks for so long.
func (p *player) watchFor(service string, long time.Duration) (now []container, fewest int) {
	fewest = 1 << 30
	until(long, func() bool {
		now = p.look(service)
		fewest = min(fewest, len(now))
		return false
	})
	return now, fewest
}

func (p *player) constraint() {
	r := p.sys.run(service{name: "nowhere", image: "task:1", count: 2, constraint: "disk=tape"})
	p.watchFor("nowhere", 5*time.Second)
	p.note("A constraint that no node satisfies, after 5 s", r.out+p.sys.told("nowhere"))
}

func (p *player) cable() {
	before := p.look("web")
	p.lab.cut(3)
	began := time.Now()
	said := -1.0
	done, _ := p.watch("web", func(all []container) bool {
		if said < 0 && p.sys.ready() < hosts {
			said = time.Since(began).Seconds()
		}
		got := on(all)
		return got["n1"]+got["n2"] == 6
	})
	told := p.sys.told("web")
	p.lab.mend(3)
	back, _ := p.watch("web", total(6))
	if !until(limit, func() bool { return p.sys.ready() == hosts }) {
		back = -1
	}
	lost := on(before)["n3"]
	p.note("A node's cable is cut, and mended", told, took("the node counts as away", said), took("six run on the other two", done),
		took("after it is mended: the node is back, and what was replaced has ended", back), count("started anew beyond what the node had", anew(before, p.look("web"))-lost))
}

func (p *player) daemon() {
	before := p.look("web")
	began := time.Now()
	p.sys.strike(2)
	settled := until(limit, func() bool { return p.sys.ready() == hosts && len(p.look("web")) == 6 })
	at := -1.0
	if settled {
		at = time.Since(began).Seconds()
	}
	p.watchFor("web", 10*time.Second)
	p.note("The daemon of a node is killed with kill -9 and started again a second later", "", took("the node is ready and six run", at), count("containers started anew", anew(before, p.look("web"))))
}

func (p *player) head() {
	before := p.look("web")
	began := time.Now()
	p.sys.strikeHead()
	answers := -1.0
	if until(limit, p.sys.answers) {
		answers = time.Since(began).Seconds()
	}
	settled := -1.0
	if until(limit, func() bool { return p.sys.ready() == hosts && len(p.look("web")) == 6 }) {
		settled = time.Since(began).Seconds()
	}
	p.watchFor("web", 10*time.Second)
	p.note("The daemon that decides is killed with kill -9 and started again a second later", "", took("it answers", answers), took("all nodes are ready and six run", settled), count("containers started anew", anew(before, p.look("web"))))
}
