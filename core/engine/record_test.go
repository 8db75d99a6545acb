package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// fillAll sets every field to a value of its own, lists and maps to two of them; functions stay nil.
func fillAll(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillAll(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillAll(key, n)
			fillAll(value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("text \"%d\"\n", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.Int8:
		v.SetInt(int64(*n%200) - 100)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(-int64(*n) << 20)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(*n % 250))
	case reflect.Uint, reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Func:
	default:
		panic("what is a " + v.Kind().String() + "?")
	}
}

func TestRecordedTypesComeBackWhole(t *testing.T) {
	types := recordedTypes()
	types["Config"] = reflect.TypeOf(Config{})
	for name, typ := range types {
		for _, full := range []bool{true, false} {
			in := reflect.New(typ)
			if full {
				n := 0
				fillAll(in.Elem(), &n)
			}
			x, err := encodeNamed(in.Interface())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			var back named
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			got, err := back.decode(types)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(in.Interface(), got); diff != "" {
				t.Errorf("%s (-recorded +read):\n%s", name, diff)
			}
		}
	}
}

// Nothing that can be an input is missing in the table.
func TestEveryInputCanBeRecorded(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types, found := recordedTypes(), 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "op" && f.Name.Name != "input" {
				continue
			}
			what := fmt.Sprint(f.Recv.List[0].Type)
			found++
			if _, ok := types[what]; ok || what == "command" {
				continue
			}
			switch what {
			case "Why", "Inspect", "Foresee", "Rehearse", "TrialLabels": // they change nothing
			default:
				t.Errorf("%s cannot be recorded", what)
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d inputs only", found)
	}
}

// recorded is a short life of an engine with a plugin, with what was recorded of it.
func recorded(t *testing.T, limit int64) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	before := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, NewState("test"), cluster.Time{})
	join(before, 1, "n1", "n2", "n3")
	step(before, 2, run("old", nil))
	st := before.View()
	e := New(Config{Plugins: []string{"f"}, Heartbeat: time.Hour}, st, cluster.Time{Engine: 5, Wall: 7})
	r := NewRecorder(&out, limit)
	e.Record(r, "v1")
	for _, id := range []cluster.NodeID{"n1", "n2", "n3"} {
		step(e, 6, AgentUp{Node: id, Session: 2, Description: about}, AgentReports{Node: id, Session: 2, Full: true, Last: true, Received: func() {}})
	}
	at := step(e, 7, up(1)).Plugins[0]
	step(e, 8, verdicts(1, at.Revision, allow(at.AddClasses[0], 3, 0, 1)), applied(1, at.Revision))
	step(e, 9, run("web", func(s *cluster.JobSpec) { s.Count = 3 }), Command("alice", Inspect{}))
	step(e, 10, Command("alice", ScaleJob{Job: "web", Count: 1}), Command("bob", ScaleJob{Job: "none", Count: 1}))
	step(e, 11)
	step(e, 12, label("n1"))
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return &out
}

func TestReplay(t *testing.T) {
	out := recorded(t, 1<<20)
	text := out.String()
	got, err := Replay(out)
	if err != nil {
		t.Fatal(err)
	}
	if got.First != nil || got.Steps != 9 || got.Turns < 4 || got.Program != "v1" || got.End != "" || got.To <= got.From {
		t.Fatalf("replayed %+v, first difference %+v", got, got.First)
	}
	if !strings.Contains(text, `"by":"alice"`) || strings.Contains(text, "Inspect") {
		t.Error("who asked is not recorded, or a question is")
	}

	// Another world: a node that was refused is allowed now.
	changed := strings.Replace(text, `"Count":1,"Job":"web"`, `"Count":2,"Job":"web"`, 1)
	if changed == text {
		t.Fatal("the record has no such input")
	}
	got, err = Replay(strings.NewReader(changed))
	if err != nil {
		t.Fatal(err)
	}
	d := got.First
	if d == nil || d.Step != 7 || len(d.Only)+len(d.New) == 0 || !strings.Contains(strings.Join(d.Only, "\n"), "web/2") {
		t.Errorf("the first difference is %+v", d)
	}
	if d.At.Engine != 10 || d.Recorded != d.Replayed {
		t.Errorf("the first difference is %+v", d)
	}
}

func TestReplayOfWhatIsNoRecord(t *testing.T) {
	for _, text := range []string{"", "{}\n", "hello\n", `{"head":{"setpoint_inputs":99}}` + "\n"} {
		if _, err := Replay(strings.NewReader(text)); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v", text, err)
		}
	}
	text := recorded(t, 1<<20).String()
	got, err := Replay(strings.NewReader(text[:len(text)-20]))
	if err != nil || got.First != nil || got.End != "the last line is not whole" || got.Steps != 8 {
		t.Errorf("a record that was cut off: %+v, %v", got, err)
	}
	unknown := strings.Replace(text, `"t":"AgentUp"`, `"t":"AgentSideways"`, 1)
	if _, err := Replay(strings.NewReader(unknown)); err == nil || !strings.Contains(err.Error(), "AgentSideways") {
		t.Errorf("an input of another version: %v", err)
	}
}

func TestRecordIsBounded(t *testing.T) {
	whole := int64(recorded(t, 1<<20).Len())
	out := recorded(t, whole-200)
	if int64(out.Len()) > whole-200 {
		t.Errorf("%d bytes, the limit is %d", out.Len(), whole-200)
	}
	got, err := Replay(out)
	if err != nil || got.First != nil || !strings.Contains(got.End, "limit") || got.Steps == 0 {
		t.Errorf("replayed %+v, %v", got, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestRecorderThatCannotWriteStops(t *testing.T) {
	e := New(Config{}, NewState("test"), cluster.Time{})
	r := NewRecorder(full{}, 1<<20)
	e.Record(r, "v1")
	join(e, 1, "n1")
	if r.Err() == nil || e.View().NodeNamed("n1") == nil {
		t.Errorf("error %v, or the engine does not go on", r.Err())
	}
}
