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

	KindRequest = "request"
	KindNotice  = "notice"

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

// NoticeKey returns the key of a notice's record; key is what its Key method returns.
func NoticeKey(key string) string { return KindNotice + "/" + key }

// Encode returns a record as a store keeps it: its key, such as "node/n1", "job/web", "slot/web/1", "task/web/1/7" or "stall/" with the stall's key, and its
// protobuf message. v is a *cluster.Node, *cluster.Job, *cluster.Slot, *cluster.Task, *cluster.Stall, *cluster.Request, *cluster.Notice or *cluster.Removals; equal records give equal bytes. The error wraps
// ErrRecord if v is anything else, has no name, or holds text that is not UTF-8.
func Encode(v any) (key string, value []byte, err error) {
	if key, err = KeyOf(v); err != nil {
		return "", nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if value, err = AppendValue(make([]byte, 0, usualSize), v); err != nil {
		return "", nil, err
	}
	return key, value, nil
}

// What most records take, in bytes.
const (
	usualKey  = 64
	usualSize = 256
)

// AppendValue appends the value that Encode returns for a record to b, so that many can share one buffer. It does not ask for a name; its other errors are
// Encode's. With an error b is returned as it was.
func AppendValue(b []byte, v any) ([]byte, error) {
	if out, ok := appendDirect(b, v); ok {
		return out, nil
	}
	m := message(v)
	if m == nil {
		return b, fmt.Errorf("encode %T: %w: no record is of that type", v, ErrRecord)
	}
	out, err := (proto.MarshalOptions{Deterministic: true}).MarshalAppend(b, m)
	if err != nil {
		key, _ := KeyOf(v)
		return b, fmt.Errorf("encode %s: %w: %w", key, ErrRecord, err)
	}
	return out, nil
}

// message returns the message of a record, nil if v is none.
func message(v any) proto.Message {
	switch r := v.(type) {
	case *cluster.Node:
		return NodeToProto(r)
	case *cluster.Job:
		return JobToProto(r)
	case *cluster.Slot:
		return SlotToProto(r)
	case *cluster.Task:
		return TaskToProto(r)
	case *cluster.Stall:
		return StallToProto(r)
	case *cluster.Request:
		return requestToProto(r)
	case *cluster.Notice:
		return NoticeToProto(r)
	case *cluster.Removals:
		return &setpointv1.Removals{Revision: uint64(r.Revision), By: r.By}
	}
	return nil
}

// Decode returns the record that Encode made key and value of, as a pointer of the type that the key names. The error wraps ErrRecord if the key names no kind
// of record, the value is no message of that kind, a number in it stands for nothing, or the record belongs under another key.
func Decode(key string, value []byte) (any, error) { return new(Decoder).Decode(key, value) }

// Decode is like the function of that name, but for texts being shared.
func (d *Decoder) Decode(key string, value []byte) (any, error) {
	v := d.direct(key, value)
	if v == nil {
		var err error
		if v, err = decode(key, value); err != nil {
			return nil, fmt.Errorf("decode %s: %w: %w", key, ErrRecord, err)
		}
	}
	if err := belongs(key, v); err != nil {
		return nil, err
	}
	return v, nil
}

// belongs returns an error if a record, decoded as of the kind that the key says, does not belong under the key.
func belongs(key string, v any) error {
	if _, name, _ := strings.Cut(key, "/"); isNamed(v, name) {
		return nil
	}
	own, err := KeyOf(v)
	if err != nil {
		return fmt.Errorf("decode %s: %w", key, err)
	}
	if own != key {
		return fmt.Errorf("decode %s: %w: it is the record of %s", key, ErrRecord, own)
	}
	return nil
}

// isNamed reports whether a record has a name, as far as that can be told without making its key.
func isNamed(v any, name string) bool {
	switch r := v.(type) {
	case *cluster.Task:
		return name != "" && string(r.ID) == name
	case *cluster.Slot:
		job, key, _ := strings.Cut(name, "/")
		return job != "" && key != "" && r.Job == job && string(r.Key) == key
	}
	return false
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
	case KindRequest:
		m, err := unmarshal(value, new(setpointv1.Request))
		if err != nil {
			return nil, err
		}
		return requestFromProto(m), nil
	case KindNotice:
		m, err := unmarshal(value, new(setpointv1.Notice))
		if err != nil {
			return nil, err
		}
		return NoticeFromProto(m), nil
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
	b, err := AppendKey(make([]byte, 0, usualKey), v)
	return string(b), err
}

// AppendKey appends what KeyOf returns for a record to b, so that many can share one buffer. With an error b is returned as it was.
func AppendKey(b []byte, v any) ([]byte, error) {
	var kind, name string
	switch r := v.(type) {
	case *cluster.Node:
		kind, name = KindNode, string(r.ID)
	case *cluster.Job:
		kind, name = KindJob, r.Name
	case *cluster.Slot:
		if r.Job == "" || strings.Contains(r.Job, "/") {
			return b, fmt.Errorf("%w: the job's name %q is empty or has a slash", ErrRecord, r.Job)
		}
		if r.Key == "" {
			break
		}
		return appendParts(b, KindSlot, r.Job, string(r.Key)), nil
	case *cluster.Task:
		kind, name = KindTask, string(r.ID)
	case *cluster.Stall:
		kind, name = KindStall, r.Key()
	case *cluster.Request:
		if r.By != "" && r.Key != "" {
			kind, name = KindRequest, r.ID()
		}
	case *cluster.Notice:
		if r.Sink == "" || strings.Contains(r.Sink, "/") {
			return b, fmt.Errorf("%w: the sink's name %q is empty or has a slash", ErrRecord, r.Sink)
		}
		kind, name = KindNotice, r.Key()
	case *cluster.Removals:
		return append(b, RemovalsKey...), nil
	default:
		return b, fmt.Errorf("%w: no record is a %T", ErrRecord, v)
	}
	if name == "" {
		return b, fmt.Errorf("%w: it has no name", ErrRecord)
	}
	return appendParts(b, kind, name), nil
}

func appendParts(b []byte, parts ...string) []byte {
	for i, p := range parts {
		if i > 0 {
			b = append(b, '/')
		}
		b = append(b, p...)
	}
	return b
}
