package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The limits of a job.
const (
	MaxCount      = 1_000_000
	MaxPriority   = 100
	MaxLabels     = 64
	MaxSettings   = 64 << 10 // bytes of one plugin's settings
	MaxEnv        = 1000
	MaxTaskPorts  = 64
	MaxAddresses  = 16
	MaxSecrets    = 64
	MaxTaskUnits  = 64
	MaxHistory    = 1000
	MaxSpreads    = 16
	MaxDescribing = 128 << 10 // bytes of a task's command, environment and driver settings together
)

// Problem is one mistake in what a user asked for.
type Problem struct {
	Path    string // where: the way through the job's blocks, such as task.resources.cpu or plugin["constraint"].constraints[1]
	Summary string // what is wrong, one line without a full stop
	Detail  string // why, and what to do; sentences
}

// String returns the problem as one line.
func (p Problem) String() string {
	if p.Detail == "" {
		return p.Path + ": " + p.Summary
	}
	return p.Path + ": " + p.Summary + ". " + p.Detail
}

// Validate returns everything that is wrong with a job that has its defaults, in the order of its fields; nil if nothing is. It cannot say whether a job
// type, plugin or resource exists in the cluster.
func (s JobSpec) Validate() []Problem {
	c := &checker{}
	c.name("name", s.Name, "Invalid job name", ValidateName)
	c.name("type", s.Type, "Invalid job type", ValidateName)
	c.count(&s)
	c.parallelism(&s)
	c.between("priority", s.Priority, 0, MaxPriority)
	c.labels("labels", s.Labels)
	c.plugins(s.Plugins)
	c.maxUnavailable(&s)
	c.between("max_per_node", s.MaxPerNode, 0, MaxCount)
	word(c, "on_drift", s.OnDrift, DriftMove, DriftKeep)
	word(c, "on_lost", s.OnLost, LostReplace, LostWait)
	c.notNegative("lost_after", s.LostAfter)
	word(c, "on_drain", s.OnDrain, DrainFirst, DrainLast)
	if s.Strategy != "" {
		word(c, "strategy", s.Strategy, StrategySpread, StrategyBinpack)
	}
	c.spread(s.Spread)
	c.between("history_limit", s.HistoryLimit, 0, MaxHistory)
	c.task(&s.Task)
	c.update(&s.Update)
	c.restart(&s.Restart)
	return c.problems
}

// checker collects problems.
type checker struct{ problems []Problem }

func (c *checker) add(path, summary, detail string, args ...any) {
	if len(args) > 0 {
		detail = fmt.Sprintf(detail, args...)
	}
	c.problems = append(c.problems, Problem{Path: path, Summary: summary, Detail: detail})
}

func (c *checker) name(path, name, summary string, valid func(string) error) {
	if err := valid(name); err != nil {
		c.add(path, summary, "%s.", capital(err.Error()))
	}
}

func (c *checker) between(path string, n, low, high int) {
	switch {
	case n < low && low == 0:
		c.add(path, "Negative number", "It is %d; it cannot be less than 0.", n)
	case n < low || n > high:
		c.add(path, "Number out of range", "It is %d; it must be between %d and %d.", n, low, high)
	}
}

func (c *checker) notNegative(path string, d time.Duration) {
	if d < 0 {
		c.add(path, "Negative duration", "It is %s; it cannot be less than 0.", d)
	}
}

func (c *checker) positive(path string, d time.Duration) {
	if d <= 0 {
		c.add(path, "Duration too short", "It is %s; it must be more than 0.", d)
	}
}

// word checks a choice among words.
func word[W ~string](c *checker, path string, given W, known ...W) {
	if slices.Contains(known, given) {
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	hint := ""
	if near := Suggest(string(given), names); near != "" {
		hint = fmt.Sprintf(" Did you mean %q?", near)
	}
	c.add(path, "Unknown word", "There is no %q here; use %s.%s", given, Choice(names), hint)
}

// Choice returns quoted words as a list for people: "a", "b" or "c".
func Choice(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (c *checker) count(s *JobSpec) {
	if s.Type == TypeGlobal || s.Type == TypeGlobalBatch {
		if s.Count != 0 {
			c.add("count", "A "+s.Type+" job has no count", "It runs one task on every eligible node; remove count, or use type = %q.", TypeReplicated)
		}
		return
	}
	c.between("count", s.Count, 0, MaxCount)
}

func (c *checker) parallelism(s *JobSpec) {
	c.between("parallelism", s.Parallelism, 0, MaxCount)
	if s.Parallelism > 0 && (s.Type == TypeReplicated || s.Type == TypeGlobal) {
		c.add("parallelism", "A "+s.Type+" job has no parallelism", "Its tasks run beside each other until they are told to stop; remove it, or use type = %q. "+
			"How many slots an update moves at a time is parallelism in its update block.", TypeBatch)
	}
}

// ValidateLabels returns what is wrong with labels, which are those of a node or a job; nothing if all is well.
func ValidateLabels(labels map[string]string) []Problem {
	var c checker
	c.labels("labels", labels)
	return c.problems
}

func (c *checker) labels(path string, labels map[string]string) {
	if len(labels) > MaxLabels {
		c.add(path, "Too many labels", "There are %d; the limit is %d.", len(labels), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at := keyed(path, key)
		c.name(at, key, "Invalid label key", ValidateLabelKey)
		c.name(at, labels[key], "Invalid label value", ValidateLabelValue)
	}
}

// keyed returns the path of an element of a map, or of a labelled block.
func keyed(path, key string) string { return fmt.Sprintf("%s[%q]", path, key) }

func (c *checker) plugins(settings []PluginSettings) {
	seen := make(map[string]bool, len(settings))
	for _, p := range settings {
		at := keyed("plugin", p.Plugin)
		c.name(at, p.Plugin, "Invalid plugin name", ValidateName)
		if seen[p.Plugin] {
			c.add(at, "Settings given twice", "A job has at most one block for each plugin.")
		}
		seen[p.Plugin] = true
		var object map[string]json.RawMessage
		switch err := json.Unmarshal([]byte(p.JSON), &object); {
		case len(p.JSON) > MaxSettings:
			c.add(at, "Settings too large", "They have %d bytes; the limit is %d.", len(p.JSON), MaxSettings)
		case err != nil:
			c.add(at, "Settings are no JSON object", "%s.", capital(err.Error()))
		case object == nil:
			c.add(at, "Settings are no JSON object", "They are null.")
		}
	}
}

func (c *checker) maxUnavailable(s *JobSpec) {
	const at = "max_unavailable"
	a := s.MaxUnavailable
	switch {
	case a.Count < 0 || a.Percent < 0:
		c.add(at, "Negative number", "It cannot be less than 0.")
	case a.Percent > 100:
		c.add(at, "Number out of range", "It is %d %%; at most 100 %% can be unavailable.", a.Percent)
	case a.Count > 0 && a.Percent > 0:
		c.add(at, "Both a number and a percentage", "Give one of them.")
	case a == Amount{} && s.Update.Order == StopFirst:
		c.add(at, "No task could ever be moved", "With max_unavailable = 0 and stop-first, updates, drains and moves would wait for ever: a task may only stop "+
			"after its replacement is up, and that starts only after the stop. Allow at least 1, or set order = %q in update.", StartFirst)
	}
}

func (c *checker) spread(spreads []Spread) {
	if len(spreads) > MaxSpreads {
		c.add("spread", "Too many spread blocks", "There are %d; the limit is %d.", len(spreads), MaxSpreads)
	}
	for i, s := range spreads {
		at := fmt.Sprintf("spread[%d]", i)
		c.spreadAttribute(at+".attribute", s.Attribute)
		sum, seen := 0, make(map[string]bool, len(s.Targets))
		for _, t := range s.Targets {
			target := keyed(at+".targets", t.Value)
			if seen[t.Value] {
				c.add(target, "Value given twice", "Each value has one share.")
			}
			seen[t.Value] = true
			c.between(target, t.Percent, 0, 100)
			sum += t.Percent
		}
		if sum > 100 {
			c.add(at+".targets", "Shares are more than the whole", "They sum to %d %%.", sum)
		}
	}
}

func (c *checker) spreadAttribute(at, attribute string) {
	for _, prefix := range []string{"node.labels.", "node.attributes."} {
		if key, ok := strings.CutPrefix(attribute, prefix); ok {
			c.name(at, key, "Invalid label key", ValidateLabelKey)
			return
		}
	}
	word(c, at, attribute, "node.id", "node.name", "node.hostname", "node.os", "node.arch", "node.labels.KEY", "node.attributes.KEY")
}

func (c *checker) update(u *UpdateSpec) {
	c.between("update.parallelism", u.Parallelism, 0, MaxCount)
	c.notNegative("update.delay", u.Delay)
	word(c, "update.order", u.Order, StopFirst, StartFirst)
	c.notNegative("update.monitor", u.Monitor)
	word(c, "update.on_failure", u.OnFailure, FailurePause, FailureContinue, FailureRollback)
	if isShare := u.MaxFailureRatio >= 0 && u.MaxFailureRatio <= 1; !isShare { // neither is what is no number
		c.add("update.max_failure_ratio", "Number out of range", "It is %v; it must be between 0 and 1.", u.MaxFailureRatio)
	}
	c.notNegative("update.progress_deadline", u.ProgressDeadline)
}

func (c *checker) restart(r *RestartSpec) {
	word(c, "restart.condition", r.Condition, RestartAny, RestartOnFailure, RestartNone)
	c.notNegative("restart.delay", r.Delay)
	c.notNegative("restart.max_delay", r.MaxDelay)
	if r.Delay >= 0 && r.MaxDelay >= 0 && r.MaxDelay < r.Delay {
		c.add("restart.max_delay", "Shorter than the delay", "max_delay is %s, delay %s; the delay between restarts only grows.", r.MaxDelay, r.Delay)
	}
	c.between("restart.attempts", r.Attempts, 0, MaxCount)
	c.notNegative("restart.window", r.Window)
	switch {
	case r.Attempts <= 0 || r.Window <= 0:
	case r.Delay >= r.Window:
		c.add("restart.delay", "The limit on attempts would never count", "With a delay of %s, restarts are never less than a window (%s) apart, so that "+
			"attempts = %d could never be used up. Make the delay shorter, or the window longer, or 0 (for ever).", r.Delay, r.Window, r.Attempts)
	case r.fastest() >= r.Window:
		c.add("restart.attempts", "The limit on attempts would never count", "With delays that grow from %s to %s, the last of %d restarts comes %s after the first at "+
			"the earliest, so that attempts = %d could never be used up within the window (%s). Allow fewer, or make the delays shorter, or the window longer, or 0 "+
			"(for ever).", r.Delay, r.MaxDelay, r.Attempts, r.fastest(), r.Attempts, r.Window)
	}
	if r.Condition == RestartNone && r.Attempts > 0 {
		c.add("restart.attempts", "Nothing is restarted", "attempts = %d says nothing beside condition = %q; remove one of them.", r.Attempts, RestartNone)
	}
}

// fastest returns how long it takes at least from the first restart to the last that is allowed, if every task ends at once.
func (r *RestartSpec) fastest() time.Duration {
	const most = math.MaxInt64 / MaxCount / 2 // so that no sum overflows
	var sum time.Duration
	for step := 1; step < r.Attempts; step++ {
		d := min(r.Backoff(step), most)
		if d >= r.MaxDelay || d == most {
			return sum + d*time.Duration(r.Attempts-step)
		}
		sum += d
	}
	return sum
}
