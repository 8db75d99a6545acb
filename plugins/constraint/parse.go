package constraint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/setpointd/setpoint/sdk"
)

// operator is what a constraint asks of an attribute.
type operator string

const (
	equal        operator = "=="
	notEqual     operator = "!="
	less         operator = "<"
	lessEqual    operator = "<="
	greater      operator = ">"
	greaterEqual operator = ">="
	matches      operator = "=~"
	matchesNot   operator = "!~"
	in           operator = "in"
	notIn        operator = "not in"
	exists       operator = "exists"
	notExists    operator = "not exists"
)

var (
	// signs are the operators that are no words, longer ones before those that begin them.
	signs = []operator{equal, notEqual, lessEqual, greaterEqual, matches, matchesNot, less, greater}
	words = []operator{notIn, notExists, in, exists}
	all   = []string{"==", "!=", "<", "<=", ">", ">=", "=~", "!~", "in", "not in", "exists", "not exists"}
)

// expression is a constraint in its parts.
type expression struct {
	text      string // as written, without spaces around it
	attribute string
	at        int // column of the attribute
	operator  operator
	value     string   // of operators that take one
	list      []string // of in and not in
	valueAt   int      // column of the value
}

// mistake is what is wrong with a constraint, and where.
type mistake struct {
	column int // from 1
	what   string
}

func (m *mistake) Error() string { return m.what }

// parse divides a constraint into its parts. Its errors are mistakes.
func parse(text string) (*expression, error) {
	s := scanner{text: text}
	s.space()
	e := &expression{text: strings.TrimSpace(text), at: s.column()}
	if e.attribute = s.name(); e.attribute == "" {
		return nil, &mistake{s.column(), "want an attribute such as node.labels.disk"}
	}
	s.space()
	var err error
	if e.operator, err = s.operator(); err != nil {
		return nil, err
	}
	s.space()
	e.valueAt = s.column()
	switch e.operator {
	case exists, notExists:
		if s.rest() != "" {
			return nil, &mistake{s.column(), fmt.Sprintf("%q takes no value", e.operator)}
		}
	case in, notIn:
		e.list, err = s.list()
	default:
		e.value, err = s.value()
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// scanner reads a constraint from left to right.
type scanner struct {
	text string
	pos  int
}

func (s *scanner) column() int  { return s.pos + 1 }
func (s *scanner) rest() string { return strings.TrimSpace(s.text[s.pos:]) }

func (s *scanner) space() {
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t') {
		s.pos++
	}
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-./:@", c) >= 0
}

func (s *scanner) name() string {
	from := s.pos
	for s.pos < len(s.text) && isName(s.text[s.pos]) {
		s.pos++
	}
	return s.text[from:s.pos]
}

func (s *scanner) operator() (operator, error) {
	rest := s.text[s.pos:]
	for _, o := range signs {
		if strings.HasPrefix(rest, string(o)) {
			s.pos += len(o)
			return o, nil
		}
	}
	for _, o := range words {
		if n, ok := wordPrefix(rest, string(o)); ok {
			s.pos += n
			return o, nil
		}
	}
	column := s.column()
	found, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch {
	case found == "":
		return "", &mistake{column, "want an operator: " + strings.Join(all, ", ")}
	case strings.HasPrefix(found, "="):
		return "", &mistake{column, `unknown operator "=", did you mean "=="?`}
	}
	return "", &mistake{column, fmt.Sprintf("unknown operator %q%s", found, or(sdk.Suggest(found, all), "; known are "+strings.Join(all, ", ")))}
}

// wordPrefix reports whether text begins with the words, however many spaces are between them, and how long that is.
func wordPrefix(text, phrase string) (int, bool) {
	n := 0
	for i, word := range strings.Fields(phrase) {
		if i > 0 {
			trimmed := strings.TrimLeft(text[n:], " \t")
			if trimmed == text[n:] {
				return 0, false
			}
			n = len(text) - len(trimmed)
		}
		if !strings.HasPrefix(text[n:], word) {
			return 0, false
		}
		n += len(word)
	}
	return n, n == len(text) || !isName(text[n])
}

// value reads one value to the end of the text.
func (s *scanner) value() (string, error) {
	column, rest := s.column(), s.rest()
	switch {
	case rest == "":
		return "", &mistake{column, `want a value; write "" for an empty one`}
	case rest[0] != '"':
		return rest, nil
	}
	value, err := strconv.Unquote(rest)
	if err != nil {
		return "", &mistake{column, "the quoted value is not closed, or something follows it"}
	}
	return value, nil
}

// list reads (a, b, "c, d") to the end of the text.
func (s *scanner) list() ([]string, error) {
	if s.pos >= len(s.text) || s.text[s.pos] != '(' {
		return nil, &mistake{s.column(), "want a list such as (a, b)"}
	}
	s.pos++
	var out []string
	for {
		s.space()
		item, err := s.item()
		if err != nil {
			return nil, err
		}
		out = append(out, item)
		s.space()
		switch {
		case s.pos >= len(s.text):
			return nil, &mistake{s.column(), "the list is not closed: want )"}
		case s.text[s.pos] == ',':
			s.pos++
			continue
		case s.text[s.pos] != ')':
			return nil, &mistake{s.column(), "want , or ) in the list"}
		}
		s.pos++
		if s.rest() != "" {
			s.space()
			return nil, &mistake{s.column(), "something follows the list"}
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	}
}

func (s *scanner) item() (string, error) {
	rest := s.text[s.pos:]
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", &mistake{s.column(), "the quoted value is not closed"}
		}
		s.pos += len(quoted)
		return strconv.Unquote(quoted)
	}
	end := strings.IndexAny(rest, ",)")
	if end < 0 {
		end = len(rest)
	}
	item := strings.TrimSpace(rest[:end])
	if item == "" {
		return "", &mistake{s.column(), `want a value; write "" for an empty one`}
	}
	s.pos += end
	return item, nil
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// place says where in a constraint the mistake is that err says.
func place(err error, text string) string {
	var m *mistake
	if !errors.As(err, &m) {
		return text
	}
	return fmt.Sprintf("column %d of %s", m.column, text)
}
