// Package selector reads label selectors as people know them from kubectl, and says which labels they match.
//
// It imports the standard library only.
package selector

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Selector is a list of conditions on labels, all of which have to hold. The zero value matches everything.
type Selector []condition

// condition holds of labels whose value of key is one of values (without values: that have the key), or is none of them.
type condition struct {
	key    string
	values []string // nil: any
	not    bool
}

// Matches reports whether labels are as the selector says. Labels without a key are not equal to any value of it.
func (s Selector) Matches(labels map[string]string) bool {
	for _, c := range s {
		value, found := labels[c.key]
		if found = found && (c.values == nil || slices.Contains(c.values, value)); found == c.not {
			return false
		}
	}
	return true
}

// Parse reads a selector. The error has everything that is wrong with it.
func Parse(text string) (Selector, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out Selector
	var errs []error
	for _, part := range split(text) {
		c, err := parse(strings.TrimSpace(part))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}

// split cuts text at commas outside parentheses.
func split(text string) []string {
	var out []string
	depth, begin := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			out, begin = append(out, text[begin:i]), i+1
		}
	}
	return append(out, text[begin:])
}

func parse(text string) (condition, error) {
	if key, not := strings.CutPrefix(text, "!"); not && !strings.Contains(key, "=") {
		return named(condition{key: key, not: true}, text)
	}
	for _, op := range []struct {
		sign string
		not  bool
	}{{"!=", true}, {"==", false}, {"=", false}} {
		if key, value, ok := strings.Cut(text, op.sign); ok {
			return named(condition{key: key, values: []string{strings.TrimSpace(value)}, not: op.not}, text)
		}
	}
	if m := setForm.FindStringSubmatch(text); m != nil {
		c := condition{key: m[1], not: m[2] == "notin"}
		for value := range strings.SplitSeq(m[3], ",") {
			c.values = append(c.values, strings.TrimSpace(value))
		}
		return named(c, text)
	}
	if strings.ContainsAny(text, " ()") {
		return condition{}, fmt.Errorf("%q is no condition", text)
	}
	return named(condition{key: text}, text)
}

// setForm is KEY in (A, B) and KEY notin (A, B).
var setForm = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)

// named refuses a condition whose key is none.
func named(c condition, text string) (condition, error) {
	c.key = strings.TrimSpace(c.key)
	if c.key == "" || strings.ContainsAny(c.key, " \t()!=,") {
		return condition{}, fmt.Errorf("%q names no label", text)
	}
	return c, nil
}
