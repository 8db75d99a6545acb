package runner

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// splitter is a writer that calls each for every line, cut to limit bytes. Its memory never exceeds the limit.
type splitter struct {
	limit int
	each  func(line []byte, whole bool) // whole: it ended with a newline and nothing was cut off; line is valid during the call
	line  []byte
	cut   bool
}

// Write never fails.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.add(p)
			return n, nil
		}
		s.add(p[:i])
		s.emit(!s.cut)
		p = p[i+1:]
	}
}

// finish passes on a last line that has no newline.
func (s *splitter) finish() {
	if len(s.line) > 0 {
		s.emit(false)
	}
}

func (s *splitter) add(part []byte) {
	room := s.limit - len(s.line)
	if len(part) > room {
		part, s.cut = part[:room], true
	}
	s.line = append(s.line, part...)
}

func (s *splitter) emit(whole bool) {
	s.each(bytes.TrimSuffix(s.line, []byte{'\r'}), whole)
	s.line, s.cut = s.line[:0], false
}

// limiter passes at most perSecond lines in each second.
type limiter struct {
	perSecond int
	window    time.Time
	passed    int
	dropped   int
}

// allow reports whether a line at now may pass, and how many were dropped before it and not reported yet.
func (l *limiter) allow(now time.Time) (ok bool, dropped int) {
	if d := now.Sub(l.window); d >= time.Second || d < 0 {
		l.window, l.passed = now, 0
	}
	if l.passed >= l.perSecond {
		l.dropped++
		return false, 0
	}
	l.passed++
	dropped, l.dropped = l.dropped, 0
	return true, dropped
}

// printable returns text that can be shown on a terminal: cut to limit bytes, and with what is not printable escaped.
func printable[T []byte | string](text T, limit int) string {
	s, rest := string(text[:min(len(text), limit)]), ""
	if len(text) > limit {
		rest = "…"
		for i := 0; i < utf8.UTFMax && len(s) > 0; i++ { // do not end within a character
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	odd := func(r rune) bool { return r == utf8.RuneError || (r != '\t' && !unicode.IsPrint(r)) }
	if strings.ContainsFunc(s, odd) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	return s + rest
}
