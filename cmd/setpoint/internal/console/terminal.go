package console

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Raw has the terminal that r is pass on every key as it is typed, Ctrl-C among them. The function takes that back; it may be called more than once.
func Raw(r any) (restore func(), err error) {
	fd := int(r.(*os.File).Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(fd, before) }, nil
}

// Size returns the rows and columns of the first of the streams that is a terminal; zeros if none is.
func Size(streams ...any) (rows, columns int) {
	for _, s := range streams {
		if f, ok := s.(*os.File); ok {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil {
				return h, w
			}
		}
	}
	return 0, 0
}

// Redraw replaces what the terminal that w is shows by text. What does not fit the window is left out, and that is said.
func Redraw(w io.Writer, text string) error {
	rows, _ := Size(w)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if rows > 1 && len(lines) > rows-1 {
		more := len(lines) - (rows - 2)
		lines = append(lines[:rows-2], fmt.Sprintf("… %d more", more))
	}
	const home, endOfLine, rest = "\x1b[H", "\x1b[K\n", "\x1b[J"
	_, err := io.WriteString(w, home+strings.Join(lines, endOfLine)+endOfLine+rest)
	return err
}
