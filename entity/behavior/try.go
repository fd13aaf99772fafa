package behavior

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// Trial holds the parameters of Try.
type Trial struct {
	// Entity is the id of the entity, which must exist.
	Entity string
	// From and To bound the times of the readings, From <= TS < To, in milliseconds since the epoch.
	From, To int64
	// Last keeps only the last of these readings, up to MaxTrySteps. Defaults to 100.
	Last int
	// Kept, if not nil, returns how many bytes the handler has kept from its last call for the
	// answer. They count towards MaxTryBytes.
	Kept func() int
}

// Step is what a behavior would have done about a reading.
type Step struct {
	// Reading is the reading for which the handler was called.
	Reading entity.Reading
	// Readings, Patches and Commands are its effects.
	Readings []entity.Reading
	Patches  []entity.Patch
	Commands []entity.NewCommand
	// State is the entity's state after the call.
	State []byte
	// Err is why the call failed, at most MaxFailureBytes of its text, nil if it succeeded.
	Err error
}

// Try calls the handler of a spec for readings of an entity's history, in the order of their times,
// and returns what it would have done. Nothing is changed. The handler sees the entity as it is
// now, except that the latest values are those up to the reading and that there is no state at
// first. Values that the behavior itself has written are left out. Try returns [entity.ErrInvalid]
// for an invalid trial or spec, and [entity.ErrNotFound].
func (s *Service) Try(ctx context.Context, spec Spec, t Trial) ([]Step, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("behavior: %w", err)
	}
	switch {
	case t.Last < 0 || t.Last > MaxTrySteps:
		return nil, fmt.Errorf("last: %w: must be from 1 to %d, not %d", entity.ErrInvalid, MaxTrySteps, t.Last)
	case t.From >= t.To:
		return nil, fmt.Errorf("from: %w: must be before to", entity.ErrInvalid)
	}
	t.Last = cmp.Or(t.Last, 100)
	sub := &subject{id: t.Entity, isA: s.isA}
	if err := s.rt.View(ctx, t.Entity, func(v entity.View) error { sub.load(v); return nil }); err != nil {
		return nil, fmt.Errorf("entity %q: %w", t.Entity, err)
	}
	readings, err := s.past(ctx, &spec, sub, t)
	if err != nil {
		return nil, err
	}
	sub.latest = make(map[string]entity.Latest)
	e := &Entity{ctx: ctx}
	f := &follower{b: &behavior{s: s, spec: spec}}
	r := &runner{f: f}
	var steps []Step
	size := 0
	for _, reading := range readings {
		c := &entity.Change{Entity: t.Entity, TS: reading.TS, Values: reading.Values, Committed: reading.TS}
		late := sub.take(c)
		step := Step{Reading: reading}
		if !sub.concerned(&spec, spec.settled(), 0) || spec.Allow != nil && !spec.Allow(sub) {
			continue
		}
		e.begin(sub, reading.TS)
		r.e = *e
		size += 200
		for i := range reading.Values {
			size += 16 + len(reading.Values[i].Key) + len(reading.Values[i].Value.Text())
		}
		if err := r.protect(Event{Change: c, TS: c.TS, Late: late}); err != nil {
			step.Err = errors.New(brief(err.Error())) // the whole one may have megabytes
			size += len(step.Err.Error())
		} else {
			sub.state = r.e.state
			step.Readings, step.Patches, step.Commands = r.e.readings, r.e.patches, r.e.commands
			size += r.e.bytes
		}
		step.State = sub.state
		steps = append(steps, step)
		if t.Kept != nil {
			size += t.Kept()
		}
		if size += len(sub.state); size > MaxTryBytes {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return steps, nil
}

// past returns the last readings of an entity that a spec reads, in the order of their times.
func (s *Service) past(ctx context.Context, spec *Spec, sub *subject, t Trial) ([]entity.Reading, error) {
	byTime := make(map[entity.Place]*entity.Reading)
	size := 0
	for key := range sub.latest {
		points, err := s.points(ctx, spec, key, t)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		for i := range points {
			size += 100 + len(points[i].Value.Text())
		}
		if size > entity.MaxHistoryBytes {
			return nil, fmt.Errorf("entity %q: %w: its readings have more than %d bytes; ask for less", t.Entity, ErrTooMuch, entity.MaxHistoryBytes)
		}
		for _, p := range points {
			at := entity.Place{TS: p.TS, Seq: p.Seq}
			r := byTime[at]
			if r == nil {
				r = &entity.Reading{TS: p.TS}
				byTime[at] = r
			}
			r.Values = append(r.Values, entity.Sample{Key: key, Value: p.Value})
		}
	}
	places := make([]entity.Place, 0, len(byTime))
	for at, r := range byTime {
		if spec.reads(r.Values) {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, entity.Place.Compare)
	places = places[max(0, len(places)-t.Last):]
	list := make([]entity.Reading, len(places))
	for i, at := range places {
		list[i] = *byTime[at]
		slices.SortFunc(list[i].Values, func(a, b entity.Sample) int { return cmp.Compare(a.Key, b.Key) })
	}
	return list, nil
}

// points returns the last points of a key, without those that the behavior has written.
func (s *Service) points(ctx context.Context, spec *Spec, key string, t Trial) ([]entity.Point, error) {
	q := entity.HistoryQuery{ID: t.Entity, Key: key, From: t.From, To: t.To, Limit: t.Last, Descending: true}
	points, _, err := s.rt.History(ctx, q)
	if err != nil || len(points) == 0 {
		return nil, err
	}
	q.From, q.To, q.Limit = points[len(points)-1].TS, points[0].TS+1, len(points)
	origins, err := s.rt.Origins(ctx, q)
	if err != nil {
		return nil, err
	}
	own := make(map[int64]bool)
	for _, o := range origins {
		if strings.HasPrefix(o.Source, s.cfg.Prefix+":"+spec.Name+"@") {
			own[o.TS] = true
		}
	}
	return slices.DeleteFunc(points, func(p entity.Point) bool { return own[p.TS] }), nil
}
