package engine

import "time"

// Pace is how often agents are heard, and what their silence means, in a cluster of so many nodes.
type Pace struct {
	Heartbeat time.Duration // period in which something is to be heard of a node
	Silent    time.Duration // without a word for so long, a node is silent
	Down      time.Duration // without a word for so long, a node is down
	Return    time.Duration // a node is down no earlier than so long after the server's start, or after the end of a mass silence
}

// Pace returns the pace for a number of nodes. A server hears no more agents a second than it is configured to: with more nodes than that takes, all times are longer
// in the same proportion.
func (c Config) Pace(nodes int) Pace {
	p := Pace{Heartbeat: c.Heartbeat, Silent: c.Silent, Down: c.Down}
	if stretched := perSecond(nodes, c.HeardPerSecond); stretched > p.Heartbeat {
		factor := float64(stretched) / float64(p.Heartbeat)
		longer := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
		p = Pace{Heartbeat: stretched, Silent: longer(p.Silent), Down: longer(p.Down)}
	}
	p.Return = p.Down + perSecond(nodes, c.ReturnsPerSecond)
	return p
}

// perSecond returns how long so many nodes take at so many a second; nothing without such a limit.
func perSecond(nodes, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(nodes) * time.Second / time.Duration(rate)
}

// Pace returns how often agents are to be told to speak now.
func (e *Engine) Pace() Pace {
	nodes, _, _, _ := e.View().Counts()
	return e.cfg.Pace(nodes)
}

// crowd is for how many nodes silence is judged: for all that there are, and for a while after some were removed for as many as there were, since agents hear only
// with their next heartbeat that they are to speak more often.
type crowd struct {
	nodes int
	until time.Duration // engine time
}

// judge returns the pace by which silence is judged at a time, with so many nodes.
func (c *crowd) judge(cfg Config, nodes int, now time.Duration) Pace {
	if nodes >= c.nodes || now >= c.until {
		c.nodes = nodes
	}
	p := cfg.Pace(c.nodes)
	if nodes == c.nodes {
		c.until = now + p.Down
	}
	return p
}
