package trace

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/setpointd/setpoint/core/trace/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a log that can be read.
type logged struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a tracer that runs, and the collector that it exports to.
type running struct {
	*Tracer
	collector *tracetest.Collector
	log       *logged
	stop      func() // ends the tracer, and waits for it
}

// run runs a tracer that is in a hurry.
func run(t *testing.T, change func(*Options)) *running {
	t.Helper()
	x := &running{collector: tracetest.New(), log: &logged{}}
	t.Cleanup(x.collector.Close)
	opts := Options{
		Export: Export{Endpoint: x.collector.Endpoint(), Timeout: 10 * time.Second}, SampleRatio: 1,
		Server: Server{Service: "setpoint", Instance: "s1", Version: "1.2.3", Cluster: "c1", Attributes: map[string]string{"site": "eu"}},
		Log:    hclog.New(&hclog.LoggerOptions{Output: x.log, Level: hclog.Debug}),
	}
	if change != nil {
		change(&opts)
	}
	x.Tracer = New(opts)
	x.pace = pace{gather: time.Millisecond, retry: 10 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := x.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	x.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(x.stop)
	return x
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
