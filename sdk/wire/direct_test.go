package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// directKinds are the kinds of record that are written and read without their messages.
var directKinds = []struct {
	kind   string
	filled func(leaf int) (record any, path string, ok bool)
	empty  func() proto.Message
}{
	{KindNode, filledAny[cluster.Node], func() proto.Message { return NodeToProto(&cluster.Node{}) }},
	{KindSlot, filledAny[cluster.Slot], func() proto.Message { return SlotToProto(&cluster.Slot{}) }},
	{KindTask, filledAny[cluster.Task], func() proto.Message { return TaskToProto(&cluster.Task{}) }},
	{KindStall, filledAny[cluster.Stall], func() proto.Message { return StallToProto(&cluster.Stall{}) }},
}

func filledAny[T any](leaf int) (any, string, bool) { return newFilled[T](leaf) }

// byMessage is what the messages make of a record.
func byMessage(t *testing.T, v any) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(message(v))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDirectKnowsEveryField fails if a field of a message is not written, not read, or another's. That the filler reaches each field of the messages is what
// TestMessagesHaveNoOtherFields finds out.
func TestDirectKnowsEveryField(t *testing.T) {
	for _, k := range directKinds {
		for leaf := -1; ; leaf++ {
			v, path, ok := k.filled(leaf)
			if leaf >= 0 && !ok {
				break
			}
			want := byMessage(t, v)
			got, ok := appendDirect([]byte("before"), v)
			if !ok || string(got) != "before"+string(want) {
				t.Errorf("%s with %s: written %t as\n%x, want\n%x", k.kind, path, ok, got, want)
			}
			for name, d := range map[string]*Decoder{"alone": {}, "sharing": NewDecoder()} {
				if diff := cmp.Diff(v, d.direct(k.kind+"/x", want)); diff != "" {
					t.Errorf("%s with %s, read %s (-want +got):\n%s", k.kind, path, name, diff)
				}
			}
		}
	}
}

// sameAnswer decodes in both ways and fails if they differ. It returns the record, nil if it was refused.
func sameAnswer(t *testing.T, key string, value []byte) any {
	t.Helper()
	want, wantErr := decode(key, value)
	for _, d := range []*Decoder{{}, NewDecoder()} {
		if got := d.direct(key, value); got != nil && (wantErr != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%s %x was read as\n%+v, its message says\n%+v, %v", key, value, got, want, wantErr)
		}
	}
	if wantErr != nil {
		return nil
	}
	return want
}

// sameBytes encodes in both ways and fails if they differ, or if the direct one does not read what it wrote.
func sameBytes(t *testing.T, key string, v any) {
	t.Helper()
	want := byMessage(t, v)
	got, ok := appendDirect(nil, v)
	if !ok || !bytes.Equal(got, want) {
		t.Fatalf("%+v was written %t as\n%x, its message is\n%x", v, ok, got, want)
	}
	if again := new(Decoder).direct(key, want); !reflect.DeepEqual(again, must(decode(key, want))) {
		t.Fatalf("%x was read as\n%+v, want\n%+v", want, again, v)
	}
}

// TestDamagedRecordsAreReadAlike changes and cuts the bytes of filled records one by one.
func TestDamagedRecordsAreReadAlike(t *testing.T) {
	for _, k := range directKinds {
		v, _, _ := k.filled(-1)
		whole := byMessage(t, v)
		read, refused := 0, 0
		for i := range whole {
			sameAnswer(t, k.kind+"/x", whole[:i])
			for _, change := range []func(byte) byte{
				func(b byte) byte { return b + 1 }, func(b byte) byte { return b - 1 }, func(b byte) byte { return b ^ 0x80 }, func(byte) byte { return 0 },
				func(b byte) byte { return b ^ 7 }, func(b byte) byte { return b + 8 }, func(b byte) byte { return b - 8 },
			} {
				broken := bytes.Clone(whole)
				broken[i] = change(broken[i])
				if got := sameAnswer(t, k.kind+"/x", broken); got == nil {
					refused++
				} else {
					read++
					sameBytes(t, k.kind+"/x", got)
				}
			}
		}
		if read < len(whole) || refused < len(whole) {
			t.Errorf("%s: %d bytes, of whose changes %d were read and %d refused", k.kind, len(whole), read, refused)
		}
	}
}

// TestUnusualFormsAreReadAlike has forms that Encode never writes, which other programs may.
func TestUnusualFormsAreReadAlike(t *testing.T) {
	text := func(num number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
	}
	count := func(num number, n uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), n)
	}
	join := func(parts ...[]byte) string { return string(bytes.Join(parts, nil)) }
	task := must(AppendValue(nil, &cluster.Task{ID: "web/1/1", Job: "web", Slot: "1", Nodes: []cluster.NodeID{"a", "b"}}))
	for name, c := range map[string]struct {
		kind  string
		value string
		want  any // nil: refused
	}{
		"a field of a newer version": {KindTask, join(task, text(99, "x")), &cluster.Task{ID: "web/1/1", Job: "web", Slot: "1", Nodes: []cluster.NodeID{"a", "b"}}},
		"one of each type": {
			KindTask, join(text(1, "x"), count(90, 1), protowire.AppendFixed64(protowire.AppendTag(nil, 91, protowire.Fixed64Type), 1),
				protowire.AppendFixed32(protowire.AppendTag(nil, 92, protowire.Fixed32Type), 1),
				protowire.AppendTag(nil, 93, protowire.StartGroupType), count(1, 1), protowire.AppendTag(nil, 93, protowire.EndGroupType)), &cluster.Task{ID: "x"},
		},
		"a field twice":          {KindTask, join(text(1, "x"), text(1, "y")), &cluster.Task{ID: "y"}},
		"a message twice":        {KindTask, join(text(12, join(text(2, "why"))), text(12, join(text(3, "core")))), &cluster.Task{Desired: cluster.Desired{Reason: "why", By: "core"}}},
		"another order":          {KindSlot, join(text(2, "1"), text(1, "web")), &cluster.Slot{Job: "web", Key: "1"}},
		"a list in two parts":    {KindSlot, join(text(4, "a"), text(1, "web"), text(4, "b")), &cluster.Slot{Job: "web", Nodes: []cluster.NodeID{"a", "b"}}},
		"an empty text in lists": {KindSlot, join(text(4, ""), text(4, "")), &cluster.Slot{Nodes: []cluster.NodeID{"", ""}}},
		"a zero that is written": {KindSlot, join(text(1, ""), count(3, 0), count(5, 0)), &cluster.Slot{}},
		"a flag of 2":            {KindSlot, join(count(5, 2)), &cluster.Slot{Ends: true}},
		"an empty time":          {KindSlot, join(text(10, ""), text(14, "")), &cluster.Slot{Restarts: []cluster.Time{{}}}},
		"a number as text":       {KindSlot, join(text(3, "7")), &cluster.Slot{}},
		"a text as number":       {KindSlot, join(count(1, 7)), &cluster.Slot{}},
		"a number in ten bytes":  {KindSlot, "\x18\x87\x80\x80\x80\x80\x80\x80\x80\x80\x00", &cluster.Slot{Created: 7}},
		"a number too long":      {KindSlot, "\x18\x87\x80\x80\x80\x80\x80\x80\x80\x80\x02", nil},
		"a tag in two bytes":     {KindSlot, "\x98\x00\x07", &cluster.Slot{Created: 7}},
		"field 0":                {KindSlot, "\x00\x07", nil},
		"a state beyond 32 bits": {KindTask, join(text(12, join(count(1, 1<<32+1)))), &cluster.Task{Desired: cluster.Desired{State: cluster.DesiredRunning}}},
		"no such state":          {KindTask, join(text(12, join(count(1, 5)))), nil},
		"no such port":           {KindTask, join(text(13, join(text(3, join(count(2, 65536)))))), nil},
		"not UTF-8":              {KindTask, join(text(8, "\xff")), nil},
		"not UTF-8, in a list":   {KindTask, join(text(11, "\xff")), nil},
		"not UTF-8, as a key":    {KindNode, join(text(4, join(text(2, join(text(1, "\xff")))))), nil},
		"a label without value":  {KindNode, join(text(4, join(text(2, join(text(1, "k")))))), &cluster.Node{Spec: cluster.NodeSpec{Labels: map[string]string{"k": ""}}}},
		"a label without key":    {KindNode, join(text(4, join(text(2, join(text(2, "v")))))), &cluster.Node{Spec: cluster.NodeSpec{Labels: map[string]string{"": "v"}}}},
		"a label twice":          {KindNode, join(text(4, join(text(2, join(text(1, "k"), text(2, "v"))), text(2, join(text(1, "k")))))), &cluster.Node{Spec: cluster.NodeSpec{Labels: map[string]string{"k": ""}}}},
		"numbers not packed":     {KindNode, join(count(8, 3), count(8, 4)), &cluster.Node{Seen: cluster.FieldRevisions{3, 4}}},
		"no numbers":             {KindNode, join(text(8, "")), &cluster.Node{}},
		"too many numbers":       {KindNode, join(text(8, strings.Repeat("\x01", int(cluster.NodeFields)+1))), nil},
		"numbers cut off":        {KindNode, join(text(8, "\x01\x80")), nil},
	} {
		got := sameAnswer(t, c.kind+"/x", []byte(c.value))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTextThatIsNotUTF8 spoils each text of a record in turn: the error is the message's.
func TestTextThatIsNotUTF8(t *testing.T) {
	for _, k := range directKinds {
		spoilt := 0
		for leaf := 0; ; leaf++ {
			v, path, ok := k.filled(leaf)
			if !ok {
				break
			}
			if !spoil(reflect.ValueOf(v)) {
				continue
			}
			spoilt++
			_, want := proto.Marshal(message(v))
			b, err := AppendValue([]byte("before"), v)
			if want == nil || err == nil || !strings.HasSuffix(err.Error(), want.Error()) || string(b) != "before" {
				t.Errorf("%s with %s: %q, %v; want %v", k.kind, path, b, err, want)
			}
		}
		if spoilt < 5 {
			t.Errorf("%s: only %d texts were found", k.kind, spoilt)
		}
	}
}

// spoil makes the texts of a record that are set, and the keys and values of maps, bytes that are not UTF-8.
func spoil(v reflect.Value) (found bool) {
	const broken = "\xff"
	switch v.Kind() {
	case reflect.Pointer:
		return spoil(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			found = spoil(v.Field(i)) || found
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = spoil(v.Index(i)) || found
		}
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(broken)
			return true
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			value := v.MapIndex(k)
			v.SetMapIndex(k, reflect.Value{})
			v.SetMapIndex(reflect.ValueOf(broken), value)
			found = true
		}
	}
	return found
}

func TestDecoderSharesTexts(t *testing.T) {
	d := NewDecoder()
	var tasks []*cluster.Task
	for _, id := range []cluster.TaskID{"web/1/7", "web/2/7"} {
		in := &cluster.Task{ID: id, Job: "web", Slot: cluster.SlotKey(id[4:5]), Why: "new slot", Nodes: []cluster.NodeID{"n1"}}
		key, value, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Decode(key, value)
		if err != nil {
			t.Fatal(err)
		}
		clear(value) // what was decoded must not be part of it
		if diff := cmp.Diff(in, v); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		tasks = append(tasks, v.(*cluster.Task))
	}
	a, b := tasks[0], tasks[1]
	for name, pair := range map[string][2]string{"job": {a.Job, b.Job}, "why": {a.Why, b.Why}, "node": {string(a.Nodes[0]), string(b.Nodes[0])}} {
		if !sameMemory(pair[0], pair[1]) {
			t.Errorf("%s: the same text twice in memory", name)
		}
	}
	if !sameMemory(string(a.Slot), string(a.ID)[4:5]) {
		t.Error("the slot is not a part of the task's id")
	}
}

func TestDecoderKeepsFewTexts(t *testing.T) {
	d := NewDecoder()
	for range 3 * sharedTexts {
		d.share(protowire.AppendVarint(nil, uint64(len(d.texts))))
		d.share([]byte(strings.Repeat("x", sharedBytes+1)))
	}
	if n := len(d.texts); n > sharedTexts {
		t.Errorf("%d texts are kept, at most %d should be", n, sharedTexts)
	}
}

func sameMemory(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
