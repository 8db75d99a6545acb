package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/setpointd/setpoint/sdk/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWatch plays a check whose outcome depends on the time since the task's start.
func TestWatch(t *testing.T) {
	const s = time.Second
	never, always := func(time.Duration) bool { return false }, func(time.Duration) bool { return true }
	for name, c := range map[string]struct {
		timing Timing
		passes func(since time.Duration) bool
		until  time.Duration
		want   []string // verdicts with their times
	}{
		"healthy at once": {Timing{Interval: 10 * s, Retries: 3}, always, 60 * s, []string{"0s healthy"}},
		"becomes healthy": {
			Timing{Interval: 10 * s, Retries: 3},
			func(d time.Duration) bool { return d >= 4*s }, 60 * s,
			[]string{"0s not yet", "4s healthy"},
		},
		"never healthy": {Timing{Interval: 10 * s, Retries: 3}, never, 60 * s, []string{"0s not yet", "10s 1 of 3", "20s 2 of 3", "30s failed"}},
		"start period": {
			Timing{Interval: 10 * s, Retries: 2, StartPeriod: 25 * s},
			never, 60 * s,
			[]string{"0s not yet", "25s 1 of 2", "35s failed"},
		},
		"patient":      {Timing{Interval: 10 * s, Retries: 2, Patient: true}, never, 600 * s, []string{"0s not yet"}},
		"short":        {Timing{Interval: s / 10, Retries: 2}, never, 60 * s, []string{"0s not yet", "100ms 1 of 2", "200ms failed"}},
		"one retry":    {Timing{Interval: 10 * s, Retries: 1}, never, 60 * s, []string{"0s not yet", "10s failed"}},
		"one bad time": {Timing{Interval: 10 * s, Retries: 2}, func(d time.Duration) bool { return d != 20*s }, 60 * s, []string{"0s healthy", "20s healthy 1 of 2", "30s healthy"}},
		"falls ill": {
			Timing{Interval: 10 * s, Retries: 3},
			func(d time.Duration) bool { return d < 15*s }, 60 * s,
			[]string{"0s healthy", "20s healthy 1 of 3", "30s healthy 2 of 3", "40s failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c.timing.Started, c.timing.Timeout = began, s
				var got []string
				ctx, cancel := context.WithTimeout(t.Context(), c.until)
				defer cancel()
				Watch(ctx, func(context.Context) error {
					if c.passes(time.Since(began)) {
						return nil
					}
					return errors.New("no answer")
				}, c.timing, func(v Verdict) {
					said := ""
					switch {
					case v.Failed:
						said = "failed"
					case strings.HasPrefix(v.Message, "starting: "):
						said = "not yet"
					case strings.HasPrefix(v.Message, "health check failing ("):
						said, _, _ = strings.Cut(strings.TrimPrefix(v.Message, "health check failing ("), ")")
					}
					if v.Healthy {
						said = strings.TrimSpace("healthy " + said)
					}
					got = append(got, fmt.Sprint(time.Since(began), " ", said))
				})
				if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		})
	}
}

// Whoever counts by itself is not counted again.
func TestFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		probe := func(context.Context) error {
			if time.Since(began) < 5*time.Second {
				return errors.New("not yet")
			}
			return fmt.Errorf("no answer: %w", ErrFinal)
		}
		var last Verdict
		Watch(t.Context(), probe, Timing{Interval: time.Hour, Timeout: time.Second, Retries: 3, Patient: true, Started: began}, func(v Verdict) { last = v })
		if took := time.Since(began); !last.Failed || took != 5*time.Second {
			t.Errorf("got %+v after %v", last, took)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		var last Verdict
		Watch(ctx, hangs, Timing{Interval: time.Second, Timeout: 3 * time.Second, Retries: 2, Started: time.Now()}, func(v Verdict) { last = v })
		if !last.Failed || last.Message != "no answer within 3s" {
			t.Errorf("got %+v", last)
		}
	})
}

func probe(t *testing.T, target Target) error {
	t.Helper()
	p, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p(ctx)
}

func TestHTTP(t *testing.T) {
	mux := http.NewServeMux()
	for _, code := range []int{200, 204, 302, 404, 503} {
		mux.HandleFunc("/"+strconv.Itoa(code), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/404")
			w.WriteHeader(code)
		})
	}
	for name, server := range map[string]*httptest.Server{"http": httptest.NewServer(mux), "https": httptest.NewTLSServer(mux)} {
		t.Run(name, func(t *testing.T) {
			defer server.Close()
			scheme, rest, _ := strings.Cut(server.URL, "://127.0.0.1:")
			for path, want := range map[string]string{"/200": "", "/204": "", "/302": "", "/404": "404 Not Found", "/503": "503 Service Unavailable"} {
				err := probe(t, Target{
					Spec: &cluster.HealthSpec{HTTP: scheme + "://127.0.0.1:${SETPOINT_PORT_http}" + path}, Env: map[string]string{"SETPOINT_PORT_http": rest},
				})
				if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Spec: &cluster.HealthSpec{TCP: "127.0.0.1:$PORT"}, Env: map[string]string{"PORT": strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}}
	if err := probe(t, target); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := probe(t, target); err == nil {
		t.Error("passes where nobody listens")
	}
}

func TestExec(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "check"), []byte("#!/bin/sh\necho \"$MODE\" $PWD; echo broken >&2; exit $CODE\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command []string
		env     map[string]string
		want    string
	}{
		"passes":      {[]string{"./check"}, map[string]string{"CODE": "0"}, ""},
		"fails":       {[]string{"./check"}, map[string]string{"CODE": "3", "MODE": "x"}, "./check: exit status 3: x " + dir + " broken"},
		"in the path": {[]string{"sh", "-c", "exit 0"}, nil, ""},
		"not there":   {[]string{"no-such-command"}, nil, "no such command: no-such-command"},
		"own path":    {[]string{"check"}, map[string]string{"PATH": dir + ":/usr/bin:/bin", "CODE": "0"}, ""},
		"clean":       {[]string{"sh", "-c", `test -z "$HOME$GOPATH"`}, nil, ""},
		"long output": {[]string{"sh", "-c", "yes | head -c 100000; echo; echo last; exit 1"}, nil, "sh: exit status 1: y y"},
	} {
		t.Run(name, func(t *testing.T) {
			err := probe(t, Target{Spec: &cluster.HealthSpec{Exec: c.command}, Env: c.env, Dir: dir})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("got %v", err)
			}
			if err != nil && len(err.Error()) > 2*maxOutput {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

// A program that does not end is killed with all that it started.
func TestExecKilled(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pid")
	p, err := New(Target{Spec: &cluster.HealthSpec{Exec: []string{"sh", "-c", `sleep 1000 & echo $! > "$MARK"; wait`}}, Env: map[string]string{"MARK": mark}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p(ctx) }()
	child := 0
	for end := time.Now().Add(10 * time.Second); child == 0; {
		text, err := os.ReadFile(mark)
		if err == nil && strings.HasSuffix(string(text), "\n") {
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if time.Now().After(end) {
			t.Fatalf("it does not start: %v", err)
		}
		<-time.After(5 * time.Millisecond)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a killed check passes")
	}
	for end := time.Now().Add(10 * time.Second); running(child); {
		if time.Now().After(end) {
			t.Fatal("what it started runs on")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// running reports whether a process exists and is no zombie.
func running(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRefused(t *testing.T) {
	for name, target := range map[string]Target{
		"nothing":      {Spec: &cluster.HealthSpec{}},
		"unknown user": {Spec: &cluster.HealthSpec{Exec: []string{"true"}}, User: "no-such-user"},
	} {
		if _, err := New(target); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestExecAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may switch users")
	}
	err := probe(t, Target{Spec: &cluster.HealthSpec{Exec: []string{"sh", "-c", `test "$(id -u)" = "$WANT"`}}, User: "nobody", Env: map[string]string{"WANT": "65534"}})
	if err != nil {
		t.Error(err)
	}
}
