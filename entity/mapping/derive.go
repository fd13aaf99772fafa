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

// Recompute computes a mapping over the history of its sources, and calls f with
// the values from <= TS < to, of one field after the other, in the order of
// time. It is the same computation as of the changes as they come. Fields over
// a group have no history that could be computed again: of them f gets the
// value of now. It returns ErrNotFound for a mapping that is not installed, and
// the error of f.
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
	emit := func(ts int64, v value.Value) error { return put(Value{f.spec.As, ts, v}) }
	if f.suspended {
		return nil
	}
	if !f.fanIn {
		return e.derive(ctx, r, f, from, to, emit)
	}
	ts, ok := f.frame.newest()
	if ts = max(ts, f.lastTS); !ok || ts < from || ts >= to {
		return nil
	}
	if v, ok := e.evaluate(f, f.frame, ts); ok {
		return emit(ts, v)
	}
	return nil
}

// derive computes a field over single entities from the history.
func (e *Engine) derive(ctx context.Context, r Reader, f *field, from, to int64, emit func(ts int64, v value.Value) error) error {
	fr := f.next()
	var streams []*stream
	for i := range f.spec.Sources {
		src := &f.spec.Sources[i]
		if src.timeless() {
			continue
		}
		before, err := warm(ctx, r, src, src.Entity, from)
		if err != nil {
			return err
		}
		for _, p := range before {
			fr.put(i, p.ts, p.value)
		}
		streams = append(streams, &stream{source: i, src: src, next: from, to: to})
	}
	for {
		ts := to
		for _, s := range streams {
			at, err := s.peek(ctx, r)
			if err != nil {
				return err
			}
			ts = min(ts, at)
		}
		if ts >= to {
			return nil
		}
		for _, s := range streams {
			if len(s.page) > 0 && s.page[0].ts == ts {
				fr.put(s.source, ts, s.page[0].value)
				s.page = s.page[1:]
			}
		}
		if v, ok := e.evaluate(f, fr, ts); ok {
			if err := emit(ts, v); err != nil {
				return err
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
}

// peek returns the time of the next reading, or the end.
func (s *stream) peek(ctx context.Context, r Reader) (int64, error) {
	if len(s.page) > 0 {
		return s.page[0].ts, nil
	}
	if s.next >= s.to {
		return s.to, nil
	}
	points, err := r.Points(ctx, s.src.Entity, s.src.Key, s.next, s.to, derivePage, false)
	if err != nil {
		return 0, err
	}
	s.page = toPoints(points, s.src)
	if len(points) < derivePage {
		s.next = s.to
	} else {
		s.next = points[len(points)-1].TS + 1
	}
	if len(s.page) == 0 {
		return s.to, nil
	}
	return s.page[0].ts, nil
}

// merge puts the spans of one field together. A field that was loaded anew
// meanwhile takes those of the one before over.
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

// deriveSpan computes again what late readings have changed of a field.
func (e *Engine) deriveSpan(ctx context.Context, r Reader, s fieldSpans, seq uint64, put func([]Output) error) error {
	if s.f.suspended {
		return nil
	}
	intervals, err := s.intervals(ctx, r)
	if err != nil {
		return err
	}
	there := &walk{r: r, id: s.f.m.Statement.Into, key: s.f.spec.As}
	for _, i := range intervals {
		err := e.derive(ctx, r, s.f, i.from, i.to, func(ts int64, v value.Value) error {
			if e.readings >= outputPage {
				if err := put(e.end().Outputs); err != nil {
					return err
				}
			}
			if s.f.m.replaying && s.f.parametric() && ts < s.f.newest {
				if old, err := there.at(ctx, ts); err != nil || old.Kind() != 0 {
					return err // a parameter that has changed since does not change the past
				}
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

// intervals returns when the late readings of the spans have an effect, in order
// and apart from each other.
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

// effectEnd returns the time from which on a reading of a source at ts has no
// effect any more. w walks over the history of the source.
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
