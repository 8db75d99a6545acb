package trace

import (
	"context"
	"math/rand/v2"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/setpointd/setpoint/core/internal/outward"
)

// Bounds of an export.
const (
	batchLimit = 512             // spans
	gatherFor  = time.Second     // from the first span to the export
	flushFor   = 3 * time.Second // what is left when the server ends
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// pace is how fast a tracer is.
type pace struct{ gather, retry time.Duration }

// Run exports spans until ctx ends; then it tries once more to export what is left, for a few seconds.
func (t *Tracer) Run(ctx context.Context) error {
	p := newPoster(t.opts.Export)
	defer p.close()
	t.opts.Log.Info("spans are exported", "endpoint", outward.Shown(p.Endpoint), "sample_ratio", t.opts.SampleRatio)
	var batch []*tracepb.Span
	failures := 0
	for ctx.Err() == nil {
		if batch = t.gather(ctx, batch); len(batch) == 0 || ctx.Err() != nil {
			break
		}
		err := t.export(ctx, p, batch)
		if err == nil || !err.again {
			batch = nil
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		t.rest(ctx, max(t.pace.backoff(failures), min(err.after, lastRetry)))
	}
	t.flush(context.WithoutCancel(ctx), p, batch)
	return nil
}

// gather returns a batch with what comes, once it is full or its first span has waited for a while.
func (t *Tracer) gather(ctx context.Context, batch []*tracepb.Span) []*tracepb.Span {
	if len(batch) == 0 {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		case <-ctx.Done():
			return batch
		}
	}
	timer := time.NewTimer(t.pace.gather)
	defer timer.Stop()
	for len(batch) < batchLimit {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// export exports a batch. It tells the log when that begins to fail, and when it works again.
func (t *Tracer) export(ctx context.Context, p *poster, batch []*tracepb.Span) *exportError {
	rejected, err := p.post(ctx, t.request(batch))
	switch {
	case err != nil && ctx.Err() != nil:
		err.again = true // the server ends: it is tried once more
	case err != nil:
		if !err.again {
			t.dropped.Add(uint64(len(batch)))
		}
		if !t.failing.Swap(true) {
			t.opts.Log.Error("spans are not exported, see to the collector or to telemetry in the configuration", "endpoint", outward.Shown(p.Endpoint), "error", err, "retried", err.again)
		}
	default:
		rejected = min(rejected, int64(len(batch)))
		t.dropped.Add(uint64(rejected))
		t.exported.Add(uint64(int64(len(batch)) - rejected))
		if t.failing.Swap(false) {
			t.opts.Log.Info("spans are exported again", "endpoint", outward.Shown(p.Endpoint), "dropped", t.dropped.Load())
		}
	}
	return err
}

// rest waits. Spans that come meanwhile wait in the queue.
func (t *Tracer) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// backoff returns how long to wait after failures in a row. Half of it is by chance, so that servers that failed together do not come back together.
func (p pace) backoff(failures int) time.Duration {
	step := lastRetry
	if failures < 7 {
		step = min(p.retry<<(failures-1), lastRetry)
	}
	return step/2 + rand.N(step/2)
}

// flush exports what is left, once.
func (t *Tracer) flush(ctx context.Context, p *poster, batch []*tracepb.Span) {
	ctx, cancel := context.WithTimeout(ctx, flushFor)
	defer cancel()
	for {
		for len(batch) < batchLimit && len(t.queue) > 0 {
			batch = append(batch, <-t.queue)
		}
		if len(batch) == 0 {
			return
		}
		if err := t.export(ctx, p, batch); err != nil {
			t.dropped.Add(uint64(len(t.queue)))
			if err.again {
				t.dropped.Add(uint64(len(batch)))
			}
			t.opts.Log.Warn("spans were not exported before the end", "spans", len(batch)+len(t.queue), "error", err)
			return
		}
		batch = nil
	}
}

// request returns a batch as it is sent.
func (t *Tracer) request(batch []*tracepb.Span) *collectorpb.ExportTraceServiceRequest {
	of := t.opts.Server
	var about attributes
	about.text("service.name", of.Service)
	about.text("service.instance.id", of.Instance)
	about.text("service.version", of.Version)
	about.text("setpoint.cluster.id", of.Cluster)
	for _, key := range sorted(of.Attributes) {
		about.text(key, of.Attributes[key])
	}
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: about},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "setpoint", Version: of.Version}, Spans: batch}},
	}}}
}
