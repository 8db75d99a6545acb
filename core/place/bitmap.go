package place

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// Bitmap is a set of node indexes. What lies beyond its end is not in the set.
type Bitmap []uint64

// NewBitmap returns an empty set with room for the indexes below n.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// FromBytes reads a set in which index i is bit i%8, least significant first, of byte i/8.
func FromBytes(b []byte) Bitmap {
	out := make(Bitmap, (len(b)+7)/8)
	for i := range len(b) / 8 {
		out[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	for i := len(b) / 8 * 8; i < len(b); i++ {
		out[i/8] |= uint64(b[i]) << (i % 8 * 8)
	}
	return out
}

// Get reports whether i is in the set.
func (b Bitmap) Get(i int) bool {
	w := uint(i) / 64
	return w < uint(len(b)) && b[w]&(1<<(uint(i)%64)) != 0
}

// Set puts i into the set, which must have room for it.
func (b Bitmap) Set(i int) { b[i/64] |= 1 << (i % 64) }

// Clear takes i out of the set.
func (b Bitmap) Clear(i int) {
	if i/64 < len(b) {
		b[i/64] &^= 1 << (i % 64)
	}
}

// With returns the set with i in it or not, with more room if that is needed, and leaves b as it is.
func (b Bitmap) With(i int, in bool) Bitmap {
	out := make(Bitmap, max(len(b), i/64+1))
	copy(out, b)
	if in {
		out.Set(i)
	} else {
		out.Clear(i)
	}
	return out
}

// And returns what is in both sets.
func (b Bitmap) And(c Bitmap) Bitmap {
	out := make(Bitmap, min(len(b), len(c)))
	for i := range out {
		out[i] = b[i] & c[i]
	}
	return out
}

// AndNot returns what is in b and not in c.
func (b Bitmap) AndNot(c Bitmap) Bitmap {
	out := make(Bitmap, len(b))
	copy(out, b)
	for i := range min(len(b), len(c)) {
		out[i] &^= c[i]
	}
	return out
}

// Or returns what is in either set.
func (b Bitmap) Or(c Bitmap) Bitmap {
	out := make(Bitmap, max(len(b), len(c)))
	copy(out, b)
	for i := range c {
		out[i] |= c[i]
	}
	return out
}

// Count returns how many indexes are in the set.
func (b Bitmap) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// Equal reports whether both sets hold the same indexes, whatever room they have.
func (b Bitmap) Equal(c Bitmap) bool {
	for i := range max(len(b), len(c)) {
		if b.word(i) != c.word(i) {
			return false
		}
	}
	return true
}

// All yields the indexes in the set, ascending.
func (b Bitmap) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

func (b Bitmap) word(i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}
