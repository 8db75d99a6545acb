package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/setpointd/setpoint/sdk/cluster"
)

// Replayed says what came of deciding a record again.
type Replayed struct {
	Program string // that recorded it
	Steps   int    // that were decided again
	Turns   int    // of them that changed something
	From    cluster.Revision
	To      cluster.Revision
	End     string      // why the record ends: "" where the engine did
	First   *Divergence // nil: the same was decided
}

// Divergence is the first turn in which something else was decided than is recorded.
type Divergence struct {
	Step     int // counts from 1
	At       cluster.Time
	Recorded cluster.Revision // that the recorded turn made; 0: none
	Replayed cluster.Revision
	Only     []string // changes that were recorded and are not decided now, in short
	New      []string // changes that are decided now and were not recorded
}

// ErrRecord is wrapped by errors about what is no record, or none that this version reads.
var ErrRecord = errors.New("not a record of an engine's inputs")

// Replay decides again what a Recorder wrote down, by a new engine that begins with the recorded state, and compares. It ends at the first turn that differs.
func Replay(r io.Reader) (*Replayed, error) {
	p := &player{lines: bufio.NewReaderSize(r, 1<<20), types: recordedTypes()}
	if err := p.begin(); err != nil {
		return nil, err
	}
	for p.out.First == nil && p.next != nil {
		step := p.next.Step
		if step == nil {
			p.out.End = p.next.End
			break
		}
		if err := p.step(step); err != nil {
			return nil, fmt.Errorf("step %d: %w", p.out.Steps+1, err)
		}
		if err := p.read(); err != nil {
			return nil, err
		}
	}
	return &p.out, nil
}

// player plays a record.
type player struct {
	lines *bufio.Reader
	types map[string]reflect.Type
	next  *recordLine // nil: there is none
	e     *Engine
	out   Replayed
}

// read reads the next line. One that was cut off is the end.
func (p *player) read() error {
	p.next = nil
	b, err := p.lines.ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(b) == 0:
		return nil
	case errors.Is(err, io.EOF):
		p.out.End = "the last line is not whole"
		return nil
	case err != nil:
		return fmt.Errorf("read the record: %w", err)
	}
	p.next = &recordLine{}
	if err := json.Unmarshal(b, p.next); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}

// begin reads the state and makes an engine of it.
func (p *player) begin() error {
	if err := p.read(); err != nil {
		return err
	}
	if p.next == nil || p.next.Head == nil || p.next.Head.Format != recordFormat {
		return fmt.Errorf("%w of format %d", ErrRecord, recordFormat)
	}
	h := p.next.Head
	var cfg Config
	if err := setTree(reflect.ValueOf(&cfg).Elem(), h.Config); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	st := NewState(h.ClusterID)
	st.Revision, st.Now = cluster.Revision(h.Revision), h.Now.time()
	for {
		if err := p.read(); err != nil {
			return err
		}
		if p.next == nil || p.next.Stored == nil {
			break
		}
		v, err := p.next.Stored.decode(p.types)
		if err != nil {
			return err
		}
		if err := st.Restore(v); err != nil {
			return err
		}
	}
	p.out.Program, p.out.From, p.out.To = h.Program, st.Revision, st.Revision
	p.e = New(cfg, st, h.Start.time())
	return nil
}

// step decides one step again.
func (p *player) step(s *recordedStep) error {
	var in []Input
	for _, x := range s.Inputs {
		v, err := x.decode(p.types)
		if err != nil {
			return err
		}
		v = reflect.ValueOf(v).Elem().Interface()
		switch v := v.(type) {
		case Op:
			in = append(in, command{op: v, by: x.By, key: x.Key, digest: x.Digest})
		case Input:
			in = append(in, v)
		default:
			return fmt.Errorf("%w: %s is no input", ErrRecord, x.Type)
		}
	}
	out := p.e.Step(in, s.At.time())
	p.e.Publish(out.Turn)
	now := recordedStep{}
	if err := now.decided(out.Turn); err != nil {
		return err
	}
	p.out.Steps++
	if len(out.Turn.Changes) > 0 {
		p.out.Turns++
		p.out.To = out.Turn.State.Revision
	}
	if now.Digest != s.Digest || now.Rev != s.Rev {
		only, more := differences(s.Changes, now.Changes)
		p.out.First = &Divergence{
			Step: p.out.Steps, At: s.At.time(), Recorded: cluster.Revision(s.Rev), Replayed: cluster.Revision(now.Rev), Only: only, New: more,
		}
	}
	return nil
}

// differences returns what only one of two lists has.
func differences(a, b []string) (onlyA, onlyB []string) {
	have := map[string]int{}
	for _, x := range b {
		have[x]++
	}
	for _, x := range a {
		if have[x] > 0 {
			have[x]--
			continue
		}
		onlyA = append(onlyA, x)
	}
	for _, x := range b {
		if have[x] > 0 {
			have[x]--
			onlyB = append(onlyB, x)
		}
	}
	return onlyA, onlyB
}
