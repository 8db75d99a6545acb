// Package texts keeps many short strings in few pieces of memory.
package texts

import "strings"

// Room makes strings that lie behind each other in pieces of memory of Size bytes. A piece lasts as long as any string in it: the smaller it is, the less is kept for the
// sake of a few. It is for one goroutine.
type Room struct {
	Size int

	piece strings.Builder
}

// Text returns a copy of b as a string.
func (r *Room) Text(b []byte) string {
	if r.piece.Cap()-r.piece.Len() < len(b) {
		r.piece.Reset() // the strings keep the piece
		r.piece.Grow(max(r.Size, len(b)))
	}
	at := r.piece.Len()
	_, _ = r.piece.Write(b) // never fails
	return r.piece.String()[at:]
}
