package wire

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// The kinds of record, each the first part of its keys.
const (
	KindNode  = "node"
	KindJob   = "job"
	KindSlot  = "slot"
	KindTask  = "task"
	KindStall = "stall"

	KindRemovals = "removals"
)

// RemovalsKey is the key of the one record of this kind.
const RemovalsKey = KindRemovals + "/newest"

// ErrRecord is wrapped by every error about a record that cannot be encoded or decoded.
var ErrRecord = errors.New("bad record")

// NodeKey returns the key of a node's record.
func NodeKey(id cluster.NodeID) string { return KindNode + "/" + string(id) }

// JobKey returns the key of a job's record.
func JobKey(name string) string { return KindJob + "/" + name }

// SlotKey returns the key of a slot's record.
func SlotKey(job string, key cluster.SlotKey) string { return KindSlot + "/" + job + "/" + string(key) }

// TaskKey returns the key of a task's record.
func TaskKey(id cluster.TaskID) string { return KindTask + "/" + string(id) }

// StallKey returns the key of a stall's record; key is what its Key method returns.
func StallKey(key string) string { return KindStall + "/" + key }

// Encode returns a record as a store keeps it: its key, such as "node/n1", "job/web", "slot/web/1", "task/web/1/7" or "stall/" with the stall's key, and its
// protobuf message. v is a *cluster.Node, *cluster.Job, *cluster.Slot, *cluster.Task, *cluster.Stall or *cluster.Removals; equal records give equal bytes. The error wraps
// ErrRecord if v is anything else, has no name, or holds text that is not UTF-8.
func Encode(v any) (key string, value []byte, err error) {
	var m proto.Message
	switch r := v.(type) {
	case *cluster.Node:
		m = NodeToProto(r)
	case *cluster.Job:
		m = JobToProto(r)
	case *cluster.Slot:
		m = SlotToProto(r)
	case *cluster.Task:
		m = TaskToProto(r)
	case *cluster.Stall:
		m = StallToProto(r)
	case *cluster.Removals:
		m = &setpointv1.Removals{Revision: uint64(r.Revision), By: r.By}
	}
	if key, err = KeyOf(v); err != nil {
		return "", nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if value, err = (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil {
		return "", nil, fmt.Errorf("encode %s: %w: %w", key, ErrRecord, err)
	}
	return key, value, nil
}

// Decode returns the record that Encode made key and value of, as a pointer of the type that the key names. The error wraps ErrRecord if the key names no kind
// of record, the value is no message of that kind, a number in it stands for nothing, or the record belongs under another key.
func Decode(key string, value []byte) (any, error) {
	v, err := decode(key, value)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w: %w", key, ErrRecord, err)
	}
	own, err := KeyOf(v)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	if own != key {
		return nil, fmt.Errorf("decode %s: %w: it is the record of %s", key, ErrRecord, own)
	}
	return v, nil
}

func decode(key string, value []byte) (any, error) {
	kind, _, _ := strings.Cut(key, "/")
	switch kind {
	case KindNode:
		m, err := unmarshal(value, new(setpointv1.Node))
		if err != nil {
			return nil, err
		}
		return NodeFromProto(m)
	case KindJob:
		m, err := unmarshal(value, new(setpointv1.Job))
		if err != nil {
			return nil, err
		}
		return JobFromProto(m)
	case KindSlot:
		m, err := unmarshal(value, new(setpointv1.Slot))
		if err != nil {
			return nil, err
		}
		return SlotFromProto(m), nil
	case KindTask:
		m, err := unmarshal(value, new(setpointv1.Task))
		if err != nil {
			return nil, err
		}
		return TaskFromProto(m)
	case KindStall:
		m, err := unmarshal(value, new(setpointv1.Stall))
		if err != nil {
			return nil, err
		}
		return StallFromProto(m), nil
	case KindRemovals:
		m, err := unmarshal(value, new(setpointv1.Removals))
		if err != nil {
			return nil, err
		}
		return &cluster.Removals{Revision: cluster.Revision(m.GetRevision()), By: m.GetBy()}, nil
	}
	return nil, fmt.Errorf("there is no kind of record %q", kind)
}

func unmarshal[M proto.Message](value []byte, m M) (M, error) {
	err := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(value, m)
	return m, err
}

// KeyOf returns the key of a record, of the same types as Encode takes. A job's name must not contain a slash, or two slots could have one key.
func KeyOf(v any) (string, error) {
	var key, name string
	switch r := v.(type) {
	case *cluster.Node:
		key, name = NodeKey(r.ID), string(r.ID)
	case *cluster.Job:
		key, name = JobKey(r.Name), r.Name
	case *cluster.Slot:
		if r.Job == "" || strings.Contains(r.Job, "/") {
			return "", fmt.Errorf("%w: the job's name %q is empty or has a slash", ErrRecord, r.Job)
		}
		key, name = SlotKey(r.Job, r.Key), string(r.Key)
	case *cluster.Task:
		key, name = TaskKey(r.ID), string(r.ID)
	case *cluster.Stall:
		key, name = StallKey(r.Key()), r.Subject.String()
	case *cluster.Removals:
		key, name = RemovalsKey, KindRemovals
	default:
		return "", fmt.Errorf("%w: no record is a %T", ErrRecord, v)
	}
	if name == "" {
		return "", fmt.Errorf("%w: it has no name", ErrRecord)
	}
	return key, nil
}
