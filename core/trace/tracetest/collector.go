// Package tracetest has a collector that takes spans as others do, for tests, and draws what it took.
//
// Owner: a test makes one and closes it.
package tracetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes spans by OTLP over HTTP. It is safe for use by several goroutines.
type Collector struct {
	server *httptest.Server

	mu       sync.Mutex // guards what follows
	spans    []*tracepb.Span
	resource *resourcepb.Resource
	headers  []http.Header
	refuse   int // the status with which it refuses; 0: it takes all
	reject   int64
	took     func()
}

// New returns a collector that listens on this machine.
func New() *Collector {
	c := &Collector{}
	c.server = httptest.NewServer(c)
	return c
}

// Endpoint is the address that a server is configured with.
func (c *Collector) Endpoint() string { return c.server.URL }

// Close ends the collector.
func (c *Collector) Close() { c.server.Close() }

// Refuse has exports refused with a status, or taken again with 0.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = status
}

// Reject has the next export taken but for so many of its spans.
func (c *Collector) Reject(spans int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reject = spans
}

// OnTaken has a function called after each export that was taken.
func (c *Collector) OnTaken(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = f
}

// Spans returns what was taken so far, in the order in which it came.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans[:len(c.spans):len(c.spans)]
}

// Resource returns what the server said of itself; nil: it said nothing yet.
func (c *Collector) Resource() *resourcepb.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Headers returns those of every export, refused ones too.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers[:len(c.headers):len(c.headers)]
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &m)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no export of traces", http.StatusBadRequest)
		return
	}
	answer, took := c.take(w, r, &m)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
	if took != nil {
		took()
	}
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request, m *collectorpb.ExportTraceServiceRequest) (answer []byte, took func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header.Clone())
	if c.refuse != 0 {
		w.WriteHeader(c.refuse)
		return nil, nil
	}
	for _, of := range m.GetResourceSpans() {
		c.resource = of.GetResource()
		for _, s := range of.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	out := &collectorpb.ExportTraceServiceResponse{}
	if c.reject > 0 {
		out.PartialSuccess = &collectorpb.ExportTracePartialSuccess{RejectedSpans: c.reject, ErrorMessage: "too old"}
		c.reject = 0
	}
	answer, _ = proto.Marshal(out) // it always can be
	return answer, c.took
}
