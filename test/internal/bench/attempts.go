package bench

import (
	"regexp"
	"time"
)

// Attempt is the moment at which an agent began to start a task, whatever came of it. Of a task that was begun more than once it is the first.
type Attempt struct {
	Task, Node string
	At         time.Time
}

// startLine is what an agent logs when it begins to start a task.
var startLine = regexp.MustCompile(`task starting: .*\btask=(\S+)`)

// Attempts returns every start that any agent began, of each agent in the order of time.
func (c *Cluster) Attempts() []Attempt {
	c.t.Helper()
	var out []Attempt
	for _, a := range c.allAgents() {
		starts, err := a.readStarts()
		if err != nil {
			c.t.Errorf("read the log of %s: %v", a.Node.Name, err)
		}
		out = append(out, starts...)
	}
	return out
}

func (a *Agent) readStarts() ([]Attempt, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines, err := a.lines.more()
	for _, line := range lines {
		m := startLine.FindStringSubmatch(line)
		at, is := logTime(line)
		if m == nil || !is || a.begun[m[1]] {
			continue
		}
		a.begun[m[1]] = true
		a.starts = append(a.starts, Attempt{Task: m[1], Node: a.Node.Name, At: at})
	}
	return a.starts, err
}
