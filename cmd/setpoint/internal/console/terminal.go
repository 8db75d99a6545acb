package console

import (
	"os"

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
