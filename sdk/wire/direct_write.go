package wire

import (
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/setpointd/setpoint/sdk/cluster"
)

type number = protowire.Number // of a field

// writer appends fields. What is empty is left out, as proto3 has it.
type writer struct {
	b   []byte
	odd bool // the messages have to say what it is
}

func (w *writer) tag(num number, typ protowire.Type) {
	if tag := uint64(num)<<3 | uint64(typ); tag < 0x80 {
		w.b = append(w.b, byte(tag))
	} else {
		w.varint(tag)
	}
}

func (w *writer) varint(v uint64) { w.b = protowire.AppendVarint(w.b, v) }

func (w *writer) uint(num number, v uint64) {
	if v != 0 {
		w.tag(num, protowire.VarintType)
		w.varint(v)
	}
}

func (w *writer) int(num number, v int64) { w.uint(num, uint64(v)) }

func (w *writer) flag(num number, v bool) { w.uint(num, protowire.EncodeBool(v)) }

func (w *writer) text(num number, s string) {
	if s != "" {
		w.element(num, s)
	}
}

// element is text in a list, which stands there even if it is empty.
func (w *writer) element(num number, s string) {
	w.odd = w.odd || !utf8.ValidString(s)
	w.tag(num, protowire.BytesType)
	w.varint(uint64(len(s)))
	w.b = append(w.b, s...)
}

// begin begins a message within, which end ends.
func (w *writer) begin(num number) (at int) {
	w.tag(num, protowire.BytesType)
	w.b = append(w.b, 0) // its length, which is mostly one byte
	return len(w.b)
}

func (w *writer) end(at int) {
	n := len(w.b) - at
	if n < 0x80 {
		w.b[at-1] = byte(n)
		return
	}
	var size [10]byte
	w.b = slices.Replace(w.b, at-1, at, protowire.AppendVarint(size[:0], uint64(n))...)
}

func (w *writer) time(num number, t cluster.Time) {
	if !t.IsZero() {
		w.timeElement(num, t)
	}
}

// timeElement is a time in a list, which stands there even if it is zero.
func (w *writer) timeElement(num number, t cluster.Time) {
	at := w.begin(num)
	w.int(1, int64(t.Engine))
	w.int(2, t.Wall)
	w.end(at)
}

func (w *writer) resources(num number, r *cluster.Resources) {
	at := w.begin(num)
	w.int(1, r.MilliCPU)
	w.int(2, r.Memory)
	if len(r.Units) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.Units)) {
			entry := w.begin(3)
			w.element(1, k)
			w.tag(2, protowire.VarintType)
			w.varint(uint64(r.Units[k]))
			w.end(entry)
		}
	}
	w.end(at)
}

// labels is a map of texts, in the order of its keys.
func (w *writer) labels(num number, m map[string]string) {
	if len(m) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		entry := w.begin(num)
		w.element(1, k)
		w.element(2, m[k])
		w.end(entry)
	}
}

func writeTexts[T ~string](w *writer, num number, list []T) {
	for _, s := range list {
		w.element(num, string(s))
	}
}
