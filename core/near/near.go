// Package near finds which of some names somebody meant who spelled one almost right.
//
// It is pure and imports the standard library only.
package near

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// most is how many names are offered.
const most = 3

// To returns the names that are spelled almost like word, nearest first, a few of them. One that begins with word is as near as one with a wrong letter.
func To(word string, names iter.Seq[string]) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	allowed := 1 + len(word)/4
	for name := range names {
		d := distance(strings.ToLower(word), strings.ToLower(name), allowed)
		if d > 1 && len(word) > 1 && strings.HasPrefix(name, word) {
			d = 1
		}
		if d <= allowed && d < max(len(word), 2) {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range found[:min(len(found), most)] {
		if c.distance == found[0].distance || len(out) == 0 {
			out = append(out, c.name)
		}
	}
	return out
}

// Question asks whether one of some names is meant; "" if there are none.
func Question(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = `"` + n + `"`
	}
	switch n := len(quoted); n {
	case 0:
		return ""
	case 1:
		return "Is " + quoted[0] + " meant?"
	default:
		return "Is " + strings.Join(quoted[:n-1], ", ") + " or " + quoted[n-1] + " meant?"
	}
}

// distance returns how many letters have to be added, removed, replaced or swapped with their neighbour to make b of a; something above limit if it is more than that.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	// Rows of the table of optimal string alignment: two back, the one before, and this one.
	older, before, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := before[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(before[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, before, row = before, row, older
	}
	return before[len(b)]
}
