package store

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/setpointd/setpoint/sdk/wire"
)

// decodedAtOnce is how many records are handed over for decoding together.
const decodedAtOnce = 512

// part is some records, in their order, on their way through decoding.
type part struct {
	records []Record
	values  []any
	err     error
	done    chan struct{} // closed once values or err are set
}

// decodeAll decodes what load gives, on all processors, and calls put with the values in the order of the records. It returns the first error of either once
// nothing of it runs any more.
func decodeAll(ctx context.Context, load func(context.Context, func(Record) error) error, put func(any) error) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	work, order := make(chan *part, workers), make(chan *part, 2*workers)
	group.Go(func() error {
		defer close(order)
		defer close(work)
		return read(ctx, load, work, order)
	})
	for range workers {
		group.Go(func() error {
			d := wire.NewDecoder()
			for p := range work {
				p.decode(d)
			}
			return nil
		})
	}
	group.Go(func() error {
		for p := range order {
			if err := p.put(ctx, put); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// read has records loaded and hands them over part by part.
func read(ctx context.Context, load func(context.Context, func(Record) error) error, work, order chan<- *part) error {
	next := &part{done: make(chan struct{})}
	hand := func() error {
		for _, to := range [...]chan<- *part{work, order} {
			select {
			case to <- next:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		next = &part{done: make(chan struct{})}
		return nil
	}
	err := load(ctx, func(r Record) error {
		if next.records = append(next.records, r); len(next.records) < decodedAtOnce {
			return nil
		}
		return hand()
	})
	if err != nil {
		return err
	}
	return hand()
}

func (p *part) decode(d *wire.Decoder) {
	defer close(p.done)
	p.values = make([]any, 0, len(p.records))
	for _, r := range p.records {
		v, err := d.Decode(r.Key, r.Value)
		if err != nil {
			p.err = fmt.Errorf("load %s: %w", r.Key, err)
			return
		}
		p.values = append(p.values, v)
	}
	p.records = nil
}

// put passes the part's values on once they are decoded.
func (p *part) put(ctx context.Context, put func(any) error) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, v := range p.values {
		if err := put(v); err != nil {
			return err
		}
	}
	return p.err
}
