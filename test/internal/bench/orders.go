package bench

import (
	"slices"
	"strings"
	"time"
)

// A span is a time; to is zero as long as it lasts.
type span struct{ from, to time.Time }

// within reports whether a moment lies in the span, later than its beginning by some slack.
func (s span) within(t time.Time, slack time.Duration) bool {
	return t.After(s.from.Add(slack)) && (s.to.IsZero() || t.Before(s.to))
}

// before notes what holds from the moment on at which a command is given.
func (c *Cluster) before(args []string) {
	if len(args) > 2 && args[0] == "node" && !slices.Contains(args, "--dry-run") {
		switch args[1] {
		case "activate", "decommission", "rm":
			for _, node := range operands(args[2:]) {
				c.openNode(node)
			}
		}
	}
}

// acknowledged notes what holds from the moment on at which a command was acknowledged.
func (c *Cluster) acknowledged(args []string) {
	if len(args) < 3 || slices.Contains(args, "--dry-run") {
		return
	}
	switch args[0] + " " + args[1] {
	case "node drain", "node pause":
		for _, node := range operands(args[2:]) {
			c.closeNode(node)
		}
	case "job rm":
		for _, job := range operands(args[2:]) {
			c.jobRemoved(job)
		}
	}
}

// operands returns the arguments that are no flags, nor values of flags that the bench uses.
func operands(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case slices.Contains([]string{"--wait", "--deadline", "-o"}, a):
			i++
		case !strings.HasPrefix(a, "-"):
			out = append(out, a)
		}
	}
	return out
}

// closeNode notes that from now on nothing may start on a node.
func (c *Cluster) closeNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := c.closed[name]
	if len(spans) == 0 || !spans[len(spans)-1].to.IsZero() {
		c.closed[name] = append(spans, span{from: time.Now()})
	}
}

func (c *Cluster) openNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spans := c.closed[name]; len(spans) > 0 && spans[len(spans)-1].to.IsZero() {
		spans[len(spans)-1].to = time.Now()
	}
}

// closedSpans returns when nothing might start on nodes.
func (c *Cluster) closedSpans() map[string][]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string][]span, len(c.closed))
	for node, spans := range c.closed {
		out[node] = slices.Clone(spans)
	}
	return out
}

func (c *Cluster) jobRemoved(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed[name] = time.Now()
}
