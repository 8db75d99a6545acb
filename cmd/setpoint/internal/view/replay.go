package view

import "github.com/setpointd/setpoint/core/engine"

// Replayed is what came of deciding a record again, as `replay` prints it.
type Replayed struct {
	Program string      `json:"program"`
	Steps   int         `json:"steps"`
	Turns   int         `json:"turns"`
	From    uint64      `json:"from_revision"`
	To      uint64      `json:"to_revision"`
	End     string      `json:"end"`
	Same    bool        `json:"same"`
	First   *Divergence `json:"first_difference"`
}

// Divergence is the first turn that differs.
type Divergence struct {
	Step             int      `json:"step"`
	EngineTime       string   `json:"engine_time"`
	At               Moment   `json:"at"`
	RecordedRevision uint64   `json:"recorded_revision"`
	ReplayedRevision uint64   `json:"replayed_revision"`
	OnlyRecorded     []string `json:"only_recorded"`
	OnlyReplayed     []string `json:"only_replayed"`
}

// OfReplayed returns the view of what came of deciding a record again.
func OfReplayed(r *engine.Replayed) Replayed {
	out := Replayed{Program: r.Program, Steps: r.Steps, Turns: r.Turns, From: uint64(r.From), To: uint64(r.To), End: r.End, Same: r.First == nil}
	if d := r.First; d != nil {
		at := d.At.WallTime()
		out.First = &Divergence{
			Step: d.Step, EngineTime: d.At.Engine.String(), At: &at, RecordedRevision: uint64(d.Recorded), ReplayedRevision: uint64(d.Replayed),
			OnlyRecorded: words(d.Only), OnlyReplayed: words(d.New),
		}
	}
	return out
}
