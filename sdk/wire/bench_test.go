package wire

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// usual are records as a cluster has them, a thousand of each kind.
func usual() map[string][]any {
	at := cluster.Time{Engine: 90 * time.Minute, Wall: 1_780_000_000_123_456_789}
	out := map[string][]any{}
	for i := range 1000 {
		job, slot, node := fmt.Sprintf("job-%02d", i%100), cluster.SlotKey(fmt.Sprint(i)), cluster.NodeID(fmt.Sprintf("n%05d", 7*i%10_000))
		out[KindTask] = append(out[KindTask], &cluster.Task{
			ID: cluster.NewTaskID(job, slot, 1234), Job: job, Slot: slot, JobVersion: 1, SpecVersion: 1, Created: at, CreatedRev: 1234, Why: "new slot",
			Reserve:   cluster.Reserve{Resources: cluster.Resources{MilliCPU: 100, Memory: 64 << 20}},
			Desired:   cluster.Desired{State: cluster.DesiredRunning, By: "core", Since: at, Grace: -1},
			Placement: cluster.Placement{Node: node, Since: at, Among: cluster.Among{Nodes: 10_000, Allowed: 9_900, Beside: 1}},
			Observed:  cluster.Observed{State: cluster.Running, Message: "started", Healthy: true, At: at},
			Condition: cluster.Condition{State: cluster.OK},
		})
		out[KindSlot] = append(out[KindSlot], &cluster.Slot{
			Job: job, Key: slot, Created: 1200, Version: 1, SpecVersion: 1, SpentFor: 1, NotUpSince: at, NotUpWhy: cluster.NotUpNew,
		})
		out[KindStall] = append(out[KindStall], &cluster.Stall{
			Subject: cluster.Subject{Kind: cluster.SubjectTask, ID: string(cluster.NewTaskID(job, slot, 1234))}, Source: cluster.SourcePlacement, Code: cluster.CodeNoNodes,
			Message: "no node can run it", Since: at, Changed: at, Clears: "a node has room",
			Facts: cluster.Facts{Nodes: 10_000, Excluded: []cluster.Exclusion{{Source: "constraint", Code: "constraint_unmet", Detail: "node.labels.disk == ssd", Count: 10_000}}},
		})
		out[KindNode] = append(out[KindNode], &cluster.Node{
			ID: node, Joined: at, Created: 12, Spec: cluster.NodeSpec{Name: string(node), Labels: map[string]string{"zone": "a", "disk": "ssd"}, Availability: cluster.Active},
			Description: cluster.NodeDescription{
				Hostname: string(node), OS: "linux", Arch: "amd64", Addresses: []string{"10.0.0.1"}, Attributes: map[string]string{"kernel": "6.1"},
				Drivers: []string{"process"}, Capacity: cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30}, Version: "1.0",
			},
			Status: cluster.NodeStatus{State: cluster.NodeReady, Since: at}, Seen: cluster.FieldRevisions{12, 12, 12, 12, 12, 12, 12},
		})
	}
	return out
}

// BenchmarkRecords encodes and decodes 1,000 records of a kind at a time, by the messages ("message") and without them.
func BenchmarkRecords(b *testing.B) {
	for kind, records := range usual() {
		var keys []string
		var values [][]byte
		for _, v := range records {
			key, value, err := Encode(v)
			if err != nil {
				b.Fatal(err)
			}
			keys, values = append(keys, key), append(values, value)
		}
		var buf []byte
		each := func(name string, f func(i int) error) {
			b.Run(kind+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					buf = buf[:0]
					for i := range records {
						if err := f(i); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
			})
		}
		each("encode/message", func(i int) error {
			_, err := proto.MarshalOptions{Deterministic: true}.Marshal(message(records[i]))
			return err
		})
		each("encode/alone", func(i int) error {
			_, _, err := Encode(records[i])
			return err
		})
		each("encode/append", func(i int) (err error) {
			buf, err = AppendValue(buf, records[i])
			return err
		})
		each("decode/message", func(i int) error {
			_, err := decode(keys[i], values[i])
			return err
		})
		each("decode/alone", func(i int) error {
			_, err := Decode(keys[i], values[i])
			return err
		})
		d := NewDecoder()
		each("decode/shared", func(i int) error {
			_, err := d.Decode(keys[i], values[i])
			return err
		})
	}
}
