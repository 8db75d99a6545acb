package view

import apiv1 "github.com/setpointd/setpoint/proto/setpoint/api/v1"

// Sink is how people are told of what waits for too long, as `notify ls` prints it.
type Sink struct {
	Name         string `json:"name"`
	Kind         string `json:"kind"`
	Target       string `json:"target"`
	State        string `json:"state"`
	Open         int64  `json:"open"`
	Waiting      int64  `json:"waiting"`
	Omitted      int64  `json:"omitted"`
	Delivered    int64  `json:"delivered"`
	Failed       int64  `json:"failed"`
	Last         Moment `json:"last"`
	Failure      string `json:"failure"`
	FailingSince Moment `json:"failing_since"`
	Next         Moment `json:"next"`
}

// OfSinks returns the views of sinks.
func OfSinks(in []*apiv1.Sink) []Sink {
	return each(in, func(s *apiv1.Sink) Sink {
		return Sink{
			Name: s.GetName(), Kind: s.GetKind(), Target: s.GetTarget(), State: s.GetState(), Open: s.GetOpen(), Waiting: s.GetWaiting(), Omitted: s.GetOmitted(),
			Delivered: s.GetDelivered(), Failed: s.GetFailed(), Last: moment(s.GetLast()), Failure: s.GetFailure(), FailingSince: moment(s.GetFailingSince()), Next: moment(s.GetNext()),
		}
	})
}

// SinkTest is what came of a trial, as `notify test` prints it.
type SinkTest struct {
	Sink    string `json:"sink"`
	Arrived bool   `json:"arrived"`
	Failure string `json:"failure"`
}

// OfSinkTests returns the views of trials.
func OfSinkTests(in []*apiv1.SinkTest) []SinkTest {
	return each(in, func(t *apiv1.SinkTest) SinkTest {
		return SinkTest{Sink: t.GetSink(), Arrived: t.GetFailure() == "", Failure: t.GetFailure()}
	})
}
