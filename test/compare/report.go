package main

import (
	"fmt"
	"os"
	"strings"
)

// write writes what came of it, side by side.
func write(path string, left, right report, engines string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Compared with Docker Swarm

Written by %[1]smake compare%[1]s: the same events on a Docker Swarm and on Setpoint, one after the other, on the same three engines (Docker %[2]s), each in a
network namespace of its own, with the same images and limits: a task is a static program of our own, an update goes one at a time and watches each for a second, a
restart waits a second, a stop has a grace of five. The first node also has the Swarm's manager, or Setpoint's server; all other settings are what each comes with.
What runs is what the engines say, looked at about five times a second, so times are good to some tenths of a second, on a machine that may have had other work.
Each event was played once.

A Swarm's daemon is the engine itself: what kills it is more than what kills an agent, and the containers' own supervisor goes with it.

| event | | %[3]s | %[4]s | better |
|---|---|---|---|---|
`, "`", engines, left.system, right.system)
	for i, e := range left.events {
		for k, v := range e.values {
			what := ""
			if k == 0 {
				what = e.what
			}
			w := right.events[i].values[k]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", what, v.what, v, w, better(v, w, left.system, right.system))
		}
	}
	b.WriteString("\n## What the operator is told\n")
	for i, e := range left.events {
		if e.told == "" && right.events[i].told == "" {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s:\n\n```\n%s```\n\n%s:\n\n```\n%s```\n", e.what, left.system, tidy(e.told), right.system, tidy(right.events[i].told))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// mostLines of what a system says are shown.
const mostLines = 24

// tidy returns a text without blanks at the ends of lines, and no more lines than that.
func tidy(text string) string {
	var out strings.Builder
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if i == mostLines {
			fmt.Fprintf(&out, "… and %d lines more\n", len(lines)-i)
			break
		}
		out.WriteString(strings.TrimRight(line, " \t") + "\n")
	}
	return out.String()
}

// String returns the value as people read it.
func (v value) String() string {
	switch {
	case v.seconds && v.n < 0:
		return fmt.Sprintf("not within %s", limit)
	case v.seconds:
		return fmt.Sprintf("%.1f s", v.n)
	}
	return fmt.Sprintf("%.0f", v.n)
}

// better says which of two values is: less is better, and of times only what differs by a quarter and half a second.
func better(l, r value, left, right string) string {
	a, b := l.n, r.n
	if l.seconds {
		if a < 0 {
			a = limit.Seconds()
		}
		if b < 0 {
			b = limit.Seconds()
		}
		if diff := max(a, b) - min(a, b); diff < max(a, b)/4 || diff < 0.5 {
			return "the same"
		}
	}
	switch {
	case a < b:
		return left
	case b < a:
		return right
	}
	return "the same"
}
