package wire

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// fields reads the fields of a message one after the other. A field that is not read as what it is, out of order or unknown is odd, and ends it. It keeps places
// in the bytes, not slices of them: a pointer that is written costs more while garbage is collected.
type fields struct {
	d       *Decoder
	b       []byte // what the message is a part of
	at, end int    // what is left of it
	num     number
	typ     protowire.Type
	again   bool   // the field before had the same number
	n       uint64 // the value of a field with a number; of one with bytes where they begin
}

func (d *Decoder) fields(b []byte) fields { return fields{d: d, b: b, end: len(b)} }

// next goes to the next field, if there is one.
func (f *fields) next() bool {
	if f.at >= f.end || f.d.odd {
		return false
	}
	tag, ok := f.varint()
	num, typ := protowire.DecodeTag(tag)
	if !ok || num < max(f.num, 1) {
		return f.odd()
	}
	f.again = num == f.num
	f.num, f.typ = num, typ
	if f.n, ok = f.varint(); !ok {
		return f.odd()
	}
	switch typ {
	case protowire.VarintType:
	case protowire.BytesType:
		if f.n > uint64(f.end-f.at) {
			return f.odd()
		}
		begin := f.at
		f.at += int(f.n)
		f.n = uint64(begin)
	default:
		return f.odd()
	}
	return true
}

func (f *fields) varint() (uint64, bool) {
	if f.at < f.end && f.b[f.at] < 0x80 {
		f.at++
		return uint64(f.b[f.at-1]), true
	}
	v, n := protowire.ConsumeVarint(f.b[f.at:f.end])
	if n < 0 {
		return 0, false
	}
	f.at += n
	return v, true
}

// bytes is what is in a field with bytes.
func (f *fields) bytes() []byte { return f.b[f.n:f.at] }

func (f *fields) odd() bool {
	f.d.odd = true
	return false
}

// is reports whether the field is of a type, and once if it has to be.
func (f *fields) is(typ protowire.Type, list bool) bool {
	if f.typ != typ || f.again && !list {
		return f.odd()
	}
	return true
}

func (f *fields) uint() uint64 {
	if !f.is(protowire.VarintType, false) {
		return 0
	}
	return f.n
}

func (f *fields) int() int { return int(int64(f.uint())) }

func (f *fields) int64() int64 { return int64(f.uint()) }

func (f *fields) flag() bool { return protowire.DecodeBool(f.uint()) }

func (f *fields) time() cluster.Time { return f.readTime(false) }

// upTo is a number that stands for something up to a limit.
func (f *fields) upTo(limit uint64) uint64 {
	n := f.uint()
	if n > limit {
		f.odd()
		return 0
	}
	return n
}

func (f *fields) port() uint16 { return uint16(f.upTo(math.MaxUint16)) }

// raw is text that is not copied yet.
func (f *fields) raw(list bool) []byte {
	if !f.is(protowire.BytesType, list) {
		return nil
	}
	b := f.bytes()
	if !utf8.Valid(b) {
		f.odd()
		return nil
	}
	return b
}

// text is text that is hardly the same in two records.
func (f *fields) text() string { return string(f.raw(false)) }

// shared is text that is the same in many records.
func (f *fields) shared() string { return f.d.share(f.raw(false)) }

// message begins what is within the field.
func (f *fields) message() fields { return f.within(false) }

// element begins what is within an element of a list.
func (f *fields) element() fields { return f.within(true) }

func (f *fields) within(list bool) fields {
	if !f.is(protowire.BytesType, list) {
		return fields{d: f.d}
	}
	return fields{d: f.d, b: f.b, at: int(f.n), end: f.at}
}

func (f *fields) readTime(list bool) (t cluster.Time) {
	in := f.within(list)
	for in.next() {
		switch in.num {
		case 1:
			t.Engine = duration(in.int64())
		case 2:
			t.Wall = in.int64()
		default:
			in.odd()
		}
	}
	return t
}

// left returns how many elements a list has from the present one on.
func (f *fields) left() int {
	n := 1
	ahead := fields{d: &Decoder{}, b: f.b, at: f.at, end: f.end, num: f.num}
	for ahead.next() && ahead.again {
		n++
	}
	return n
}

// list appends an element to a list, which is made as long as it will be.
func list[T any](f *fields, to []T, v T) []T {
	if to == nil {
		to = make([]T, 0, f.left())
	}
	return append(to, v)
}

func readTexts[T ~string](f *fields, to []T) []T { return list(f, to, T(f.d.share(f.raw(true)))) }

func (f *fields) resources() (r cluster.Resources) {
	in := f.message()
	for in.next() {
		switch in.num {
		case 1:
			r.MilliCPU = in.int64()
		case 2:
			r.Memory = in.int64()
		case 3:
			if r.Units == nil {
				r.Units = make(map[string]int64, in.left())
			}
			var key string
			var value int64
			entry := in.element()
			for entry.next() {
				switch entry.num {
				case 1:
					key = entry.shared()
				case 2:
					value = entry.int64()
				default:
					entry.odd()
				}
			}
			r.Units[key] = value
		default:
			in.odd()
		}
	}
	return r
}

// label reads one element of a map of texts into it, which is made if there is none yet.
func (f *fields) label(to map[string]string) map[string]string {
	if to == nil {
		to = make(map[string]string, f.left())
	}
	var key, value string
	in := f.element()
	for in.next() {
		switch in.num {
		case 1:
			key = in.shared()
		case 2:
			value = in.shared()
		default:
			in.odd()
		}
	}
	to[key] = value
	return to
}
