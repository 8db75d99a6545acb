package sim

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/agent/driver"
	"github.com/setpointd/setpoint/agent/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		New: func(t *testing.T, dir string) driver.Driver { return open(t, dir) },
		Spec: func(spec *driver.Spec, b drivertest.Behaviour) {
			spec.Settings = map[string]string{"stdout": strings.Join(b.Stdout, "\n"), "stderr": strings.Join(b.Stderr, "\n")}
			if b.Exit != nil {
				spec.Settings["run_for"], spec.Settings["exit_code"] = b.After.String(), strconv.Itoa(*b.Exit)
			}
			if b.Deaf {
				spec.Settings["stop_delay"] = "100h"
			}
			if b.Rejected {
				spec.Settings["reject"] = "not on this node"
			}
		},
		Exec: func(c drivertest.Command) []string {
			var words []string
			for _, line := range c.Stdout {
				words = append(words, "out", line)
			}
			for _, line := range c.Stderr {
				words = append(words, "err", line)
			}
			for _, name := range c.Env {
				words = append(words, "env", name)
			}
			if c.Size {
				words = append(words, "size")
			}
			if c.Cat {
				words = append(words, "cat")
			}
			if c.Hang {
				words = append(words, "hang")
			}
			return append(words, "exit", strconv.Itoa(c.Exit))
		},
	})
}

func start(t *testing.T, d *Driver, id string, settings map[string]string) driver.Handle {
	t.Helper()
	h, err := d.Start(t.Context(), driver.Spec{TaskID: id, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestDelays(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, dir)
		t0 := time.Now()
		h := start(t, d, "a/1/1", map[string]string{"start_delay": "3s", "stop_delay": "2s"})
		if took := time.Since(t0); took != 3*time.Second {
			t.Errorf("start took %v, want 3s", took)
		}
		time.Sleep(time.Minute)
		if err := d.Stop(t.Context(), h, driver.StopRequest{Grace: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		exit, err := d.Wait(t.Context(), h)
		want := driver.Exit{Code: 143, Signal: "TERM", Started: t0.Add(3 * time.Second), Finished: t0.Add(65 * time.Second)}
		if err != nil || !exit.Started.Equal(want.Started) || !exit.Finished.Equal(want.Finished) || exit.Code != want.Code {
			t.Errorf("exit is %+v, %v, want %+v", exit, err, want)
		}
		if since := time.Since(t0); since != 65*time.Second {
			t.Errorf("wait returned after %v, want 65s", since)
		}
	})
}

func TestLivesOnWithoutDriver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		t0 := time.Now()
		start(t, open(t, dir), "a/1/1", map[string]string{"run_for": "10s", "exit_code": "3"})
		b := start(t, open(t, dir), "b/1/1", nil)
		time.Sleep(time.Hour)
		d := open(t, dir)
		exit, err := d.Wait(t.Context(), driver.Handle{Driver: Name, TaskID: "a/1/1"})
		if err != nil || exit.Code != 3 || !exit.Finished.Equal(t0.Add(10*time.Second)) {
			t.Errorf("exit is %+v, %v, want code 3 after 10s", exit, err)
		}
		if status, err := d.Recover(t.Context(), b); err != nil || status.State != driver.StateRunning {
			t.Errorf("b is %+v, %v", status, err)
		}
	})
}

func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, dir)
		ctx := t.Context()
		spec := driver.Spec{TaskID: "a/1/1", Settings: map[string]string{"start_delay": "1h", "fail_start": "disk full"}}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := d.Start(short, spec); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("start that was given up returned %v", err)
		}
		_, err := d.Start(ctx, spec)
		var rejected *driver.RejectedError
		if err == nil || errors.As(err, &rejected) || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("start returned %v", err)
		}
		if status, err := d.Recover(ctx, driver.Handle{TaskID: "a/1/1"}); err != nil || status.State != driver.StateAbsent {
			t.Errorf("status is %+v, %v", status, err)
		}
	})
}

func TestHealth(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, dir)
		h := start(t, d, "a/1/1", map[string]string{"healthy_after": "2s", "unhealthy_after": "5s"})
		unchecked := start(t, d, "b/1/1", nil)
		for second, want := range []bool{false, false, true, true, true, false, false} {
			got, err := d.Health(t.Context(), h)
			if err != nil || !got.Checked || got.Healthy != want {
				t.Errorf("after %d s health is %+v, %v, want %v", second, got, err, want)
			}
			time.Sleep(time.Second)
		}
		if got, err := d.Health(t.Context(), unchecked); err != nil || got.Checked {
			t.Errorf("health without a script is %+v, %v", got, err)
		}
	})
}

func TestFollowPacedLines(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, dir)
		t0 := time.Now()
		h := start(t, d, "a/1/1", map[string]string{"stdout": "1\n2\n3\n4", "log_every": "1s", "run_for": "2500ms"})
		var got []string
		for line, err := range d.Logs(t.Context(), h, driver.LogsRequest{Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := t0.Add(time.Duration(len(got)) * time.Second); !line.Time.Equal(want) || !time.Now().Equal(want) {
				t.Errorf("line %q is of %v and came at %v, want %v", line.Text, line.Time, time.Now(), want)
			}
			got = append(got, string(line.Text))
		}
		if !slices.Equal(got, []string{"1", "2", "3"}) || time.Since(t0) != 2500*time.Millisecond {
			t.Errorf("followed %q for %v", got, time.Since(t0))
		}
	})
}

func TestEventsAreTheTruth(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, dir)
		h := start(t, d, "a/1/1", map[string]string{"stop_delay": "1s"})
		time.Sleep(time.Second)
		for range 2 { // the second changes nothing, and is no event
			if err := d.Stop(t.Context(), h, driver.StopRequest{Signal: "SIGINT", Grace: 5 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Wait(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(t.Context(), driver.Spec{TaskID: "b/1/1", Settings: map[string]string{"reject": "no"}}); err == nil {
			t.Error("start was not refused")
		}
		events, err := Events(dir)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []Kind
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		if want := []Kind{Started, StopAsked, Ended, Removed, Rejected}; !slices.Equal(kinds, want) {
			t.Fatalf("events are %v, want %v", kinds, want)
		}
		if e := events[2]; e.Time.Sub(events[0].Time) != 2*time.Second || e.Exit.Code != 130 || e.Exit.Signal != "INT" {
			t.Errorf("end is %+v", e)
		}
	})
}

func TestBadSettings(t *testing.T) {
	d := open(t, t.TempDir())
	_, err := d.Start(t.Context(), driver.Spec{TaskID: "a/1/1", Settings: map[string]string{
		"run_for": "soon", "exit_code": "256", "colour": "red",
	}})
	var why *driver.RejectedError
	if !errors.As(err, &why) || why.Code != driver.RejectBadSpec {
		t.Fatalf("start returned %v", err)
	}
	want := `the sim driver has no setting "colour"; exit_code = "256" is not a number from 0 to 255; ` +
		`run_for = "soon" is not a duration such as 1.5s`
	if why.Reason != want {
		t.Errorf("reason is %s, want %s", why.Reason, want)
	}
}

func TestEventsCutShort(t *testing.T) {
	dir := t.TempDir()
	h := start(t, open(t, dir), "a/1/1", nil)
	f, err := os.OpenFile(eventsPath(dir), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"time":"2026-`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	if err := d.Stop(t.Context(), h, driver.StopRequest{}); err != nil {
		t.Fatal(err)
	}
	if status, err := open(t, dir).Recover(t.Context(), h); err != nil || status.State != driver.StateExited {
		t.Errorf("status is %+v, %v", status, err)
	}
}

func FuzzScript(f *testing.F) {
	f.Add("run_for", "1s", "exit_code", "3")
	f.Add("healthy_after", "-1s", "log_every", "")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		s, err := parseScript(map[string]string{n1: v1, n2: v2})
		if err == nil && (s.startDelay < 0 || s.stopDelay < 0 || s.logEvery < 0 || s.exitCode < 0 || s.exitCode > 255) {
			t.Errorf("accepted %+v", s)
		}
	})
}
