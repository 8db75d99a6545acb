package state

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
)

// FuzzAssignment reads what a server might send: it is refused, or comes back from the file as it went in.
func FuzzAssignment(f *testing.F) {
	a, _ := task("web/1/5")
	seed, err := proto.Marshal(a.toProto())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p agentv1.Assignment
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		a, err := AssignmentFromProto(&p)
		if err != nil {
			return
		}
		b, err := AssignmentFromProto(a.toProto())
		if err != nil {
			t.Fatalf("%+v is refused when it is read again: %v", a, err)
		}
		options := proto.MarshalOptions{Deterministic: true}
		first, err1 := options.Marshal(a.toProto())
		second, err2 := options.Marshal(b.toProto())
		if err1 != nil || err2 != nil || !bytes.Equal(first, second) {
			t.Fatalf("%+v became %+v", a, b)
		}
	})
}
