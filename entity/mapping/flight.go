package mapping

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/depth"
)

// flight is a batch of computed readings on its way to the disk.
type flight struct {
	cursor  string // reached when it has landed
	landed  chan<- struct{}
	waiting []chan error // owned by the follower
	part    *piece       // of the backlog, that has landed with it; owned by the follower

	mu      sync.Mutex
	left    int       // unsettled readings, plus one while more are added; guarded by mu
	failed  error     // an error after which the service has to restart, guarded by mu
	refused []refusal // guarded by mu
}

// refusal is an output that the target has refused.
type refusal struct {
	mapping string
	err     error
}

// flight calls write for the outputs that belong to the place reached, and to part of the backlog
// if that is not nil.
func (f *follower) flight(part *piece, write func(*flight) error) error {
	fl := &flight{cursor: f.position, landed: f.landed, left: 1, part: part}
	f.flights = append(f.flights, fl)
	err := write(fl)
	if err != nil {
		fl.settle("", err)
		return err
	}
	fl.settle("", nil)
	return f.land()
}

// settle records one result.
func (fl *flight) settle(mapping string, err error) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	switch {
	case err == nil:
	case mapping != "" && permanent(err):
		fl.refused = append(fl.refused, refusal{mapping, err})
	case fl.failed == nil:
		fl.failed = err
	}
	fl.left--
	select {
	case fl.landed <- struct{}{}:
	default:
	}
}

// permanent reports whether a target refuses a reading permanently: it does not agree with the
// target's type, or with a limit.
func permanent(err error) bool {
	for _, transient := range [...]error{entity.ErrClosed, entity.ErrStopped, entity.ErrFailed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, transient) {
			return false
		}
	}
	return errors.Is(err, entity.ErrInvalid) || errors.Is(err, entity.ErrTooManyKeys) || errors.Is(err, entity.ErrMismatch)
}

// result returns the outcome of the flight, and whether it is known.
func (fl *flight) result() (refused []refusal, known bool, err error) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.refused, fl.left == 0, fl.failed
}

// wake tells those who wait for it.
func (fl *flight) wake(err error) {
	for _, done := range fl.waiting {
		done <- err
	}
	fl.waiting = nil
}

// whenLanded sends a value when everything in flight has landed.
func (f *follower) whenLanded(waiting ...chan error) {
	if n := len(f.flights); n > 0 {
		f.flights[n-1].waiting = append(f.flights[n-1].waiting, waiting...)
		return
	}
	for _, done := range waiting {
		done <- nil
	}
}

// land records the flights that have landed, in order.
func (f *follower) land() error {
	for len(f.flights) > 0 {
		fl := f.flights[0]
		refused, known, failed := fl.result()
		if !known {
			return nil
		}
		for _, r := range refused {
			f.s.count.refused.Add(1)
			if f.engine.refused(r.mapping, r.err) == 1 {
				f.s.cfg.Logger.LogAttrs(f.s.ctx, slog.LevelWarn, "a target does not take what a mapping has computed; more of it is counted and not logged",
					slog.String("mapping", r.mapping), slog.Any("error", r.err))
			}
		}
		if failed != nil {
			return fmt.Errorf("write what mappings have computed: %w", failed)
		}
		f.durable = fl.cursor
		fl.wake(nil)
		f.flights = f.flights[1:]
	}
	return nil
}

// source returns the name of a mapping as the source of readings, including the depth. Readings
// that are Again have a source of their own, with its own numbers instead of those of the changes.
func (o *Output) source() string {
	name := fmt.Sprintf("mapping:%s@%d", o.Mapping, o.Version)
	if o.Again {
		name += ":again"
	}
	return depth.With(name, o.Depth)
}

// write passes outputs to the runtime. compare leaves out what is already stored; only outputs that
// are Again may have been written before without the runtime recognizing them.
func (f *follower) write(ctx context.Context, fl *flight, outputs []Output, compare bool) (err error) {
	for i := range outputs {
		o := &outputs[i]
		inFlight := f.inFlightTo(o.Into)
		from := entity.Origin{Source: o.source(), Seq: o.Seq}
		if o.Again {
			if compare {
				if err := f.leaveOut(ctx, o, inFlight); err != nil {
					return err
				}
			}
			if len(o.Readings) == 0 {
				continue
			}
			if from.Seq, err = f.s.number(ctx); err != nil {
				return err
			}
		}
		values := 0
		for j := range o.Readings {
			values += len(o.Readings[j].Values)
		}
		fl.mu.Lock()
		fl.left++
		fl.mu.Unlock()
		span := o.span()
		inFlight.add(span)
		settle := func(err error) {
			inFlight.remove(span)
			fl.settle(o.Mapping, err)
		}
		if err := f.s.rt.IngestFrom(ctx, o.Into, from, o.Readings, 64*values, settle); err != nil {
			settle(err)
			if !permanent(err) {
				return err
			}
			continue
		}
		f.s.count.outputs.Add(uint64(len(o.Readings)))
		f.s.count.values.Add(uint64(values))
		if o.Again {
			f.s.count.again.Add(uint64(values))
		}
	}
	return nil
}

// inFlight is what is in flight to one target: the times of the outputs.
type inFlight struct {
	mu    sync.Mutex
	spans []interval // guarded by mu
}

func (a *inFlight) add(span interval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans = append(a.spans, span)
}

func (a *inFlight) remove(span interval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.spans, span)
	a.spans = slices.Delete(a.spans, i, i+1)
}

// overlaps reports whether something is on its way to a span of time.
func (a *inFlight) overlaps(span interval) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.spans, func(o interval) bool { return o.from < span.to && span.from < o.to })
}

// inFlightTo returns what is on its way to a target.
func (f *follower) inFlightTo(id string) *inFlight {
	a := f.inFlight[id]
	if a == nil {
		a = &inFlight{}
		f.inFlight[id] = a
	}
	return a
}

// span returns the times of the readings, which are in order.
func (o *Output) span() interval {
	if len(o.Readings) == 0 {
		return interval{}
	}
	return interval{o.Readings[0].TS, o.Readings[len(o.Readings)-1].TS + 1}
}

// leaveOut removes from an output what the target already has. It first waits for what is in flight
// with the same times, since the history does not have that yet.
func (f *follower) leaveOut(ctx context.Context, o *Output, inFlight *inFlight) error {
	for span := o.span(); inFlight.overlaps(span); {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return f.compare(ctx, o)
}

// compare removes from an output what the history of the target has.
func (f *follower) compare(ctx context.Context, o *Output) error {
	there := make(map[string]*walk)
	left := o.Readings[:0]
	for _, r := range o.Readings {
		var values []entity.Sample
		for _, s := range r.Values {
			w := there[s.Key]
			if w == nil {
				w = &walk{r: f.s.reader, id: o.Into, key: s.Key}
				there[s.Key] = w
			}
			old, err := w.at(ctx, r.TS)
			if err != nil {
				return err
			}
			if old != s.Value {
				values = append(values, s)
			}
		}
		if len(values) > 0 {
			left = append(left, entity.Reading{TS: r.TS, Values: values})
		}
	}
	o.Readings = left
	return nil
}
