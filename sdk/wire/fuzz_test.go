package wire

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// fuzzMessage feeds bytes to a message's conversion. What converts must come back byte for byte from then on.
func fuzzMessage[T any, M proto.Message](f *testing.F, empty func() M, to func(*T) M, from func(M) (*T, error)) {
	f.Helper()
	marshal := proto.MarshalOptions{Deterministic: true}.Marshal
	f.Add([]byte{})
	for _, leaf := range []int{-1, 0, 3} {
		v, _, _ := newFilled[T](leaf)
		b, err := marshal(to(v))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := empty()
		if proto.Unmarshal(data, m) != nil {
			return
		}
		v, err := from(m)
		if err != nil {
			return
		}
		first, err := marshal(to(v))
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		again := empty()
		if err := proto.Unmarshal(first, again); err != nil {
			t.Fatal(err)
		}
		w, err := from(again)
		if err != nil {
			t.Fatal(err)
		}
		second, err := marshal(to(w))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Fatalf("not stable:\n%x\n%x", first, second)
		}
	})
}

func FuzzNode(f *testing.F) { fuzzMessage(f, fresh(NodeToProto), NodeToProto, NodeFromProto) }

func FuzzJob(f *testing.F) { fuzzMessage(f, fresh(JobToProto), JobToProto, JobFromProto) }

func FuzzSlot(f *testing.F) {
	fuzzMessage(f, fresh(SlotToProto), SlotToProto, noError(SlotFromProto))
}

func FuzzTask(f *testing.F) { fuzzMessage(f, fresh(TaskToProto), TaskToProto, TaskFromProto) }

func FuzzStall(f *testing.F) {
	fuzzMessage(f, fresh(StallToProto), StallToProto, noError(StallFromProto))
}

// fresh returns a maker of empty messages of the type that to returns.
func fresh[T any, M proto.Message](to func(*T) M) func() M {
	return func() M {
		m := to(new(T))
		proto.Reset(m)
		return m
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range []any{
		&cluster.Node{ID: "n1"}, &cluster.Job{Name: "web"}, &cluster.Slot{Job: "web", Key: "1"}, &cluster.Task{ID: "web/1/1"}, &cluster.Stall{Source: "core"},
	} {
		key, value, err := Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(key, value)
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		v, err := Decode(key, value)
		if err != nil {
			return
		}
		again, encoded, err := Encode(v)
		if err != nil || again != key {
			t.Fatalf("key %q, %v; want %q", again, err, key)
		}
		if _, err := Decode(again, encoded); err != nil {
			t.Fatal(err)
		}
	})
}
