package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Loss is something that a Compose file says and the jobs do not.
type Loss struct {
	At      hcl.Range
	Service string // "" of the file as a whole
	Key     string // such as deploy.endpoint_mode: the way from the service, or from the top of the file without one
	Why     string
	Hint    bool // what runs behaves the same without it, or as the file's reader may expect; others are refused unless they are accepted
}

// String writes the loss on one line, with its place.
func (l Loss) String() string {
	subject := l.Key
	if l.Service != "" {
		subject = l.Service + ": " + l.Key
	}
	return fmt.Sprintf("%s: %s: %s", where(l.At), subject, l.Why)
}

// Within reports whether the loss is of a key or of one in it: networks, deploy.placement.
func (l Loss) Within(key string) bool {
	return l.Key == key || strings.HasPrefix(l.Key, key+".")
}

func sortLosses(losses []Loss) []Loss {
	slices.SortStableFunc(losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.At.Filename, b.At.Filename), cmp.Compare(a.At.Start.Byte, b.At.Start.Byte), cmp.Compare(a.Service, b.Service))
	})
	return slices.CompactFunc(losses, func(a, b Loss) bool {
		return a.At == b.At && a.Service == b.Service && a.Key == b.Key && a.Why == b.Why
	})
}

// fateOf finds the row of a key. Inside reports that there are rows for what is in it.
func fateOf(steps []string) (f fate, found, inside bool) {
	for _, f := range fates {
		pattern := strings.Split(f.key, ".")
		n := 0
		for n < len(pattern) && n < len(steps) && (pattern[n] == "*" || pattern[n] == steps[n]) {
			n++
		}
		switch {
		case n == len(pattern):
			return f, true, false
		case n == len(steps):
			inside = true
		}
	}
	return fate{}, false, inside
}

// walk tells, of all that is in a service, what the table says is lost.
func (c *conversion) walk(steps []string, value any) {
	if len(steps) > 0 {
		last := steps[len(steps)-1]
		if strings.HasPrefix(last, "x-") || last == "#extensions" {
			return
		}
		f, found, inside := fateOf(steps)
		switch {
		case found && f.does == kept:
			return
		case found:
			c.leave(steps, value, f.does == hint, f.says)
			return
		case !inside:
			c.leave(steps, value, false, "Setpoint has nothing like it")
			return
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			c.walk(append(slices.Clone(steps), key), value[key])
		}
	case []any:
		for i, each := range value {
			c.walk(append(slices.Clone(steps), strconv.Itoa(i)), each)
		}
	}
}

func (c *conversion) leave(steps []string, value any, hint bool, why string) {
	if saysNothing(value) {
		return
	}
	c.losses = append(c.losses, Loss{At: c.at(steps...), Service: c.name, Key: key(steps), Why: why, Hint: hint})
}

// key writes steps as a key, without the numbers of elements.
func key(steps []string) string {
	var out []string
	for _, s := range steps {
		if _, err := strconv.Atoi(s); err != nil {
			out = append(out, s)
		}
	}
	return strings.Join(out, ".")
}

// saysNothing reports whether a value is what stands where nothing is said.
func saysNothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
