package store

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/setpointd/setpoint/sdk/wire"
)

// decodedAtOnce is how many records are handed over for decoding together.
const decodedAtOnce = 512

// part is some records, in their order, on their way through decoding.
type part struct {
	keys   []string
	packed []byte // the values, one after the other
	ends   []int  // in packed
	values []any  // behind its end are those of the records before these, which are spent
	err    error
	done   chan struct{} // has one entry once values or err are set
}

// parts are used again, so that nothing is left behind of most records.
type parts struct{ sync.Pool }

func (p *parts) get() *part {
	if known, ok := p.Get().(*part); ok {
		return known
	}
	return &part{done: make(chan struct{}, 1)}
}

func (p *parts) put(x *part) {
	clear(x.keys)
	x.keys, x.packed, x.ends, x.values = x.keys[:0], x.packed[:0], x.ends[:0], x.values[:0]
	p.Put(x)
}

// decodeAll decodes what load gives and prepares it, on all processors, and calls put with what came of it in the order of the records. It returns the first error
// of either once nothing of it runs any more.
func decodeAll(ctx context.Context, load func(context.Context, func(Record) error) error, preparer func() func(record, spent any) any, put func(any) error) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	work, order := make(chan *part, workers), make(chan *part, 2*workers)
	var used parts
	group.Go(func() error {
		defer close(order)
		defer close(work)
		return read(ctx, load, &used, work, order)
	})
	for range workers {
		group.Go(func() error {
			d := wire.NewDecoder()
			var prepare func(record, spent any) any
			if preparer != nil {
				prepare = preparer()
				d.Reuse()
			}
			for p := range work {
				p.decode(d, prepare)
			}
			return nil
		})
	}
	group.Go(func() error {
		for p := range order {
			if err := p.give(ctx, put); err != nil {
				return err
			}
			used.put(p)
		}
		return nil
	})
	return group.Wait()
}

// read has records loaded and hands them over part by part.
func read(ctx context.Context, load func(context.Context, func(Record) error) error, used *parts, work, order chan<- *part) error {
	next := used.get()
	hand := func() error {
		for _, to := range [...]chan<- *part{work, order} {
			select {
			case to <- next:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		next = used.get()
		return nil
	}
	err := load(ctx, func(r Record) error {
		next.keys = append(next.keys, r.Key)
		next.packed = append(next.packed, r.Value...)
		if next.ends = append(next.ends, len(next.packed)); len(next.keys) < decodedAtOnce {
			return nil
		}
		return hand()
	})
	if err != nil {
		return err
	}
	return hand()
}

func (p *part) decode(d *wire.Decoder, prepare func(record, spent any) any) {
	defer func() { p.done <- struct{}{} }()
	begin := 0
	for i, key := range p.keys {
		v, err := d.Decode(key, p.packed[begin:p.ends[i]])
		if err != nil {
			p.err = fmt.Errorf("load %s: %w", key, err)
			return
		}
		if begin = p.ends[i]; prepare != nil {
			v = prepare(v, p.spent(i))
		}
		p.values = append(p.values, v)
	}
}

// spent returns a value that was passed on and is not needed any more, or nil.
func (p *part) spent(i int) any {
	if all := p.values[:cap(p.values)]; i < len(all) {
		return all[i]
	}
	return nil
}

// give passes the part's values on once they are decoded.
func (p *part) give(ctx context.Context, put func(any) error) error {
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
