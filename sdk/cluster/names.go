package cluster

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of names, in bytes.
const (
	MaxNameLen       = 63  // of a job, a job type, a plugin, a port, a unit
	MaxNodeNameLen   = 253 // as for host names
	MaxLabelKeyLen   = 128
	MaxLabelValueLen = 256
)

// ValidateName returns an error unless name can be that of a job, a job type or a plugin: lower-case letters, digits and hyphens, beginning and ending with
// a letter or digit, at most MaxNameLen long.
func ValidateName(name string) error {
	return checkName(name, MaxNameLen, "lower-case letters, digits and hyphens", func(r rune) bool { return isLower(r) || r == '-' })
}

// ValidateNodeName returns an error unless name can be that of a node: letters, digits, hyphens, underscores and dots, beginning and ending with a letter or
// digit, at most MaxNodeNameLen long.
func ValidateNodeName(name string) error {
	return checkName(name, MaxNodeNameLen, "letters, digits, hyphens, underscores and dots", func(r rune) bool {
		return isAlnum(r) || strings.ContainsRune("-_.", r)
	})
}

// ValidateUnitName returns an error unless name can be that of a countable unit such as gpu: written like a job's name, also with dots and underscores, and
// neither cpu nor memory, which are no units.
func ValidateUnitName(name string) error {
	if name == "cpu" || name == "memory" {
		return fmt.Errorf("%q is a resource of its own, not a unit", name)
	}
	return checkName(name, MaxNameLen, "lower-case letters, digits, hyphens, underscores and dots", func(r rune) bool {
		return isLower(r) || strings.ContainsRune("-_.", r)
	})
}

// ValidateSecretName returns an error unless name can be that of a secret, which is also that of a file: lower-case letters, digits, hyphens, underscores and
// dots, beginning and ending with a letter or digit, at most MaxNameLen long.
func ValidateSecretName(name string) error {
	return checkName(name, MaxNameLen, "lower-case letters, digits, hyphens, underscores and dots", func(r rune) bool {
		return isLower(r) || strings.ContainsRune("-_.", r)
	})
}

// ValidatePortName returns an error unless name can be that of a port, which ends the name of an environment variable: lower-case letters, digits and
// underscores, at most MaxNameLen long.
func ValidatePortName(name string) error {
	return checkName(name, MaxNameLen, "lower-case letters, digits and underscores", func(r rune) bool { return isLower(r) || r == '_' })
}

// ValidateLabelKey returns an error unless key can be that of a label, on a node or a job: letters, digits, and - _ . / between them, at most MaxLabelKeyLen
// long.
func ValidateLabelKey(key string) error {
	return checkName(key, MaxLabelKeyLen, "letters, digits, hyphens, underscores, dots and slashes", func(r rune) bool {
		return isAlnum(r) || strings.ContainsRune("-_./", r)
	})
}

// ValidateLabelValue returns an error unless value can be that of a label: printable text on one line, at most MaxLabelValueLen long. It may be empty.
func ValidateLabelValue(value string) error {
	switch {
	case len(value) > MaxLabelValueLen:
		return fmt.Errorf("it has %d bytes; the limit is %d", len(value), MaxLabelValueLen)
	case !utf8.ValidString(value):
		return fmt.Errorf("%q is not UTF-8", value)
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("%q has a character that cannot be printed, at byte %d", value, i)
	}
	return nil
}

func checkName(name string, limit int, allowed string, valid func(rune) bool) error {
	switch {
	case name == "":
		return fmt.Errorf("it is empty; use %s", allowed)
	case len(name) > limit:
		return fmt.Errorf("%q has %d characters; the limit is %d", name, len(name), limit)
	}
	for _, r := range name {
		if !valid(r) {
			return fmt.Errorf("%q has a %q; use %s", name, r, allowed)
		}
	}
	if !isAlnum(rune(name[0])) || !isAlnum(rune(name[len(name)-1])) {
		return fmt.Errorf("%q must begin and end with a letter or digit", name)
	}
	return nil
}

func isLower(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' }

func isAlnum(r rune) bool { return isLower(r) || 'A' <= r && r <= 'Z' }

// Suggest returns the known word that given was probably meant to be, or "" if none is near: at most a third of its letters are wrong, missing, too many or
// swapped. Upper and lower case count as equal. Of equally near words the first known one is returned.
func Suggest(given string, known []string) string {
	best, bestDistance := "", max(1, len(given)/3)+1
	for _, k := range known {
		if d := editDistance(strings.ToLower(given), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance counts the changes that make b of a: a letter more, a letter less, another letter, or two neighbours swapped.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
