package drivertest

import (
	"slices"

	"github.com/setpointd/setpoint/agent/driver"
)

// hogLimit is the memory of a task that wants ever more.
const hogLimit = 48 << 20

func memoryIsLimited(s *suite) {
	fp, err := s.d.Fingerprint(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	name := "driver." + s.d.Name() + ".memory"
	if fp.Attributes[name] != driver.Enforced {
		s.Skipf("%s is %q here", name, fp.Attributes[name])
	}
	if s.h.Hog == nil {
		s.Fatalf("%s is enforced, and the harness has no Hog to try it with", name)
	}
	spec := driver.Spec{TaskID: "hog/1/1", Resources: driver.Resources{MemoryBytes: hogLimit}}
	s.h.Hog(&spec)
	h, err := s.d.Start(s.ctx, spec)
	if err != nil {
		s.Fatal(err)
	}
	if len(h.Unenforced) > 0 {
		s.Errorf("unenforced is %q", h.Unenforced)
	}
	first := s.wait(h)
	if !first.OOM || first.Code == 0 {
		s.Errorf("exit is %+v, want one for want of memory", first)
	}
	s.reopen()
	if again := s.wait(h); !sameExit(again, first) {
		s.Errorf("exit became %+v, was %+v", again, first)
	}
}

// A task with resources runs as one without does: what cannot be enforced is told, and the same is told of a start that went before.
func resourcesAreTaken(s *suite) {
	spec := s.spec("job/1/1", Behaviour{Exit: code(3)})
	spec.Resources = driver.Resources{CPUMilli: 250, MemoryBytes: 1 << 30}
	h, err := s.d.Start(s.ctx, spec)
	if err != nil {
		s.Fatal(err)
	}
	if exit := s.wait(h); exit.Code != 3 || exit.OOM {
		s.Errorf("exit is %+v, want code 3", exit)
	}
	again, err := s.d.Start(s.ctx, spec)
	if err != nil || !slices.Equal(again.Unenforced, h.Unenforced) {
		s.Errorf("unenforced is %q for the second start, %q for the first, %v", again.Unenforced, h.Unenforced, err)
	}
}
