package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// recordFormat is the version of what a Recorder writes. Another one is not read.
const recordFormat = 2

// recordLine is one line of a record. The first has a head, the next ones what was stored at the beginning, and each after that one step, or the end.
type recordLine struct {
	Head   *recordHead   `json:"head,omitempty"`
	Stored *named        `json:"stored,omitempty"`
	Step   *recordedStep `json:"step,omitempty"`
	End    string        `json:"end,omitempty"` // why nothing more was recorded
}

type recordHead struct {
	Format    int             `json:"setpoint_inputs"`
	Config    json.RawMessage `json:"config"`
	ClusterID string          `json:"cluster_id"`
	Revision  uint64          `json:"revision"`
	Now       moment          `json:"now"`   // of the stored state
	Start     moment          `json:"start"` // of the engine
	Program   string          `json:"program"`
}

// moment is a time with both its parts.
type moment struct {
	Engine int64 `json:"e"`
	Wall   int64 `json:"w"`
}

func momentOf(t cluster.Time) moment { return moment{int64(t.Engine), t.Wall} }

func (m moment) time() cluster.Time {
	return cluster.Time{Engine: time.Duration(m.Engine), Wall: m.Wall}
}

// recordedStep is what a step was given, and what it decided.
type recordedStep struct {
	At      moment          `json:"at"`
	Inputs  []recordedInput `json:"in,omitempty"`
	Rev     uint64          `json:"rev,omitempty"` // that the turn made; 0: none
	Digest  string          `json:"digest,omitempty"`
	Changes []string        `json:"did,omitempty"` // in short, for people
}

type recordedInput struct {
	named
	By     string `json:"by,omitempty"`  // with a command
	Key    string `json:"key,omitempty"` // with one that is carried out once
	Digest string `json:"sum,omitempty"`
}

// Recorder writes what an engine is given and decides, so that it can be decided again by Replay. It writes no more than its limit, and stops at the first
// error. Its methods are called by the engine's goroutine.
type Recorder struct {
	out   io.Writer
	left  int64
	ended bool
	err   error
}

// NewRecorder returns a recorder that writes at most limit bytes.
func NewRecorder(out io.Writer, limit int64) *Recorder { return &Recorder{out: out, left: limit} }

// Err returns why the recorder stopped early, nil if it did not, or only for its limit.
func (r *Recorder) Err() error { return r.err }

// Begin writes what New is given. It is called once, before the engine's first step, while nobody changes the state.
func (r *Recorder) Begin(program string, cfg Config, st *State, start cluster.Time) {
	config, err := encodeNamed(cfg)
	if err != nil {
		r.fail(err)
		return
	}
	r.write(recordLine{Head: &recordHead{
		Format: recordFormat, Config: config.Value, ClusterID: st.ClusterID, Revision: uint64(st.Revision), Now: momentOf(st.Now), Start: momentOf(start),
		Program: program,
	}})
	stored := func(v any) {
		n, err := encodeNamed(v)
		if err != nil {
			r.fail(err)
			return
		}
		r.write(recordLine{Stored: &n})
	}
	for v := range st.Nodes() {
		stored(v)
	}
	for v := range st.Jobs() {
		stored(v)
	}
	st.slots.Scan(func(id string, v packedSlot) bool {
		stored(v.unpack(id))
		return true
	})
	for v := range st.Tasks() {
		stored(v)
	}
	for v := range st.Stalls() {
		stored(v)
	}
	for v := range values(st.requests) {
		stored(v)
	}
	for _, v := range st.Notices() {
		stored(v)
	}
}

// Stepped writes one step.
func (r *Recorder) Stepped(inputs []Input, now cluster.Time, out Output) {
	if r.ended {
		return
	}
	s := &recordedStep{At: momentOf(now)}
	for _, in := range inputs {
		x := recordedInput{}
		var v any = in
		if c, ok := in.(command); ok {
			if asks(c.op) {
				continue
			}
			v, x.By, x.Key, x.Digest = c.op, c.by, c.key, c.digest
		}
		n, err := encodeNamed(v)
		if err != nil {
			r.fail(err)
			return
		}
		x.named = n
		s.Inputs = append(s.Inputs, x)
	}
	if err := s.decided(out.Turn); err != nil {
		r.fail(err)
		return
	}
	r.write(recordLine{Step: s})
}

// decided notes what a turn decided.
func (s *recordedStep) decided(t Turn) error {
	if len(t.Changes) == 0 {
		return nil
	}
	s.Rev = uint64(t.State.Revision)
	sum := sha256.New()
	for _, a := range t.Changes {
		n, err := encodeNamed(a.Change)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %s %s\n", a.By, n.Type, n.Value)
		s.Changes = append(s.Changes, string(a.By)+" "+inShort(a.Change))
	}
	s.Digest = hex.EncodeToString(sum.Sum(nil)[:12])
	return nil
}

// inShort says a change in a few words.
func inShort(c cluster.Change) string {
	switch c := c.(type) {
	case cluster.AddNode:
		return "AddNode " + string(c.Node.ID)
	case cluster.SetNodeSpec:
		return fmt.Sprintf("SetNodeSpec %s %s %v", c.Node, c.Spec.Availability, c.Spec.Labels)
	case cluster.SetNodeDescription:
		return "SetNodeDescription " + string(c.Node)
	case cluster.SetNodeStatus:
		return fmt.Sprintf("SetNodeStatus %s %s", c.Node, c.Status.State)
	case cluster.SetDrain:
		return fmt.Sprintf("SetDrain %s %s %d left", c.Node, c.Drain.State, c.Drain.Left)
	case cluster.PutJob:
		return fmt.Sprintf("PutJob %s version %d", c.Job.Name, c.Job.Control.Version)
	case cluster.SetUpdate:
		return fmt.Sprintf("SetUpdate %s %s %d of %d", c.Job, c.Update.State, c.Update.Moved, c.Update.Total)
	case cluster.PutSlot:
		return fmt.Sprintf("PutSlot %s version %d unwanted %t held %q", c.Slot.ID(), c.Slot.Version, c.Slot.Unwanted, c.Slot.Held)
	case cluster.AddTask:
		return fmt.Sprintf("AddTask %s (%s)", c.Task.ID, c.Task.Why)
	case cluster.SetDesired:
		return fmt.Sprintf("SetDesired %s %s (%s)", c.Task, c.Desired.State, c.Desired.Reason)
	case cluster.SetPlacement:
		return fmt.Sprintf("SetPlacement %s %s", c.Task, c.Placement.Node)
	case cluster.SetObserved:
		return fmt.Sprintf("SetObserved %s %s", c.Task, c.Observed.State)
	case cluster.PutStall:
		return fmt.Sprintf("PutStall %s %s %v", c.Stall.Key(), c.Stall.Message, c.Stall.Facts)
	case cluster.PutNotice:
		return "PutNotice " + c.Notice.Key()
	}
	return fmt.Sprintf("%T %+v", c, c)
}

func (r *Recorder) write(l recordLine) {
	if r.ended {
		return
	}
	b, err := json.Marshal(l)
	if err != nil {
		r.fail(err)
		return
	}
	const reserve = 64 // for the last line
	if int64(len(b))+1 > r.left-reserve {
		r.ended = true
		_, r.err = r.out.Write([]byte(`{"end":"the limit of the record was reached"}` + "\n"))
		return
	}
	r.left -= int64(len(b)) + 1
	if _, err := r.out.Write(append(b, '\n')); err != nil {
		r.fail(err)
	}
}

func (r *Recorder) fail(err error) { r.ended, r.err = true, err }
