package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	agentv1 "github.com/setpointd/setpoint/proto/setpoint/agent/v1"
	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func closed(t *testing.T, f *File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func task(id cluster.TaskID) (Assignment, Status) {
	job, slot, _, err := id.Parts()
	if err != nil {
		panic(err)
	}
	a := Assignment{
		Task: id, Job: job, Slot: slot, Desired: cluster.DesiredRunning, Grace: -1, Observed: cluster.Accepted, Start: true,
		Spec: &cluster.TaskSpec{
			Driver: "process", Command: []string{"/srv/web"}, Dir: "/srv", User: "www", Env: map[string]string{"A": "b"},
			Config: map[string]string{"c": "d"}, Resources: cluster.Resources{MilliCPU: 500, Memory: 1 << 20, Units: map[string]int64{"gpu": 1}},
			Ports: []cluster.Port{{Name: "http", Static: 8080}}, Stop: cluster.StopSpec{Signal: "TERM", Grace: 10 * time.Second},
			Health: &cluster.HealthSpec{TCP: "127.0.0.1:8080", Interval: time.Second, Timeout: time.Second, Retries: 3},
		},
		Ports: []cluster.PortGrant{{Name: "http", Number: 8080}}, Addresses: []cluster.AddressGrant{{Name: "eth0", Pool: "lan", Address: "10.1.0.1"}},
	}
	return a, Status{
		Task: id, State: cluster.Failed, Message: "started", Err: "exit code 3", ExitCode: 3, Healthy: true, At: time.Unix(5, 6),
	}
}

func TestWhatWasWrittenComesBack(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if id, err := f.Identity(); err != nil || id != (Identity{}) {
		t.Errorf("a new file is of %+v, %v", id, err)
	}
	me := Identity{ClusterID: "c1", NodeID: "n1"}
	if err := f.SetIdentity(me); err != nil {
		t.Fatal(err)
	}
	a1, s1 := task("web/1/5")
	a2, s2 := task("web/2/5")
	a2.Spec, a2.Ports, a2.Addresses = nil, nil, nil
	h := driver.Handle{Driver: "process", TaskID: "web/1/5", Data: json.RawMessage(`{"pid":7}`)}
	if err := f.Commit(Batch{Revision: 9, Assignments: []Assignment{a1, a2}, Statuses: []Status{s1, s2}, Handles: []driver.Handle{h}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(Batch{Forgotten: []cluster.TaskID{"web/2/5"}}); err != nil {
		t.Fatal(err)
	}
	closed(t, f)
	f = open(t, dir)
	defer closed(t, f)
	tasks, revision, err := f.Load()
	if err != nil || revision != 9 {
		t.Fatalf("revision %d, %v", revision, err)
	}
	want := []Task{{Assignment: a1, Status: s1, Handle: &h}, {Assignment: a2, Status: s2, Forgotten: true}}
	if !reflect.DeepEqual(tasks, want) {
		t.Errorf("got  %+v\nwant %+v", tasks, want)
	}
	if id, err := f.Identity(); err != nil || id != me {
		t.Errorf("it is of %+v, %v", id, err)
	}
	if err := f.Commit(Batch{Deleted: []cluster.TaskID{"web/1/5", "web/2/5"}}); err != nil {
		t.Fatal(err)
	}
	tasks, revision, err = f.Load()
	if len(tasks) != 0 || revision != 9 || err != nil {
		t.Errorf("after deleting all: %v, revision %d, %v", tasks, revision, err)
	}
	for _, name := range [][]byte{bucketStatuses, bucketHandles, bucketForgotten} {
		err := f.db.View(func(tx *bbolt.Tx) error {
			if k, _ := tx.Bucket(name).Cursor().First(); k != nil {
				return fmt.Errorf("%s still has %s", name, k)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestManyCommitAtOnce(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			a, s := task(cluster.TaskID(fmt.Sprintf("web/%d/5", i)))
			if err := f.Commit(Batch{Assignments: []Assignment{a}, Statuses: []Status{s}}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	closed(t, f)
	f = open(t, dir)
	defer closed(t, f)
	if tasks, _, err := f.Load(); len(tasks) != 200 || err != nil {
		t.Errorf("%d tasks, %v", len(tasks), err)
	}
}

func TestSecondHolder(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	began := time.Now()
	_, err := Open(dir)
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || !strings.Contains(err.Error(), "uses this data directory") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	closed(t, f)
	if _, err := os.Stat(filepath.Join(dir, "agent.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file is left: %v", err)
	}
	closed(t, open(t, dir))
}

func TestDamage(t *testing.T) {
	for name, bucket := range map[string][]byte{"assignment": bucketAssignments, "status": bucketStatuses, "handle": bucketHandles} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			defer closed(t, f)
			a, s := task("web/1/5")
			h := driver.Handle{Driver: "process", TaskID: "web/1/5"}
			if err := f.Commit(Batch{Assignments: []Assignment{a}, Statuses: []Status{s}, Handles: []driver.Handle{h}}); err != nil {
				t.Fatal(err)
			}
			err := f.db.Update(func(tx *bbolt.Tx) error {
				v := append([]byte(nil), tx.Bucket(bucket).Get([]byte("web/1/5"))...)
				v[len(v)/2] ^= 1
				return tx.Bucket(bucket).Put([]byte("web/1/5"), v)
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.Load(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "web/1/5: "+name) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("no status", func(t *testing.T) {
		f := open(t, t.TempDir())
		defer closed(t, f)
		a, _ := task("web/1/5")
		if err := f.Commit(Batch{Assignments: []Assignment{a}}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Load(); !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not a database", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, Name), []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), Name) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("newer format", func(t *testing.T) {
		dir := t.TempDir()
		f := open(t, dir)
		if err := f.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyFormat, []byte("2")) }); err != nil {
			t.Fatal(err)
		}
		closed(t, f)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `its format is "2"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRefusedAssignments(t *testing.T) {
	good := func() *agentv1.Assignment {
		a, _ := task("web/1/5")
		return a.toProto()
	}
	if _, err := AssignmentFromProto(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*agentv1.Assignment){
		"no id":            func(a *agentv1.Assignment) { a.Task = "" },
		"no task id":       func(a *agentv1.Assignment) { a.Task = "web" },
		"nothing desired":  func(a *agentv1.Assignment) { a.Desired = 0 },
		"unknown desired":  func(a *agentv1.Assignment) { a.Desired = 5 },
		"far desired":      func(a *agentv1.Assignment) { a.Desired = 257 },
		"unknown observed": func(a *agentv1.Assignment) { a.Observed = 9 },
		"port":             func(a *agentv1.Assignment) { a.Ports = []*setpointv1.PortGrant{{Name: "x", Number: 70000}} },
		"port of its spec": func(a *agentv1.Assignment) { a.Spec.Ports = []*setpointv1.Port{{Name: "x", Static: 70000}} },
	} {
		t.Run(name, func(t *testing.T) {
			a := good()
			spoil(a)
			if got, err := AssignmentFromProto(a); err == nil {
				t.Errorf("taken as %+v", got)
			}
		})
	}
}
