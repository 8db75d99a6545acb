package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
	setpointv1 "github.com/setpointd/setpoint/sdk/proto/setpoint/v1"
)

// roundTrip sends a record through its message and the message through its bytes.
func roundTrip[T any, M proto.Message](to func(*T) M, from func(M) (*T, error)) func(*T) (*T, error) {
	return func(v *T) (*T, error) {
		m := to(v)
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		got, ok := m.ProtoReflect().New().Interface().(M)
		if !ok {
			return nil, errors.New("the message is of another type than itself")
		}
		if err := proto.Unmarshal(b, got); err != nil {
			return nil, err
		}
		return from(got)
	}
}

func noError[T, M any](from func(M) *T) func(M) (*T, error) {
	return func(m M) (*T, error) { return from(m), nil }
}

func TestEveryFieldComesBack(t *testing.T) {
	t.Run("node", func(t *testing.T) { testEveryField(t, roundTrip(NodeToProto, NodeFromProto)) })
	t.Run("job", func(t *testing.T) { testEveryField(t, roundTrip(JobToProto, JobFromProto)) })
	t.Run("slot", func(t *testing.T) { testEveryField(t, roundTrip(SlotToProto, noError(SlotFromProto))) })
	t.Run("task", func(t *testing.T) { testEveryField(t, roundTrip(TaskToProto, TaskFromProto)) })
	t.Run("stall", func(t *testing.T) { testEveryField(t, roundTrip(StallToProto, noError(StallFromProto))) })
	t.Run("request", func(t *testing.T) { testEveryField(t, roundTrip(requestToProto, noError(requestFromProto))) })
	t.Run("notice", func(t *testing.T) { testEveryField(t, roundTrip(NoticeToProto, noError(NoticeFromProto))) })
}

// testEveryField sets all fields to values of their own, which finds fields that are mixed up; and then each alone, which finds one that is lost behind
// another and flags that are mixed up.
func testEveryField[T any](t *testing.T, trip func(*T) (*T, error)) {
	t.Helper()
	want, _, _ := newFilled[T](-1)
	got, err := trip(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("with all fields set (-want +got):\n%s", diff)
	}
	for leaf := 0; ; leaf++ {
		want, path, ok := newFilled[T](leaf)
		if !ok {
			if leaf < 9 {
				t.Fatalf("only %d fields were found", leaf)
			}
			return
		}
		got, err := trip(want)
		if err != nil {
			t.Fatalf("with %s alone: %v", path, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %s alone (-want +got):\n%s", path, diff)
		}
	}
}

// TestMessagesHaveNoOtherFields finds a field of a message that no record fills.
func TestMessagesHaveNoOtherFields(t *testing.T) {
	node, _, _ := newFilled[cluster.Node](-1)
	job, _, _ := newFilled[cluster.Job](-1)
	slot, _, _ := newFilled[cluster.Slot](-1)
	task, _, _ := newFilled[cluster.Task](-1)
	stall, _, _ := newFilled[cluster.Stall](-1)
	notice, _, _ := newFilled[cluster.Notice](-1)
	for _, m := range []proto.Message{NodeToProto(node), JobToProto(job), SlotToProto(slot), TaskToProto(task), StallToProto(stall), NoticeToProto(notice)} {
		requireAllSet(t, reflect.ValueOf(m))
	}
}

func requireAllSet(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			requireAllSet(t, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			requireAllSet(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is filled by no record", v.Type().Name(), field.Name)
			}
			requireAllSet(t, v.Field(i))
		}
	}
}

func TestEmptyIsNil(t *testing.T) {
	in := &cluster.Job{Name: "web"}
	in.Control.Spec.Labels = map[string]string{}
	in.Control.Spec.Plugins = []cluster.PluginSettings{}
	in.Control.Spec.Task.Command = []string{}
	in.Control.Spec.Task.Resources.Units = map[string]int64{}
	in.Control.Versions = []cluster.JobVersion{}
	want := &cluster.Job{Name: "web"}
	got, err := JobFromProto(JobToProto(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAbsentMessagesAreZeroValues(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"node", must(NodeFromProto(nil)), &cluster.Node{}},
		{"job", must(JobFromProto(&setpointv1.Job{})), &cluster.Job{}},
		{"slot", SlotFromProto(nil), &cluster.Slot{}},
		{"task", must(TaskFromProto(&setpointv1.Task{})), &cluster.Task{}},
		{"stall", StallFromProto(nil), &cluster.Stall{}},
		{"health", HealthSpecFromProto(nil), (*cluster.HealthSpec)(nil)},
		{"empty health", HealthSpecFromProto(HealthSpecToProto(&cluster.HealthSpec{})), &cluster.HealthSpec{}},
		{"time", TimeToProto(cluster.Time{}), (*setpointv1.Time)(nil)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.name, c.got, c.want)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestNumbersOutOfRange(t *testing.T) {
	for _, c := range []struct {
		name string
		in   *setpointv1.Task
		want string
	}{
		{"desired", &setpointv1.Task{Id: "a/1/1", Desired: &setpointv1.Desired{State: 5}}, "task a/1/1: desired state 5: out of range"},
		{"observed", &setpointv1.Task{Id: "a/1/1", Observed: &setpointv1.Observed{State: 9}}, "task a/1/1: observed state 9: out of range"},
		{
			"reserved port",
			&setpointv1.Task{Id: "a/1/1", Reserve: &setpointv1.Reserve{Ports: []*setpointv1.Port{{Name: "http", Static: 65536}}}},
			`task a/1/1: port "http": number 65536: out of range`,
		},
		{
			"granted port",
			&setpointv1.Task{Id: "a/1/1", Placement: &setpointv1.Placement{Ports: []*setpointv1.PortGrant{{Name: "http", Number: 70000}}}},
			`task a/1/1: granted port "http": number 70000: out of range`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := TaskFromProto(c.in)
			if !errors.Is(err, ErrRange) || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := NodeFromProto(&setpointv1.Node{Id: "n1", Seen: make([]uint64, cluster.NodeFields+1)}); !errors.Is(err, ErrRange) {
		t.Errorf("a node with an unknown field group: got %v, want ErrRange", err)
	}
	for d := range cluster.DesiredRemove + 1 {
		if got := must(DesiredFromProto(DesiredToProto(cluster.Desired{State: d}))); got.State != d {
			t.Errorf("desired state %s came back as %s", d, got.State)
		}
	}
	for o := range cluster.Stopped + 1 {
		if got := must(ObservedFromProto(ObservedToProto(cluster.Observed{State: o}))); got.State != o {
			t.Errorf("observed state %s came back as %s", o, got.State)
		}
	}
}
