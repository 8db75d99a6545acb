package hcltext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Ranges says where in its files each attribute, element and block stood, by its path: the way through blocks and values, such as task.resources.cpu,
// plugin["constraint"].constraints[1] or task.env["MODE"].
type Ranges map[string]hcl.Range

// Find returns where path stood, or else the nearest of what it lies in; ok is false if not even that is known.
func (r Ranges) Find(path string) (at hcl.Range, ok bool) {
	for steps := splitPath(path); ; steps = steps[:len(steps)-1] {
		if at, ok := r[joinPath(steps)]; ok {
			return at, true
		}
		if at, ok := r[joinPath(withoutFirsts(steps))]; ok {
			return at, true
		}
		if len(steps) == 0 {
			return hcl.Range{}, false
		}
	}
}

// add keeps the first of what is recorded under one path. What is the first of its kind is found without its index as well.
func (r Ranges) add(path string, at hcl.Range) {
	steps := splitPath(path)
	for _, key := range []string{joinPath(steps), joinPath(withoutFirsts(steps))} {
		if _, there := r[key]; !there {
			r[key] = at
		}
	}
}

// addExpr records an expression and, if it is a list or a map as written, its elements.
func (r Ranges) addExpr(path string, expr hcl.Expression) {
	r.add(path, expr.Range())
	if items, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for i, item := range items {
			r.addExpr(fmt.Sprintf("%s[%d]", path, i), item)
		}
		return
	}
	pairs, diags := hcl.ExprMap(expr)
	if diags.HasErrors() {
		return
	}
	for _, pair := range pairs {
		if key, ok := keyOf(pair.Key); ok {
			r.addExpr(Keyed(path, key), pair.Value)
		}
	}
}

func keyOf(expr hcl.Expression) (string, bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() {
		return "", false
	}
	return asString(v)
}

// Keyed returns the path of an element of a map, or of a block with a label.
func Keyed(path, key string) string { return fmt.Sprintf("%s[%q]", path, key) }

// splitPath cuts a path into names, keys and indexes. Whether a key was written ["like this"] or .like_this makes no difference.
func splitPath(path string) []string {
	var steps []string
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case strings.HasPrefix(path, `["`):
			quoted, err := strconv.QuotedPrefix(path[1:])
			if err != nil {
				return append(steps, path)
			}
			key, _ := strconv.Unquote(quoted)
			steps = append(steps, key)
			path = strings.TrimPrefix(path[1+len(quoted):], "]")
		case path[0] == '[':
			index, rest, _ := strings.Cut(path, "]")
			steps, path = append(steps, index), rest
		default:
			n := strings.IndexAny(path, ".[")
			if n < 0 {
				n = len(path)
			}
			steps, path = append(steps, path[:n]), path[n:]
		}
	}
	return steps
}

func joinPath(steps []string) string { return strings.Join(steps, "\x00") }

// withoutFirsts leaves out the indexes 0: a block that could be repeated and stands alone is found under either path.
func withoutFirsts(steps []string) []string {
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		if s != "[0" {
			out = append(out, s)
		}
	}
	return out
}

// IsName reports whether a key can be written as an attribute or a block.
func IsName(key string) bool { return hclsyntax.ValidIdentifier(key) }
