package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/setpointd/setpoint/agent/driver"
)

// read returns the text of the lines.
func (s *suite) read(h driver.Handle, req driver.LogsRequest) []string {
	s.Helper()
	var out []string
	for line, err := range s.d.Logs(s.ctx, h, req) {
		if err != nil {
			s.Fatal(err)
		}
		out = append(out, string(line.Text))
	}
	return out
}

func logs(s *suite) {
	before := time.Now()
	h := s.start("job/1/1", Behaviour{Exit: code(0), Stdout: []string{"one", "", "three"}, Stderr: []string{"bad"}})
	s.wait(h)
	var out, errs []string
	for line, err := range s.d.Logs(s.ctx, h, driver.LogsRequest{}) {
		if err != nil {
			s.Fatal(err)
		}
		if line.Time.Before(before.Add(-time.Second)) || line.Time.After(time.Now()) || line.Partial {
			s.Errorf("line is %+v", line)
		}
		switch line.Stream {
		case driver.Stdout:
			out = append(out, string(line.Text))
		case driver.Stderr:
			errs = append(errs, string(line.Text))
		default:
			s.Errorf("line is of %v", line.Stream)
		}
	}
	if !slices.Equal(out, []string{"one", "", "three"}) || !slices.Equal(errs, []string{"bad"}) {
		s.Errorf("stdout is %q, stderr %q", out, errs)
	}
}

func logsSelected(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(0), Stdout: []string{"1", "2", "3", "4"}, Stderr: []string{"e1", "e2"}})
	exit := s.wait(h)
	tests := []struct {
		req  driver.LogsRequest
		want []string
	}{
		{driver.LogsRequest{Stream: driver.Stderr}, []string{"e1", "e2"}},
		{driver.LogsRequest{Stream: driver.Stdout, Tail: 2}, []string{"3", "4"}},
		{driver.LogsRequest{Stream: driver.Stdout, Tail: 100}, []string{"1", "2", "3", "4"}},
		{driver.LogsRequest{Stream: driver.Stdout, Tail: 3, Follow: true}, []string{"2", "3", "4"}},
		{driver.LogsRequest{Stream: driver.Stdout, Since: exit.Started.Add(-time.Hour), Tail: 1}, []string{"4"}},
		{driver.LogsRequest{Since: exit.Finished.Add(time.Hour)}, nil},
	}
	for _, test := range tests {
		if got := s.read(h, test.req); !slices.Equal(got, test.want) {
			s.Errorf("%+v yields %q, want %q", test.req, got, test.want)
		}
	}
	if got := s.read(h, driver.LogsRequest{Tail: 3}); len(got) != 3 {
		s.Errorf("the last three lines of both are %q", got)
	}
	for _, err := range s.d.Logs(s.ctx, h, driver.LogsRequest{}) {
		if err != nil {
			s.Fatal(err)
		}
		break // leaving early must be harmless
	}
}

func logsFollow(s *suite) {
	h := s.start("job/1/1", Behaviour{Stdout: []string{"first", "second"}})
	var got []string
	for line, err := range s.d.Logs(s.ctx, h, driver.LogsRequest{Follow: true}) {
		if err != nil {
			s.Fatal(err)
		}
		got = append(got, string(line.Text))
		if len(got) == 2 {
			s.stop(h, driver.StopRequest{}) // which ends the following
		}
	}
	if !slices.Equal(got, []string{"first", "second"}) {
		s.Errorf("followed %q", got)
	}
	s.state(h, driver.StateExited)
}

func logsFollowEndsWithContext(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	ctx, cancel := context.WithTimeout(s.ctx, 150*time.Millisecond)
	defer cancel()
	var last error
	for _, err := range s.d.Logs(ctx, h, driver.LogsRequest{Follow: true}) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) {
		s.Errorf("following ended with %v, want the context's error", last)
	}
}
