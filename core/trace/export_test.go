package trace

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// some has n spans exported.
func (x *running) some(n int) {
	for range n {
		x.Command(Command{Procedure: "P"}).End("", false)
	}
}

// A collector that is away costs nothing, is said once, and gets everything once it is back.
func TestCollectorAwayAndBack(t *testing.T) {
	x := run(t, nil)
	x.some(1)
	eventually(t, "the first is there", func() bool { return len(x.collector.Spans()) == 1 })
	x.collector.Refuse(http.StatusServiceUnavailable)
	x.some(3)
	eventually(t, "it was tried several times", func() bool { return len(x.collector.Headers()) > 4 })
	if s := x.Status(); !s.Failing || s.Exported != 1 || s.Dropped != 0 {
		t.Errorf("status %+v", s)
	}
	x.some(2)
	x.collector.Refuse(0)
	eventually(t, "all are there", func() bool { return len(x.collector.Spans()) == 6 })
	eventually(t, "it is said", func() bool { return strings.Contains(x.log.String(), "exported again") })
	if s := x.Status(); s.Failing || s.Exported != 6 || s.Dropped != 0 {
		t.Errorf("status %+v", s)
	}
	if n := strings.Count(x.log.String(), "[ERROR]"); n != 1 || !strings.Contains(x.log.String(), "503 Service Unavailable") {
		t.Errorf("%d errors were logged:\n%s", n, x.log)
	}
}

// A refusal that will be one again is no reason to keep spans.
func TestRefusedSpansAreDropped(t *testing.T) {
	x := run(t, nil)
	x.collector.Refuse(http.StatusUnauthorized)
	x.some(2)
	eventually(t, "they are dropped", func() bool { return x.Status().Dropped == 2 })
	x.collector.Refuse(0)
	x.collector.Reject(1)
	x.some(1)
	eventually(t, "another is rejected", func() bool { return x.Status().Dropped == 3 && !x.Status().Failing })
	if s := x.Status(); s.Exported != 0 {
		t.Errorf("status %+v", s)
	}
}

// Spans that cannot be encoded are dropped, and do not hold up those behind them.
func TestSpansThatCannotBeEncoded(t *testing.T) {
	x := run(t, nil)
	x.put(&tracepb.Span{Name: "\xff"})
	eventually(t, "it is dropped", func() bool { return x.Status().Dropped == 1 })
	x.some(1)
	eventually(t, "the next is there", func() bool { return len(x.collector.Spans()) == 1 && !x.Status().Failing })
}

func TestQueueIsBounded(t *testing.T) {
	x := New(Options{SampleRatio: 1})
	for range queueLimit + 5 {
		x.put(&tracepb.Span{})
	}
	if s := x.Status(); s.Waiting != queueLimit || s.Dropped != 5 {
		t.Errorf("status %+v", s)
	}
}

// The end of the server is not held up by a collector that says nothing.
func TestFlushIsBounded(t *testing.T) {
	held := make(chan struct{})
	var calls atomic.Int64
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		<-held
	}))
	defer mute.Close()
	defer close(held)
	x := run(t, func(o *Options) { o.Export.Endpoint, o.Export.Timeout = mute.URL, 200*time.Millisecond })
	x.some(3)
	eventually(t, "it was called", func() bool { return calls.Load() > 0 })
	x.stop()
	if s := x.Status(); s.Exported != 0 || s.Dropped != 3 {
		t.Errorf("status %+v", s)
	}
	if !strings.Contains(x.log.String(), "not exported before the end") {
		t.Errorf("nothing is said:\n%s", x.log)
	}
}

func TestFlushAtTheEnd(t *testing.T) {
	x := run(t, nil)
	x.pace.gather = time.Hour // Run has not looked at it yet, or waits for the first span
	x.some(batchLimit/2 + 1)
	x.stop()
	if n := len(x.collector.Spans()); n != batchLimit/2+1 {
		t.Errorf("%d spans are there", n)
	}
}

func TestHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# of the operator\n\nAuthorization: Bearer T0K3N\nX-Scope-OrgID:a:b\n")
	x := run(t, func(o *Options) { o.Export.HeadersFile = file })
	x.some(1)
	eventually(t, "a span is there", func() bool { return len(x.collector.Spans()) == 1 })
	if h := x.collector.Headers()[0]; h.Get("Authorization") != "Bearer T0K3N" || h.Get("X-Scope-OrgID") != "a:b" || h.Get("User-Agent") != "setpoint" {
		t.Errorf("headers %v", h)
	}
	// The file is read for each export. A mistake in it is told by its line, without what stands there, and so is a value that cannot be sent.
	for _, text := range []string{"ok: 1\nT0K3N\n", "Authorization: T0K3N\x01\n"} {
		write(text)
		x.some(1)
		eventually(t, "it fails", func() bool { return x.Status().Failing })
		write("Authorization: Bearer 2\n")
		eventually(t, "it works again", func() bool { return !x.Status().Failing })
	}
	if all := x.collector.Headers(); all[len(all)-1].Get("Authorization") != "Bearer 2" {
		t.Errorf("headers %v", all[len(all)-1])
	}
	if log := x.log.String(); strings.Contains(log, "T0K3N") || !strings.Contains(log, "line 2 of "+file) {
		t.Errorf("the log says\n%s", log)
	}
}

func TestTarget(t *testing.T) {
	for endpoint, want := range map[string]string{
		"https://c:4318": "https://c:4318/v1/traces", "https://c:4318/": "https://c:4318/v1/traces", "https://c/otlp": "https://c/otlp/v1/traces",
		"https://c/v1/traces": "https://c/v1/traces",
	} {
		if got := target(endpoint); got != want {
			t.Errorf("%s: %s, want %s", endpoint, got, want)
		}
	}
}

// Over TLS a collector is trusted only by the configured authority.
func TestTLS(t *testing.T) {
	var calls atomic.Int64
	collector := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	collector.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil)
	collector.StartTLS()
	defer collector.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	x := run(t, func(o *Options) { o.Export.Endpoint, o.Export.CA = collector.URL, ca })
	x.some(1)
	eventually(t, "it fails without the file", func() bool { return x.Status().Failing })
	pem := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(collector.Certificate().Raw) + "\n-----END CERTIFICATE-----\n"
	if err := os.WriteFile(ca, []byte(pem), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works with the file", func() bool { return x.Status().Exported == 1 && calls.Load() > 0 })
	y := run(t, func(o *Options) { o.Export.Endpoint = collector.URL })
	y.some(1)
	eventually(t, "nobody else is trusted", func() bool { return y.Status().Failing })
	if !strings.Contains(y.log.String(), "certificate") {
		t.Errorf("the log says\n%s", y.log)
	}
}
