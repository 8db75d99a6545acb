package secret

import (
	"fmt"
	"io"
)

// MaxValue is how many bytes a secret may have.
const MaxValue = 64 << 10

// hidden is what is printed in the place of a value.
const hidden = "(secret)"

// Value is the content of a secret. Printing, logging or encoding it gives nothing away: only Reveal does.
type Value struct{ bytes []byte }

// NewValue returns a value. The bytes belong to it from now on.
func NewValue(bytes []byte) Value { return Value{bytes} }

// Reveal returns the bytes, for whoever passes them on to the task that they are for.
func (v Value) Reveal() []byte { return v.bytes }

// Len returns how many bytes the value has.
func (v Value) Len() int { return len(v.bytes) }

// Format writes a placeholder, whatever is asked for.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String returns a placeholder.
func (Value) String() string { return hidden }

// MarshalText returns a placeholder; JSON has it, too.
func (Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }
