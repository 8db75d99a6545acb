package constraint

import (
	"cmp"
	"slices"
	"strings"
)

// quantity is a whole number or a version: numbers between dots and what follows them.
type quantity struct {
	negative bool
	numbers  []string // digits without leading zeros, so that they have no largest value
	stage    int      // before a release: less than 0; a distribution's revision after it: 1
	suffix   string   // digits that order the stage
}

// stages are the words for versions before a release, in their order.
var stages = []string{"dev", "snapshot", "pre", "alpha", "beta", "rc"}

// parseQuantity reads a whole number or a version such as v1.2.3, 1.0-rc1 or 5.15.0-91-generic.
func parseQuantity(text string) (quantity, bool) {
	var q quantity
	digits := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		q.negative, digits = true, rest
	} else if rest, ok := strings.CutPrefix(digits, "v"); ok {
		digits = rest
	}
	end := 0
	for end < len(digits) && (digits[end] >= '0' && digits[end] <= '9' || digits[end] == '.') {
		end++
	}
	suffix := digits[end:]
	for part := range strings.SplitSeq(strings.TrimSuffix(digits[:end], "."), ".") {
		if part == "" {
			return quantity{}, false
		}
		q.numbers = append(q.numbers, strings.TrimLeft(part, "0"))
	}
	if q.negative && (len(q.numbers) > 1 || suffix != "") {
		return quantity{}, false
	}
	if suffix == "" {
		return q, true
	}
	return q.withSuffix(suffix)
}

// withSuffix reads what follows the numbers. Of a suffix that is no stage and no number only its presence is known, and it changes nothing.
func (q quantity) withSuffix(suffix string) (quantity, bool) {
	if strings.IndexByte("-+~_", suffix[0]) < 0 && !isLetter(suffix[0]) {
		return quantity{}, false
	}
	if suffix[0] == '+' {
		return q, true
	}
	word := strings.ToLower(strings.TrimLeft(suffix, "-~_"))
	for i, stage := range stages {
		if after, ok := strings.CutPrefix(word, stage); ok && (after == "" || !isLetter(after[0])) {
			q.stage, q.suffix = i-len(stages), leadingDigits(strings.TrimLeft(after, ".-_"))
			return q, true
		}
	}
	if n := leadingDigits(word); n != "" || strings.HasPrefix(word, "0") {
		q.stage, q.suffix = 1, n
	}
	return q, true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// leadingDigits returns the number at the beginning of text, without leading zeros.
func leadingDigits(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	return strings.TrimLeft(text[:end], "0")
}

// compare orders quantities; numbers that one side lacks are 0.
func (q quantity) compare(r quantity) int {
	zero := func(x quantity) bool { return !slices.ContainsFunc(x.numbers, func(n string) bool { return n != "" }) }
	if q.negative != r.negative && !(zero(q) && zero(r)) {
		if q.negative {
			return -1
		}
		return 1
	}
	c := cmp.Or(compareNumbers(q.numbers, r.numbers), cmp.Compare(q.stage, r.stage), compareDigits(q.suffix, r.suffix))
	if q.negative && r.negative {
		return -c
	}
	return c
}

func compareNumbers(a, b []string) int {
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := compareDigits(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// compareDigits orders whole numbers that are written without leading zeros.
func compareDigits(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
