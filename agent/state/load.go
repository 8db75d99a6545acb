package state

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// ErrDamaged is returned for a record whose bytes are not what was written.
var ErrDamaged = errors.New("record is damaged")

// Identity says to which cluster an agent belongs, and as which node. All is empty before it joined.
type Identity struct {
	ClusterID string
	NodeID    cluster.NodeID
	Authority string // fingerprint of the authority by which it joined, which another may have replaced since; empty in files of earlier versions
}

// Identity returns what SetIdentity wrote.
func (f *File) Identity() (Identity, error) {
	var out Identity
	err := f.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		out = Identity{ClusterID: string(meta.Get(keyCluster)), NodeID: cluster.NodeID(meta.Get(keyNode)), Authority: string(meta.Get(keyAuthority))}
		return nil
	})
	if err != nil {
		return Identity{}, fmt.Errorf("read agent state: %w", err)
	}
	return out, nil
}

// SetIdentity writes to which cluster the agent belongs.
func (f *File) SetIdentity(id Identity) error {
	err := f.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Put(keyCluster, []byte(id.ClusterID)), meta.Put(keyNode, []byte(id.NodeID)), meta.Put(keyAuthority, []byte(id.Authority)))
	})
	if err != nil {
		return fmt.Errorf("write agent state: %w", err)
	}
	return nil
}

// Load returns all tasks in the order of their ids, and the revision of the newest assignments that were applied. The error wraps
// ErrDamaged, and names the record, if one is not what was written.
func (f *File) Load() ([]Task, cluster.Revision, error) {
	var tasks []Task
	var revision cluster.Revision
	err := f.db.View(func(tx *bbolt.Tx) error {
		if v := tx.Bucket(bucketMeta).Get(keyRevision); len(v) == 8 {
			revision = cluster.Revision(binary.BigEndian.Uint64(v))
		}
		return tx.Bucket(bucketAssignments).ForEach(func(key, value []byte) error {
			t, err := load(tx, key, value)
			if err != nil {
				return fmt.Errorf("task %s: %w", key, err)
			}
			tasks = append(tasks, t)
			return nil
		})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read agent state %s: %w", f.path, err)
	}
	return tasks, revision, nil
}

func load(tx *bbolt.Tx, key, assigned []byte) (Task, error) {
	var t Task
	var a agentv1.Assignment
	err := getMessage(assigned, &a)
	if err == nil {
		t.Assignment, err = AssignmentFromProto(&a)
	}
	if err != nil {
		return Task{}, fmt.Errorf("assignment: %w", err)
	}
	var s agentv1.TaskStatus
	if err := getMessage(tx.Bucket(bucketStatuses).Get(key), &s); err != nil {
		return Task{}, fmt.Errorf("status: %w", err)
	}
	t.Status = statusFromProto(&s)
	if t.Status.State > cluster.Stopped || t.Status.Task != t.Assignment.Task {
		return Task{}, fmt.Errorf("status: %w", ErrDamaged)
	}
	if value := tx.Bucket(bucketHandles).Get(key); value != nil {
		value, err := checked(value)
		if err != nil {
			return Task{}, fmt.Errorf("handle: %w", err)
		}
		t.Handle = new(driver.Handle)
		if err := json.Unmarshal(value, t.Handle); err != nil {
			return Task{}, fmt.Errorf("handle: %w", err)
		}
	}
	t.Forgotten = tx.Bucket(bucketForgotten).Get(key) != nil
	return t, nil
}

func getMessage(value []byte, m proto.Message) error {
	value, err := checked(value)
	if err != nil {
		return err
	}
	return proto.Unmarshal(value, m)
}

// checked returns what putValue was given.
func checked(value []byte) ([]byte, error) {
	if len(value) < 4 || crc32.Checksum(value[4:], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(value) {
		return nil, ErrDamaged
	}
	return value[4:], nil
}
