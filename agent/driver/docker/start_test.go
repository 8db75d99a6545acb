package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// An agent that died between the container's creation and its start: the next one goes on with that container.
func TestCreatedAndNeverStarted(t *testing.T) {
	d := fresh(t)
	spec := task("job/1/1", "out", "once", "exit", "3")
	engine, err := d.info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.create(t.Context(), spec, settings{Image: testImage, Pull: pullNever}, engine)
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, d.opts.Host, d.opts.Dir)
	bare := driver.Handle{Driver: Name, TaskID: spec.TaskID}
	status, err := again.Recover(t.Context(), bare)
	if err != nil || status.State != driver.StateNotStarted {
		t.Fatalf("status is %+v, %v", status, err)
	}
	if _, err := again.Wait(t.Context(), bare); !errors.Is(err, driver.ErrNotStarted) {
		t.Errorf("wait returned %v", err)
	}
	if err := again.Stop(t.Context(), bare, driver.StopRequest{}); err != nil {
		t.Errorf("stop returned %v", err)
	}
	h := start(t, again, spec)
	if want := handleData(made.ID); string(h.Data) != string(want) {
		t.Errorf("started %s, want %s", h.Data, want)
	}
	if exit := wait(t, again, h); exit.Code != 3 {
		t.Errorf("exit is %+v", exit)
	}
	start(t, again, spec)
	if got := output(t, again, h); !slices.Equal(got, []string{"once"}) {
		t.Errorf("it wrote %q", got)
	}
}

func TestRefused(t *testing.T) {
	d := fresh(t)
	set := func(name, value string) func(*driver.Spec) {
		return func(s *driver.Spec) { s.Settings[name] = value }
	}
	for name, c := range map[string]struct {
		change func(*driver.Spec)
		code   string
		reason string
	}{
		"no image":          {func(s *driver.Spec) { delete(s.Settings, "image") }, driver.RejectBadSpec, "there is no image"},
		"image's name":      {set("image", "No:T A:G"), driver.RejectBadSpec, "invalid reference format"},
		"image not here":    {set("image", "nowhere.invalid/x:1"), driver.RejectNoImage, `pull is "never"`},
		"no command":        {func(s *driver.Spec) { s.Command = nil }, driver.RejectNoCommand, "no command"},
		"unknown command":   {func(s *driver.Spec) { s.Command = []string{"nothing"} }, driver.RejectNoCommand, `"nothing"`},
		"no program":        {func(s *driver.Spec) { s.Command = []string{"/plain"} }, driver.RejectNotExecutable, "permission denied"},
		"unknown user":      {func(s *driver.Spec) { s.User = "nobody-here" }, driver.RejectUnknownUser, "nobody-here"},
		"directory":         {func(s *driver.Spec) { s.Dir = program }, driver.RejectBadDirectory, program},
		"stop signal":       {func(s *driver.Spec) { s.StopSignal = "NONE" }, driver.RejectBadSpec, "NONE"},
		"unknown setting":   {set("color", "red"), driver.RejectBadSpec, `no setting "color"`},
		"several":           {func(s *driver.Spec) { s.Settings["init"], s.Settings["pull"] = "x", "y" }, driver.RejectBadSpec, "; pull: "},
		"capability":        {set("cap_add", `["FLY"]`), driver.RejectBadSpec, "CAP_FLY"},
		"source of a bind":  {set("mounts", `[{"source": "/no/such/dir", "target": "/x"}]`), driver.RejectBadSpec, "/no/such/dir"},
		"unknown network":   {set("network", "nowhere"), driver.RejectRefusedBySystem, "nowhere"},
		"port of nobody":    {set("ports", `{"http": 80}`), driver.RejectBadSpec, `no port "http"`},
		"unreachable ports": {func(s *driver.Spec) { s.Settings["network"], s.Ports = "none", []driver.Port{{Name: "a", Number: 9}} }, driver.RejectBadSpec, "nobody could reach"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := task("job/1/1", "exit", "0")
			c.change(&spec)
			_, err := d.Start(t.Context(), spec)
			var refused *driver.RejectedError
			if !errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("start returned %v (%+v), want %s with %q", err, refused, c.code, c.reason)
			}
			if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("what was refused left %+v, %v", all, err)
			}
		})
	}
}

// What may pass is no refusal, and leaves nothing either.
func TestPortIsTaken(t *testing.T) {
	d := fresh(t)
	first := task("job/1/1", "listen", "8080")
	delete(first.Settings, "network")
	first.Ports = []driver.Port{{Name: "http", Number: 18080}}
	h := start(t, d, first)
	second := first
	second.TaskID = "job/2/2"
	_, err := d.Start(t.Context(), second)
	var refused *driver.RejectedError
	if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("start returned %v", err)
	}
	if err := d.Stop(t.Context(), h, driver.StopRequest{}); err != nil {
		t.Fatal(err)
	}
	wait(t, d, h)
	start(t, d, second)
}

// Containers that others made are left alone, whatever they are called, and so are those of another agent.
func TestOthersAreLeftAlone(t *testing.T) {
	d := fresh(t)
	name := d.container("job/1/1")
	made, err := d.engine.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: testImage, Cmd: []string{program}, Labels: map[string]string{labelTask: "job/1/1", labelOwner: "somebody"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.drop(t.Context(), made.ID)
	if _, err := d.Start(t.Context(), task("job/1/1", "exit", "0")); !errors.Is(err, errForeign) {
		t.Errorf("start returned %v", err)
	}
	h := driver.Handle{Driver: Name, TaskID: "job/1/1"}
	if err := d.Remove(t.Context(), h); !errors.Is(err, errForeign) {
		t.Errorf("remove returned %v", err)
	}
	if _, err := d.Wait(t.Context(), h); !errors.Is(err, errForeign) {
		t.Errorf("wait returned %v", err)
	}
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("list is %+v, %v", all, err)
	}
	other := alone(t)
	start(t, other, task("job/1/1"))
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("list is %+v, %v", all, err)
	}
}

func TestOwner(t *testing.T) {
	dir := t.TempDir()
	first, err := readOwner(dir)
	if err != nil || len(first) < 20 {
		t.Fatalf("owner is %q, %v", first, err)
	}
	if again, err := readOwner(dir); err != nil || again != first {
		t.Errorf("owner became %q, was %q, %v", again, first, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readOwner(dir); err == nil {
		t.Error("an empty mark is taken")
	}
}
