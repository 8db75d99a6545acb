package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestRecordKeys(t *testing.T) {
	for _, c := range []struct {
		record any
		key    string
	}{
		{&cluster.Node{ID: "n1"}, "node/n1"},
		{&cluster.Job{Name: "web"}, "job/web"},
		{&cluster.Slot{Job: "web", Key: "3"}, "slot/web/3"},
		{&cluster.Slot{Job: "rack", Key: "row/7"}, "slot/rack/row/7"},
		{&cluster.Task{ID: "web/3/17"}, "task/web/3/17"},
		{
			&cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectSlot, ID: "web/3"}, Source: "core", Code: cluster.CodeRestartDelay},
			"stall/slot:web/3|core|restart_delay",
		},
		{
			&cluster.Stall{Subject: cluster.Subject{Kind: cluster.SubjectGroup, ID: "g"}, Source: cluster.SourcePlacement, Code: cluster.CodeNoNodes},
			"stall/group:g|placement",
		},
		{&cluster.Request{By: "ann", Key: "k1", Digest: "ab", Revision: 7, Outcomes: []cluster.Outcome{{ID: "web", Version: 3, Changed: true}}}, "request/ann/k1"},
		{
			&cluster.Notice{Sink: "oncall", Cause: cluster.StallCause{Code: cluster.CodePortTaken, Source: cluster.SourcePlacement, Detail: "8080"}, Message: "m"},
			"notice/oncall/1446d7c532546678",
		},
		{&cluster.Removals{Revision: 9, By: []string{"ann", "bob"}}, "removals/newest"},
	} {
		key, value, err := Encode(c.record)
		if err != nil || key != c.key {
			t.Errorf("%#v: key %q, %v; want %q", c.record, key, err, c.key)
			continue
		}
		got, err := Decode(key, value)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(c.record, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestEncodeIsDeterministic(t *testing.T) {
	job := func() *cluster.Job {
		j, _, _ := newFilled[cluster.Job](-1)
		j.Name = "web"
		j.Control.Spec.Labels = map[string]string{}
		for _, k := range strings.Split("abcdefghijklmnop", "") {
			j.Control.Spec.Labels[k] = k
		}
		return j
	}
	_, first, err := Encode(job())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, again, err := Encode(job()); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("equal records gave different bytes (%v)", err)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, v := range map[string]any{
		"another type":           cluster.Node{ID: "n1"},
		"nil":                    nil,
		"a node without id":      &cluster.Node{},
		"a job without name":     &cluster.Job{},
		"a slot without job":     &cluster.Slot{Key: "1"},
		"a slot without key":     &cluster.Slot{Job: "web"},
		"a slot of a job with /": &cluster.Slot{Job: "a/b", Key: "1"},
		"a task without id":      &cluster.Task{},
		"a sink with /":          &cluster.Notice{Sink: "a/b"},
		"text that is not UTF-8": &cluster.Node{ID: "n1", Spec: cluster.NodeSpec{Name: "\xff"}},
	} {
		if _, _, err := Encode(v); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: got %v, want ErrRecord", name, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	_, node, err := Encode(&cluster.Node{ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	_, task, err := Encode(&cluster.Task{ID: "a/1/1", Desired: cluster.Desired{State: 77}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, key string
		value     []byte
		want      string
	}{
		{"no kind", "n1", node, `there is no kind of record "n1"`},
		{"unknown kind", "pool/n1", node, `there is no kind of record "pool"`},
		{"another's key", "node/n2", node, "it is the record of node/n1"},
		{"no name", "node/", nil, "it has no name"},
		{"cut off", "node/n1", node[:2], "proto:"},
		{"bad state", "task/a/1/1", task, "desired state 77: out of range"},
	} {
		v, err := Decode(c.key, c.value)
		if !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), c.want) || v != nil {
			t.Errorf("%s: got %v, %v; want an error with %q", c.name, v, err, c.want)
		}
	}
}
