package drivertest

import (
	"errors"
	"slices"
	"strings"

	"github.com/setpointd/setpoint/agent/driver"
)

func recoverRunning(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	started := s.state(h, driver.StateRunning).Started
	s.reopen()
	status := s.state(h, driver.StateRunning)
	if started.IsZero() || !status.Started.Equal(started) {
		s.Errorf("runs since %v, did since %v", status.Started, started)
	}
	s.stop(h, driver.StopRequest{Grace: Deadline})
	if exit := s.wait(h); exit.Code != 143 {
		s.Errorf("exit is %+v, want 143", exit)
	}
}

func recoverExited(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(9)})
	s.wait(h)
	s.reopen()
	status := s.state(h, driver.StateExited)
	if status.Exit == nil || status.Exit.Code != 9 {
		s.Errorf("status is %+v, want exit code 9", status)
	}
}

func recoverWithoutData(s *suite) {
	s.start("job/1/1", Behaviour{Exit: code(9)})
	s.reopen()
	bare := driver.Handle{Driver: s.d.Name(), TaskID: "job/1/1"}
	if exit := s.wait(bare); exit.Code != 9 {
		s.Errorf("exit is %+v, want code 9", exit)
	}
	s.state(bare, driver.StateExited)
}

func unknown(s *suite) {
	h := driver.Handle{Driver: s.d.Name(), TaskID: "never/1/1"}
	s.state(h, driver.StateAbsent)
	if _, err := s.d.Wait(s.ctx, h); !errors.Is(err, driver.ErrNotFound) {
		s.Errorf("wait returned %v", err)
	}
	if err := s.d.Stop(s.ctx, h, driver.StopRequest{}); !errors.Is(err, driver.ErrNotFound) {
		s.Errorf("stop returned %v", err)
	}
	if err := s.d.Remove(s.ctx, h); err != nil {
		s.Errorf("remove returned %v", err)
	}
	for _, err := range s.d.Logs(s.ctx, h, driver.LogsRequest{Follow: true}) {
		if !errors.Is(err, driver.ErrNotFound) {
			s.Errorf("logs returned %v", err)
		}
	}
}

func removeRunning(s *suite) {
	h := s.start("job/1/1", Behaviour{})
	if err := s.d.Remove(s.ctx, h); !errors.Is(err, driver.ErrRunning) {
		s.Errorf("remove returned %v, want ErrRunning", err)
	}
	s.state(h, driver.StateRunning)
}

func remove(s *suite) {
	h := s.start("job/1/1", Behaviour{Exit: code(0), Stdout: []string{"x"}})
	s.wait(h)
	for range 2 {
		if err := s.d.Remove(s.ctx, h); err != nil {
			s.Fatal(err)
		}
	}
	s.state(h, driver.StateAbsent)
	s.reopen()
	s.state(h, driver.StateAbsent)
	if all, err := s.d.List(s.ctx); err != nil || len(all) != 0 {
		s.Errorf("list is %+v, %v", all, err)
	}
}

func list(s *suite) {
	s.start("b/1/1", Behaviour{})
	s.wait(s.start("a/1/1", Behaviour{Exit: code(4)}))
	for range 2 {
		all, err := s.d.List(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		if len(all) != 2 || all[0].Handle.TaskID != "a/1/1" || all[1].Handle.TaskID != "b/1/1" {
			s.Fatalf("list is %+v", all)
		}
		if a := all[0].Status; a.State != driver.StateExited || a.Exit == nil || a.Exit.Code != 4 {
			s.Errorf("a is %+v", a)
		}
		if b := all[1].Status; b.State != driver.StateRunning {
			s.Errorf("b is %+v", b)
		}
		s.reopen()
	}
}

func awkwardIDs(s *suite) {
	ids := []string{
		"..", ".", "a/b", "a%2Fb", "../../etc/passwd", "ü/☃/1", "with space/1/1", "A/1/1", "a/1/1", strings.Repeat("long", 100) + "/1/1",
		strings.Repeat("long", 100) + "/1/2",
	}
	for _, id := range ids {
		s.start(id, Behaviour{Exit: code(0), Stdout: []string{id}})
	}
	s.reopen()
	for _, id := range ids {
		h := driver.Handle{Driver: s.d.Name(), TaskID: id}
		s.wait(h)
		if got := s.read(h, driver.LogsRequest{}); !slices.Equal(got, []string{id}) {
			s.Errorf("task %q wrote %q", id, got)
		}
	}
	all, err := s.d.List(s.ctx)
	if err != nil || len(all) != len(ids) {
		s.Errorf("%d tasks are listed, want %d, %v", len(all), len(ids), err)
	}
}

func fingerprint(s *suite) {
	fp, err := s.d.Fingerprint(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if fp.Attributes["driver."+s.d.Name()] != "true" {
		s.Errorf("attributes are %v", fp.Attributes)
	}
}
