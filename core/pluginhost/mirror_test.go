package pluginhost

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/setpointd/setpoint/sdk/cluster"
	pluginv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/plugin/v1"
)

// reader is the plugin's side of a mirror.
type reader struct {
	strings []string
	labels  map[uint32]string // by index: name and labels as text
}

func (r *reader) take(t rapid.TB, msgs []*pluginv1.Nodes) {
	for i, m := range msgs {
		if m.Last != (i == len(msgs)-1) || m.Reset_ && i > 0 {
			t.Fatalf("message %d of %d: reset %v, last %v", i, len(msgs), m.Reset_, m.Last)
		}
		if size := proto.Size(m); size > chunkBytes+chunkBytes/8 {
			t.Fatalf("a message of %d bytes", size)
		}
		if m.Reset_ {
			r.strings, r.labels = nil, map[uint32]string{}
		}
		r.strings = append(r.strings, m.Strings...)
		if r.strings[0] != "" {
			t.Fatal("string 0 is not empty")
		}
		for _, i := range m.Remove {
			if _, ok := r.labels[i]; !ok {
				t.Fatalf("unknown index %d is removed", i)
			}
			delete(r.labels, i)
		}
		for _, n := range m.Upsert {
			text := r.strings[n.Id] + " " + r.strings[n.Name]
			for k := range n.LabelKeys {
				text += fmt.Sprintf(" %s=%s", r.strings[n.LabelKeys[k]], r.strings[n.LabelValues[k]])
			}
			if n.State != 0 || n.Os != 0 || n.MilliCpu != 0 {
				t.Fatalf("what is not watched is told: %v", n)
			}
			r.labels[n.Index] = text
		}
	}
}

// The plugin has what the cluster has, whatever changes, and what answers may name is known for each revision.
func TestMirrorFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := newMirror(cluster.Mask(cluster.FieldLabels)), &reader{}
		now := map[uint32]*cluster.Node{}
		past := map[uint64]map[uint32]string{}
		for revision := uint64(1); revision <= uint64(rapid.IntRange(1, 12).Draw(t, "revisions")); revision++ {
			changed := map[uint32]*cluster.Node{}
			for _, i := range rapid.SliceOfNDistinct(rapid.Uint32Range(0, 6), 0, 5, rapid.ID[uint32]).Draw(t, "changed") {
				if rapid.Bool().Draw(t, "gone") {
					changed[i] = nil
					delete(now, i)
					continue
				}
				n := node(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), map[string]string{
					"k": rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "value"),
				})
				n.Description.OS, n.Description.Capacity.MilliCPU = "linux", int64(revision)
				changed[i], now[i] = n, n
			}
			reset := revision == 1 || rapid.IntRange(0, 9).Draw(t, "reset") == 0
			given := changed
			if reset {
				given = maps.Clone(now)
				m.forget(revision, given)
			}
			r.take(t, m.apply(revision, reset, given))
			want := map[uint32]string{}
			for i, n := range now {
				want[i] = fmt.Sprintf("%s %s k=%s", n.ID, n.ID, n.Spec.Labels["k"])
			}
			if diff := cmp.Diff(want, r.labels); diff != "" {
				t.Fatalf("revision %d (-want +got):\n%s", revision, diff)
			}
			past[revision] = want
			for at, was := range past {
				for i := range uint32(8) {
					_, there := was[i]
					if yes, sure := m.present(i, at); sure && yes != there {
						t.Fatalf("at revision %d of %d, index %d: present %v, want %v", at, revision, i, yes, there)
					} else if !sure && at == revision {
						t.Fatalf("index %d is not sure now", i)
					}
				}
			}
		}
	})
}

func TestMirrorTellsOnlyWhatIsSeenToChange(t *testing.T) {
	m := newMirror(cluster.Mask(cluster.FieldLabels))
	n := node("n1", map[string]string{"pool": "a"})
	m.apply(1, true, map[uint32]*cluster.Node{0: n})
	changed := *n
	changed.Status.State = cluster.NodeDown
	msgs := m.apply(2, false, map[uint32]*cluster.Node{0: &changed})
	want := []*pluginv1.Nodes{{Revision: 2, Last: true}}
	if diff := cmp.Diff(want, msgs, protoEqual); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestMirrorDividesNodes(t *testing.T) {
	m, nodes := newMirror(cluster.Mask(cluster.FieldLabels)), map[uint32]*cluster.Node{}
	for i := range uint32(10000) {
		nodes[i] = node(fmt.Sprintf("node-%05d", i), map[string]string{"zone": fmt.Sprint(i % 10), "serial": fmt.Sprintf("%050d", i)})
	}
	r := &reader{}
	msgs := m.apply(1, true, nodes)
	r.take(t, msgs)
	if len(msgs) < 4 || len(r.labels) != len(nodes) || r.labels[77] != "node-00077 node-00077 serial="+fmt.Sprintf("%050d", 77)+" zone=7" {
		t.Errorf("%d messages, %d nodes, one is %q", len(msgs), len(r.labels), r.labels[77])
	}
}

func TestMirrorForgetsStringsThatCrowd(t *testing.T) {
	m := newMirror(cluster.Mask(cluster.FieldLabels))
	for i := range fewStrings + 10 {
		n := map[uint32]*cluster.Node{0: node("n1", map[string]string{"k": fmt.Sprint(i)})}
		msgs := m.apply(uint64(i+1), i == 0, n)
		if msgs[0].Reset_ && i > 0 {
			if len(m.numbers) != 4 || len(msgs[0].Strings) != 4 || len(msgs[0].Upsert) != 1 {
				t.Errorf("after %d values: %d strings are known", i, len(m.numbers))
			}
			return
		}
	}
	t.Error("the table of strings grows for ever")
}
