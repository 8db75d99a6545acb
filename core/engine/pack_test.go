package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// fields sets the leaves of a record for which set says so; a list has as many entries as that says for it.
type fields struct {
	next int
	set  func(n int, v reflect.Value) // the n-th leaf
	size func() int
}

func (f *fields) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Slice:
		n := f.size()
		if n == 0 {
			return // a list without entries is nil
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		for i := range f.size() {
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(fmt.Sprintf("unit-%d-%d", f.next, i))
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	default:
		f.set(f.next, v)
		f.next++
	}
}

// leaf gives a leaf a value by a number.
func leaf(v reflect.Value, n uint64) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint64, reflect.Uint16, reflect.Uint8:
		v.SetUint(n & (math.MaxUint64 >> (64 - v.Type().Bits())))
	default:
		panic(fmt.Sprintf("a record has a field of kind %s, which the test does not know", v.Kind()))
	}
}

func samePacked(t *testing.T, what string, in any) {
	t.Helper()
	var p packer
	var out any
	switch in := in.(type) {
	case *cluster.Task:
		packed := packTask(&p, in)
		x := task{in.ID, packed}
		out = x.unpack()
		job, slot, node := x.place()
		if job != in.Job || slot != in.Slot || node != in.Placement.Node || x.dead() != in.Dead() || x.has(taskPlaced) != in.Placed() {
			t.Errorf("%s: what is asked without unpacking is %q %q %q dead %t of\n%+v", what, job, slot, node, x.dead(), in)
		}
	case *cluster.Slot:
		out = packSlot(&p, in).unpack(in.ID())
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("%s (-packed +unpacked):\n%s", what, cmp.Diff(in, out))
	}
}

// Every field comes back, by itself and among others, so that a new one cannot be forgotten.
func TestPackedIsWhatWasPacked(t *testing.T) {
	for _, of := range []func() any{func() any { return new(cluster.Task) }, func() any { return new(cluster.Slot) }} {
		for only := -1; ; only++ {
			in := of()
			f := fields{size: func() int { return 2 }, set: func(n int, v reflect.Value) {
				if only < 0 || n == only {
					leaf(v, uint64(n+1)<<33|uint64(n+1))
				}
			}}
			f.fill(reflect.ValueOf(in).Elem())
			samePacked(t, fmt.Sprintf("%T, leaf %d", in, only), in)
			if only >= f.next {
				break
			}
		}
	}
}

// someTexts are such as stand in one record several times, or in many records.
var someTexts = []string{"", "", "n1", "n2", "web", "3", "core", "ok", "gone", "new slot", "exited with code 137", "a/b", "stra\u00dfe \xff"}

func fillAny(r *rand.Rand, in any) {
	f := fields{size: func() int { return max(0, r.IntN(5)-2) }, set: func(_ int, v reflect.Value) {
		switch {
		case v.Kind() == reflect.String:
			v.SetString(someTexts[r.IntN(len(someTexts))])
		case r.IntN(2) == 0:
			leaf(v, r.Uint64()>>r.IntN(64))
		}
	}}
	f.fill(reflect.ValueOf(in).Elem())
	if t, ok := in.(*cluster.Task); ok && r.IntN(4) > 0 {
		t.ID = cluster.NewTaskID(t.Job, t.Slot, t.CreatedRev)
	}
}

func FuzzPack(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			task, slot := new(cluster.Task), new(cluster.Slot)
			fillAny(r, task)
			samePacked(t, "task", task)
			fillAny(r, slot)
			samePacked(t, "slot", slot)
		}
	})
}

// A task as most are takes a sixth of what its record takes, and reading one makes one object, and one for each list.
func TestPackedIsSmall(t *testing.T) {
	task, slot := usual()
	var p packer
	small := packTask(&p, task)
	if n := len(small); n > 80 {
		t.Errorf("a task takes %d bytes", n)
	}
	if n := len(packSlot(&p, slot)); n > 32 {
		t.Errorf("a slot takes %d bytes", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = unpackedTask(small, task.ID) }); n != 3 {
		t.Errorf("reading a task takes %v allocations", n)
	}
}

//go:noinline
func unpackedTask(p packedTask, id cluster.TaskID) *cluster.Task { return task{id, p}.unpack() }

// usual returns a task that runs, with its slot.
func usual() (*cluster.Task, *cluster.Slot) {
	at := func(s int64) cluster.Time {
		return cluster.Time{Engine: 5_000_000_123_456_789, Wall: 1_700_000_000_123_456_789}.Add(time.Duration(s) * time.Second)
	}
	task := &cluster.Task{
		ID: "web/17/123456", Job: "web", Slot: "17", JobVersion: 3, SpecVersion: 2, Created: at(0), CreatedRev: 123456, Why: "new slot",
		Reserve: cluster.Reserve{Resources: cluster.Resources{MilliCPU: 500, Memory: 256 << 20}, Ports: []cluster.Port{{Name: "http"}}},
		Desired: cluster.Desired{State: cluster.DesiredRunning, By: cluster.SourceCore, Since: at(0), Grace: -1},
		Placement: cluster.Placement{
			Node: "nabcdefghij", Since: at(0), Ports: []cluster.PortGrant{{Name: "http", Number: 31017}}, Among: cluster.Among{Nodes: 10_000, Allowed: 9_000, Beside: 1},
		},
		Observed:  cluster.Observed{State: cluster.Running, Healthy: true, At: at(3), Message: "healthy"},
		Condition: cluster.Condition{State: cluster.OK},
	}
	slot := &cluster.Slot{Job: "web", Key: "17", Created: 1234, Version: 3, SpecVersion: 2, SpentFor: 2, UpSince: at(3), EverUp: true}
	return task, slot
}

func BenchmarkPack(b *testing.B) {
	t, s := usual()
	var p packer
	pt, ps := packTask(&p, t), packSlot(&p, s)
	b.Run("task", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pt = packTask(&p, t)
		}
		b.ReportMetric(float64(len(pt)), "bytes")
	})
	b.Run("slot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ps = packSlot(&p, s)
		}
		b.ReportMetric(float64(len(ps)), "bytes")
	})
	b.Run("task-back", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = unpackedTask(pt, t.ID)
		}
	})
	b.Run("slot-back", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s = ps.unpack("web/17")
		}
	})
}
