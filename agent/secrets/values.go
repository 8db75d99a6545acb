package secrets

import (
	"fmt"
	"io"
)

// hidden is what is printed in the place of values.
const hidden = "(secrets)"

// Values are what the server sent of a task's secrets. Printing, logging or encoding them gives nothing away. The zero value has none.
type Values struct{ byName map[string]value }

type value struct {
	bytes []byte
	err   string // why there is none
}

// Add takes a value of the server, or its word why there is none.
func (v *Values) Add(name string, bytes []byte, err string) {
	if v.byName == nil {
		v.byName = make(map[string]value)
	}
	v.byName[name] = value{bytes, err}
}

// Len returns how many there are.
func (v Values) Len() int { return len(v.byName) }

// get returns a value, or why there is none.
func (v Values) get(name string) ([]byte, string) {
	x, ok := v.byName[name]
	if !ok {
		return nil, fmt.Sprintf("the server did not send the secret %s", name)
	}
	return x.bytes, x.err
}

// Format writes a placeholder, whatever is asked for.
func (Values) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String returns a placeholder.
func (Values) String() string { return hidden }

// MarshalText returns a placeholder; JSON has it, too.
func (Values) MarshalText() ([]byte, error) { return []byte(hidden), nil }
