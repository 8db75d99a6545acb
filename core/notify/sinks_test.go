package notify

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpointd/setpoint/core/engine"
)

func TestWebhooksAreSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(t)
		sink := hook("oncall", time.Minute)
		sink.Webhook.Secret = secretFile(t, "correct horse battery\n")
		sink.Webhook.URL, sink.Webhook.URLFile = "", secretFile(t, "http://hook.example/T0K3N\n")
		sink.Webhook.HTTP.Bearer = secretFile(t, "bear")
		s := serve(t, newDisk(t), bubbleClock{time.Now()}, r, sink)
		defer s.stop()
		if got, err := s.notifier.Try(t.Context(), nil); err != nil || got[0].Err != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		got := r.take()[0]
		at := got.header.Get(HeaderTimestamp)
		if at != strconv.FormatInt(time.Now().Unix(), 10) || got.path != "/T0K3N" || got.header.Get("Authorization") != "Bearer bear" {
			t.Errorf("path %s, header %v", got.path, got.header)
		}
		if sign := got.header.Get(HeaderSignature); sign != Sign([]byte("correct horse battery"), at, got.body) || sign == Sign([]byte("another"), at, got.body) {
			t.Errorf("signed %q", sign)
		}

		// A new secret serves at once; a bad one is a failure that does not show it.
		for _, bad := range []string{"", "short"} {
			if err := os.WriteFile(sink.Webhook.Secret, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			res, _ := s.notifier.Try(t.Context(), nil)
			if err := res[0].Err; err == nil || !strings.Contains(err.Error(), sink.Webhook.Secret) || strings.Contains(err.Error(), "short") {
				t.Errorf("secret %q: %v", bad, err)
			}
		}
	})
}

// The signature of docs/NOTIFICATIONS.md, computed by openssl.
func TestSign(t *testing.T) {
	const want = "sha256=f027f68896373cabafb368b46707e49f3715f33a38cc1313cddf50ffc8c1b204"
	if got := Sign([]byte("correct horse battery"), "1700000000", []byte(`{"format":1}`)); got != want {
		t.Errorf("got %s", got)
	}
}

func TestErrorsHaveNoAddress(t *testing.T) {
	c := caller{HTTP: HTTP{Timeout: time.Second}}
	err := c.post(t.Context(), "http://127.0.0.1:1/T0K3N", nil, nil)
	if err == nil || strings.Contains(err.Error(), "T0K3N") {
		t.Errorf("got %v", err)
	}
	if err := c.post(t.Context(), "http://user:T0K3N@%zz/", nil, nil); err == nil || strings.Contains(err.Error(), "T0K3N") {
		t.Errorf("got %v", err)
	}
}

func amSink(r time.Duration) Sink {
	return Sink{Name: "am", Rules: Rules{After: time.Minute}, Alertmanager: &Alertmanager{
		URLs: []string{"http://am1.example/base/", "http://am2.example"}, Labels: map[string]string{"team": "infra"}, Resend: r, HTTP: HTTP{Timeout: time.Second},
	}}
}

func TestAlertmanager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, d, r := bubbleClock{time.Now()}, newDisk(t), newReceiver(t)
		s := serve(t, d, clock, r, amSink(time.Minute))
		s.do(t, stalls("web"))
		begun := time.Now()
		take := func() (out [][]amAlert) {
			t.Helper()
			for _, x := range r.take() {
				var got []amAlert
				if err := json.Unmarshal(x.body, &got); err != nil || !strings.HasSuffix(x.path, "/api/v2/alerts") {
					t.Fatalf("%s %s: %v", x.path, x.body, err)
				}
				out = append(out, got)
			}
			return out
		}
		pass(time.Minute + 10*time.Second)
		got := take()
		if len(got) != 2 || len(got[0]) != 1 { // one to each
			t.Fatalf("told: %+v", got)
		}
		first := got[0][0]
		for name, want := range map[string]string{"alertname": "SetpointStall", "code": "no_nodes", "source": "placement", "cluster": "c1", "team": "infra", "severity": "warning"} {
			if first.Labels[name] != want {
				t.Errorf("label %s is %q, want %q", name, first.Labels[name], want)
			}
		}
		if first.Annotations["jobs"] != "web" || first.Annotations["summary"] != "1 waits of web: no_nodes" || first.GeneratorURL != "https://dash" {
			t.Errorf("annotations: %v", first)
		}
		if !first.StartsAt.Equal(begun) || first.EndsAt.Before(time.Now().Add(3*time.Minute)) || first.EndsAt.After(time.Now().Add(4*time.Minute)) {
			t.Errorf("from %s to %s", first.StartsAt, first.EndsAt)
		}

		// While it lasts it is said again before it would count as ended, with the same labels, by another server too.
		s.do(t, stalls("db"))
		pass(5 * time.Minute)
		s.stop()
		s = serve(t, d, clock, r, amSink(time.Minute))
		defer func() { s.stop() }()
		pass(5 * time.Minute)
		again := take()
		if len(again) < 18 || len(again) > 22 {
			t.Errorf("said %d times in ten minutes, to two", len(again))
		}
		ends := first.EndsAt
		for _, x := range again {
			if len(x) != 1 || len(x[0].Labels) != len(first.Labels) || x[0].Labels["code"] != "no_nodes" || !x[0].StartsAt.Equal(first.StartsAt) || x[0].EndsAt.Before(ends) {
				t.Fatalf("said again: %+v", x)
			}
			ends = x[0].EndsAt
		}
		if ends.Before(time.Now()) {
			t.Error("it counted as ended in between")
		}

		s.do(t, engine.RemoveJob{Job: "web"})
		s.do(t, engine.RemoveJob{Job: "db"})
		pass(70 * time.Second)
		got = take()
		last := got[len(got)-1][0]
		if last.EndsAt.After(time.Now()) || last.Labels["code"] != "no_nodes" || last.Annotations["summary"] != "nothing waits any more: no_nodes" {
			t.Errorf("the end: %+v", last)
		}
		pass(time.Hour)
		if got := take(); len(got) > 0 {
			t.Errorf("said after the end: %+v", got)
		}
	})
}

func deliverTo(ctx context.Context, x Exec) error {
	return (&program{x}).deliver(ctx, &batch{cluster: "c1", server: "srv", now: time.Unix(1, 0), begin: []Alert{{Cause: cause("x"), Count: 1, Jobs: []string{"web"}}}})
}

func TestExec(t *testing.T) {
	t.Setenv("SETPOINT_TEST_OF_THE_ENVIRONMENT", "leaks")
	out := filepath.Join(t.TempDir(), "out")
	err := deliverTo(t.Context(), Exec{
		Command: []string{"/bin/sh", "-c", `cat >"$OUT"; env >>"$OUT"; pwd >>"$OUT"`}, Env: map[string]string{"OUT": out}, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	var m Message
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Format != 1 || m.Server != "srv" || len(m.Alerts) != 1 || m.Alerts[0].Summary != "1 waits of web: x" {
		t.Errorf("it read %s: %v", line, err)
	}
	if strings.Contains(rest, "leaks") || !strings.Contains(rest, "OUT="+out+"\n") || !strings.HasSuffix(rest, "\n/\n") {
		t.Errorf("it has:\n%s", rest)
	}
}

func TestExecThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"status":          {[]string{"/bin/sh", "-c", "echo out; echo no route >&2; exit 3"}, "exit status 3: no route"},
		"much":            {[]string{"/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1"}, "the end"},
		"no such program": {[]string{"/nonexistent"}, "no such file"},
		"reads nothing":   {[]string{"/bin/false"}, "exit status 1"},
	} {
		if err := deliverTo(t.Context(), Exec{Command: c.command, Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a program starts ends with it.
func TestExecLeavesNothingBehind(t *testing.T) {
	for name, script := range map[string]string{"late": `sleep 1000 & echo $! >"$OUT"; wait`, "left behind": `sleep 1000 & echo $! >"$OUT"`} {
		out := filepath.Join(t.TempDir(), "pid")
		limit := time.Minute
		if name == "late" {
			limit = 500 * time.Millisecond
		}
		err := deliverTo(t.Context(), Exec{Command: []string{"/bin/sh", "-c", script}, Env: map[string]string{"OUT": out}, Timeout: limit})
		if (name == "late") != (err != nil && strings.Contains(err.Error(), "did not end within")) {
			t.Errorf("%s: %v", name, err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Errorf("%s: its child still runs", name)
		}
	}
}

// alive reports whether a process runs; one that was killed and waits for its parent does not.
func alive(pid int) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 100 { // it was killed, and dies when it is its turn
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(stat), ") Z ") {
			return false
		}
		<-tick.C
	}
	return true
}

func TestExecEndsWithTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deliverTo(ctx, Exec{Command: []string{"/bin/sleep", "1000"}, Timeout: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
