package jobfile

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/setpointd/setpoint/core/hcltext"
	"github.com/setpointd/setpoint/sdk/cluster"
)

// draft is a job that is being read: what its file says, in the order in which it says it.
type draft struct {
	hcltext.Decoder

	said    []func(*cluster.JobSpec)
	spreads []cluster.Spread
	ports   []cluster.Port

	addresses []cluster.Address
	secrets   []cluster.Secret
	plugins   map[string]map[string]any
	short     hcltext.Value // constraints = […]
}

// say remembers one thing that the file says. It is applied twice, see spec.
func (d *draft) say(f func(*cluster.JobSpec)) { d.said = append(d.said, f) }

// spec returns the job: what was said, defaults for the rest, and what was said once more, so that what was said to be 0 stays 0.
func (d *draft) spec() cluster.JobSpec {
	var s cluster.JobSpec
	for _, f := range d.said {
		f(&s)
	}
	s = s.WithDefaults()
	for _, f := range d.said {
		f(&s)
	}
	return s
}

// set reads an attribute into a field of the job.
func set[T any](d *draft, read func(hcltext.Value) (T, bool), field func(*cluster.JobSpec) *T) func(hcltext.Value) {
	return func(v hcltext.Value) {
		if got, ok := read(v); ok {
			d.say(func(s *cluster.JobSpec) { *field(s) = got })
		}
	}
}

// word reads one of several words; which there are is validation's business.
func word[W ~string](v hcltext.Value) (W, bool) {
	text, ok := hcltext.String(v)
	return W(text), ok
}

func (d *draft) jobFields() hcltext.Fields {
	return hcltext.Fields{
		Attributes: map[string]func(hcltext.Value){
			"type":            set(d, hcltext.String, func(s *cluster.JobSpec) *string { return &s.Type }),
			"count":           set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.Count }),
			"parallelism":     set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.Parallelism }),
			"priority":        set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.Priority }),
			"labels":          set(d, hcltext.StringMap, func(s *cluster.JobSpec) *map[string]string { return &s.Labels }),
			"constraints":     func(v hcltext.Value) { d.short = v },
			"max_unavailable": set(d, amount, func(s *cluster.JobSpec) *cluster.Amount { return &s.MaxUnavailable }),
			"max_per_node":    set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.MaxPerNode }),
			"on_drift":        set(d, word, func(s *cluster.JobSpec) *cluster.OnDrift { return &s.OnDrift }),
			"on_lost":         set(d, word, func(s *cluster.JobSpec) *cluster.OnLost { return &s.OnLost }),
			"lost_after":      set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.LostAfter }),
			"on_drain":        set(d, word, func(s *cluster.JobSpec) *cluster.OnDrain { return &s.OnDrain }),
			"strategy":        set(d, word, func(s *cluster.JobSpec) *cluster.Strategy { return &s.Strategy }),
			"history_limit":   set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.HistoryLimit }),
		},
		Blocks: map[string]hcltext.BlockField{
			"task":    {Required: true, Read: d.in(d.taskFields)},
			"spread":  {Repeated: true, Read: d.spread},
			"update":  {Read: d.in(d.updateFields)},
			"restart": {Read: d.in(d.restartFields)},
			"plugin":  {Label: "name", Repeated: true, Read: d.plugin},
		},
	}
}

// in reads a block whose fields are those of the job's own section.
func (d *draft) in(fields func() hcltext.Fields) func(hcltext.Block) {
	return func(b hcltext.Block) { d.Body(b.Body, b.Path, b.At, fields()) }
}

func (d *draft) spread(b hcltext.Block) {
	var s cluster.Spread
	d.Body(b.Body, b.Path, b.At, hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"attribute": hcltext.Set(hcltext.String, &s.Attribute),
		"targets":   hcltext.Set(targets, &s.Targets),
	}})
	d.spreads = append(d.spreads, s)
	all := slices.Clone(d.spreads)
	d.say(func(j *cluster.JobSpec) { j.Spread = all })
}

func targets(v hcltext.Value) ([]cluster.SpreadTarget, bool) {
	shares, ok := hcltext.IntMap(v)
	if !ok {
		return nil, false
	}
	out := make([]cluster.SpreadTarget, 0, len(shares))
	for value, percent := range shares {
		out = append(out, cluster.SpreadTarget{Value: value, Percent: int(percent)})
	}
	slices.SortFunc(out, func(a, b cluster.SpreadTarget) int { return cmp.Compare(a.Value, b.Value) })
	return out, true
}

func (d *draft) updateFields() hcltext.Fields {
	return hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"parallelism":       set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.Update.Parallelism }),
		"delay":             set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Update.Delay }),
		"order":             set(d, word, func(s *cluster.JobSpec) *cluster.Order { return &s.Update.Order }),
		"monitor":           set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Update.Monitor }),
		"on_failure":        set(d, word, func(s *cluster.JobSpec) *cluster.OnFailure { return &s.Update.OnFailure }),
		"max_failure_ratio": set(d, hcltext.Float, func(s *cluster.JobSpec) *float64 { return &s.Update.MaxFailureRatio }),
		"progress_deadline": set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Update.ProgressDeadline }),
	}}
}

func (d *draft) restartFields() hcltext.Fields {
	return hcltext.Fields{Attributes: map[string]func(hcltext.Value){
		"condition": set(d, word, func(s *cluster.JobSpec) *cluster.RestartCondition { return &s.Restart.Condition }),
		"delay":     set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Restart.Delay }),
		"max_delay": set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Restart.MaxDelay }),
		"attempts":  set(d, hcltext.Int, func(s *cluster.JobSpec) *int { return &s.Restart.Attempts }),
		"window":    set(d, hcltext.Duration, func(s *cluster.JobSpec) *duration { return &s.Restart.Window }),
	}}
}

// amount reads a number, or text such as "25%".
func amount(v hcltext.Value) (cluster.Amount, bool) {
	value, ok := hcltext.Any(v)
	if !ok {
		return cluster.Amount{}, false
	}
	switch value.Type() {
	case cty.Number:
		n, exact := value.AsBigFloat().Int64()
		if exact == big.Exact && n == int64(int32(n)) {
			return cluster.Amount{Count: int(n)}, true
		}
	case cty.String:
		digits, percent := strings.CutSuffix(value.AsString(), "%")
		if n, err := strconv.Atoi(strings.TrimSpace(digits)); err == nil && percent {
			return cluster.Amount{Percent: n}, true
		}
	}
	v.Fail("Neither a number nor a percentage", `It must be a whole number of tasks, such as 1, or a share in quotes, such as "25%".`)
	return cluster.Amount{}, false
}
