package mapping

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// derivePage is how many readings of a source are read at once.
const derivePage = 1024

// Value is one computed value of a key at a time.
type Value struct {
	Key   string
	TS    int64
	Value value.Value
}

// Recompute computes a mapping over the history of its sources, and calls f with the values from <=
// TS < to, one field after the other, in the order of time. The computation is the same as for
// changes as they arrive. Fields over a group have no history that could be recomputed: for them f
// gets the present value. It returns ErrNotFound for a mapping that is not installed, and the error
// of f.
func (e *Engine) Recompute(ctx context.Context, r Reader, name string, from, to int64, f func(Value) error) error {
	m := e.mappings[name]
	if m == nil {
		return fmt.Errorf("mapping %q: %w", name, ErrNotFound)
	}
	for i := range m.fields {
		if err := e.recompute(ctx, r, m.fields[i], from, to, f); err != nil {
			return err
		}
	}
	return nil
}

// recompute is Recompute of one field.
func (e *Engine) recompute(ctx context.Context, r Reader, f *field, from, to int64, put func(Value) error) error {
	_, err := e.recomputeSome(ctx, r, f, interval{from, to}, whole(), put)
	return err
}

// recomputeSome is recompute for a portion, whose steps are evaluations. It returns where the rest
// begins.
func (e *Engine) recomputeSome(ctx context.Context, r Reader, f *field, within interval, some *portion, put func(Value) error) (next int64, err error) {
	emit := func(ts int64, v value.Value) error { return put(Value{f.spec.As, ts, v}) }
	from, to := within.from, within.to
	if f.suspended || f.fanIn && f.m.muted() {
		return to, nil
	}
	if !f.fanIn {
		return e.derive(ctx, r, f, within, some, emit)
	}
	ts, ok := f.frame.newest()
	if ts = max(ts, f.lastTS); !ok || ts < from || ts >= to {
		return to, nil
	}
	if v, ok := e.evaluate(f, f.frame, ts); ok {
		return to, emit(ts, v)
	}
	return to, nil
}

// derive computes a field over single entities from the history: a portion of an interval. It
// returns where the rest begins.
func (e *Engine) derive(ctx context.Context, r Reader, f *field, within interval, some *portion, emit func(ts int64, v value.Value) error) (next int64, err error) {
	from, to := within.from, within.to
	fr := f.next(e.room.passing())
	defer fr.room.leave()
	var streams []*stream
	for i := range f.spec.Sources {
		src := &f.spec.Sources[i]
		if src.timeless() {
			continue
		}
		before, err := warm(ctx, r, src, src.Entity, from)
		if err != nil {
			return from, err
		}
		for _, p := range before {
			fr.put(i, p.ts, p.value)
		}
		streams = append(streams, &stream{source: i, src: src, next: from, to: to, size: min(some.most, derivePage)})
	}
	for _, s := range streams { // each portion reads these pages: they are none of its steps
		if _, err := s.peek(ctx, r); err != nil {
			return from, err
		}
	}
	some.start()
	for {
		ts := to
		for _, s := range streams {
			at, err := s.peek(ctx, r)
			if err != nil {
				return from, err
			}
			ts = min(ts, at)
		}
		if ts >= to || some.done() {
			return ts, nil
		}
		for _, s := range streams {
			for len(s.page) > 0 && s.page[0].ts == ts {
				fr.put(s.source, ts, s.page[0].value)
				s.page = s.page[1:]
			}
		}
		if v, ok := e.evaluate(f, fr, ts); ok {
			if err := emit(ts, v); err != nil {
				return ts, err
			}
		}
	}
}

// stream reads the history of a source forward, page by page.
type stream struct {
	source   int
	src      *Source
	page     []point
	next, to int64
	size     int // of a page
}

// peek returns the time of the next reading, or the end.
func (s *stream) peek(ctx context.Context, r Reader) (int64, error) {
	if len(s.page) > 0 {
		return s.page[0].ts, nil
	}
	if s.next >= s.to {
		return s.to, nil
	}
	if err := s.read(ctx, r); err != nil {
		return 0, err
	}
	if len(s.page) == 0 {
		return s.to, nil
	}
	return s.page[0].ts, nil
}

// read reads the next page, which has all readings of a time or none: a key may have many in one
// millisecond, of which the last counts.
func (s *stream) read(ctx context.Context, r Reader) error {
	for size := s.size; ; size *= 2 {
		points, err := r.Points(ctx, s.src.Entity, s.src.Key, s.next, s.to, size, false)
		if err != nil {
			return err
		}
		if len(points) < size {
			s.page, s.next = toPoints(points, s.src), s.to
			return nil
		}
		if last := points[size-1].TS; points[0].TS < last {
			s.page, s.next = toPoints(points, s.src), last
			s.page = slices.DeleteFunc(s.page, func(p point) bool { return p.ts == last })
			return nil
		}
	}
}

// merge merges the spans of each field. A field that was reloaded meanwhile takes over those of its
// predecessor.
func (e *Engine) merge(spans []Span) []fieldSpans {
	var list []fieldSpans
	at := make(map[*field]int)
	for _, s := range spans {
		m := e.mappings[s.f.m.Name]
		if m == nil || m.Version != s.f.m.Version {
			continue
		}
		f := m.fields[s.f.index]
		i, ok := at[f]
		if !ok {
			i = len(list)
			at[f] = i
			list = append(list, fieldSpans{f: f})
		}
		list[i].spans = append(list[i].spans, s)
	}
	slices.SortFunc(list, func(a, b fieldSpans) int { return cmp.Compare(a.f.rank, b.f.rank) })
	return list
}

type fieldSpans struct {
	f     *field
	spans []Span
}

// interval is a range of time, to excluded.
type interval struct{ from, to int64 }

// deriveSpan recomputes what late readings have changed in a field.
func (e *Engine) deriveSpan(ctx context.Context, r Reader, s fieldSpans, seq uint64, put func([]Output) error) error {
	if s.f.suspended {
		return nil
	}
	intervals, err := s.intervals(ctx, r)
	if err != nil {
		return err
	}
	there := &walk{r: r, id: s.f.m.Statement.Into, key: s.f.spec.As}
	for i := range s.spans {
		e.depth = max(e.depth, s.spans[i].depth)
	}
	defer func() { e.depth = 0 }()
	for _, i := range intervals {
		_, err := e.derive(ctx, r, s.f, i, whole(), func(ts int64, v value.Value) error {
			if e.readings >= outputPage {
				if err := put(e.end().Outputs); err != nil {
					return err
				}
			}
			if keeps, err := s.f.keeps(ctx, s.f.m.replaying, there, ts); keeps || err != nil {
				return err
			}
			e.put(s.f, ts, v, seq, true)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keeps reports whether the existing value at a time stays: that of a field with parameters, when
// changes are replayed that existed when it was loaded. A parameter that has changed since does not
// change the past.
func (f *field) keeps(ctx context.Context, replaying bool, there *walk, ts int64) (bool, error) {
	if !replaying || !f.parametric() || ts >= f.newest {
		return false, nil
	}
	old, err := there.at(ctx, ts)
	return old.Kind() != 0, err
}

// intervals returns the times at which the late readings of the spans have an effect, as disjoint
// intervals in order.
func (s *fieldSpans) intervals(ctx context.Context, r Reader) (list []interval, err error) {
	slices.SortFunc(s.spans, func(a, b Span) int { return cmp.Compare(a.ts, b.ts) })
	walks := make([]walk, len(s.f.spec.Sources))
	for _, span := range s.spans {
		i := interval{span.ts, span.ts + 1}
		for _, n := range span.sources {
			src := &s.f.spec.Sources[n]
			walks[n].r, walks[n].id, walks[n].key = r, src.Entity, src.Key
			to, err := walks[n].effectEnd(ctx, src, span.ts)
			if err != nil {
				return nil, err
			}
			i.to = max(i.to, to)
		}
		if last := len(list) - 1; last >= 0 && i.from <= list[last].to {
			list[last].to = max(list[last].to, i.to)
			continue
		}
		list = append(list, i)
	}
	return list, nil
}

// effectEnd returns the time from which on a reading of a source at ts no longer has an effect. w
// walks the history of the source.
func (w *walk) effectEnd(ctx context.Context, src *Source, ts int64) (int64, error) {
	if src.Over > 0 {
		return ts + src.Over.Milliseconds(), nil
	}
	n := max(src.LastN, 1)
	points, err := w.seek(ctx, ts+1, n)
	if err != nil || len(points) < n {
		return end, err
	}
	return points[n-1].TS, nil
}
