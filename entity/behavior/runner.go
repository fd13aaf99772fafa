package behavior

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/depth"
)

// runner calls the handler for its share of the entities. While a batch is handled it is owned by
// its own goroutine, between batches by the follower.
type runner struct {
	f        *follower
	e        Entity
	subjects map[string]*subject
	order    list.List // of *subject, the most recently used first
	bytes    int

	work    []int // places in the batch
	touched []*subject
	gone    []string // entities that were deleted
	made    []outcome
	runs    uint64
	err     error // of the store: the follower restarts
}

// outcome is the result of a call that has an effect or has failed.
type outcome struct {
	place   int // in the batch
	effects []effect
	failure *Failure
}

// handle handles the runner's part of a batch.
func (r *runner) handle(batch []entity.Change) {
	for _, i := range r.work {
		if r.err = r.change(i, &batch[i]); r.err != nil {
			return
		}
	}
}

// change handles one change.
func (r *runner) change(place int, c *entity.Change) error {
	b := r.f.b
	s := r.subjects[c.Entity]
	if c.Edit != nil && c.Edit.Deleted {
		r.end(c.Entity)
		return nil
	}
	wanted := b.spec.wants(c)
	if !wanted && (s == nil || s.stub && c.Edit == nil) {
		return nil
	}
	if s != nil && s.stub && c.Edit != nil { // it may be one for the behavior now
		s.stub, s.known = false, false
		if err := r.view(s); err != nil || s.ended {
			return err
		}
	}
	s, err := r.know(c.Entity)
	if err != nil || s == nil || c.Committed < s.created {
		return err
	}
	late := false
	if !s.stub {
		was := s.bytes
		late = s.take(c)
		r.bytes += s.bytes - was
	}
	if !wanted || !r.concerned(s) || strings.HasPrefix(c.Origin.Source, b.origins) {
		return nil
	}
	r.call(place, s, Event{Change: c, TS: c.TS, Late: late})
	return r.err
}

// concerned reports whether the behavior applies to an entity. If it does not, little is kept of
// the entity.
func (r *runner) concerned(s *subject) bool {
	b := r.f.b
	types := b.s.rt.TypesVersion()
	if s.stub && s.types != types {
		s.stub, s.known = false, false
		if r.err = r.view(s); r.err != nil || s.ended {
			return false
		}
	}
	if s.stub {
		return false
	}
	if !s.concerned(&b.spec, b.settled, types) {
		if b.settled {
			r.bytes -= s.bytes
			s.forget()
			r.bytes += s.bytes
		}
		return false
	}
	return b.spec.Allow == nil || b.spec.Allow(s)
}

// tick makes a regular call for an entity.
func (r *runner) tick(place int, id string, at int64) error {
	s, err := r.know(id)
	if err != nil {
		return err
	}
	if s == nil {
		r.gone = append(r.gone, id) // deleted while nobody looked
		return nil
	}
	if s.state != nil && r.concerned(s) {
		r.call(place, s, Event{TS: at})
	}
	return r.err
}

// call calls the handler and keeps the outcome.
func (r *runner) call(place int, s *subject, ev Event) {
	b := r.f.b
	deep, seq := 1, uint64(ev.TS) //nolint:gosec // a time
	if ev.Change != nil {
		deep, seq = depth.Of(ev.Change.Origin.Source)+1, ev.Change.Seq
	}
	e := &r.e
	e.begin(s, ev.TS)
	err := ErrDepth
	if deep <= MaxDepth {
		r.runs++
		err = r.protect(ev)
	}
	if err != nil && errors.Is(err, context.Canceled) && r.f.ctx.Err() != nil {
		r.err = errInterrupted
		return
	}
	if err != nil {
		f := &Failure{Time: b.s.cfg.now(), TS: ev.TS, Entity: s.id, Version: b.spec.Version, Text: brief(err.Error())}
		if ev.Change != nil {
			f.Seq = seq
		}
		r.made = append(r.made, outcome{place: place, failure: f})
		return
	}
	r.f.fine[place] = true
	if string(e.state) != string(s.state) || (e.state == nil) != (s.state == nil) {
		r.bytes += len(e.state) - len(s.state)
		s.bytes += len(e.state) - len(s.state)
		s.state = e.state
		if !s.touched {
			s.touched = true
			r.touched = append(r.touched, s)
		}
	}
	if e.effects > 0 {
		r.made = append(r.made, outcome{place: place, effects: b.effects(e, b.source(deep, ev.Change == nil), seq)})
	}
}

// protect calls the handler; a panic is an error.
func (r *runner) protect(ev Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return r.f.b.spec.Handle(&r.e, ev)
}

// effects returns what was decided in a call.
func (b *behavior) effects(e *Entity, source string, seq uint64) []effect {
	own := effect{entity: e.s.id, created: e.s.created, source: source, seq: seq}
	var made []effect
	if e.readings != nil {
		x := own
		x.readings = e.readings
		made = append(made, x)
	}
	if e.patches != nil {
		x := own
		x.source += ":" + partEdit
		x.patches = e.patches
		made = append(made, x)
	}
	for i := range e.commands {
		x := own
		x.command = &e.commands[i]
		x.command.Key = source + "#" + strconv.FormatUint(seq, 10) + "." + strconv.Itoa(i)
		x.command.By = b.origins[:len(b.origins)-1]
		made = append(made, x)
	}
	return made
}

// know returns what is known about an entity, nil if it does not exist.
func (r *runner) know(id string) (*subject, error) {
	if s := r.subjects[id]; s != nil {
		r.order.MoveToFront(s.at)
		if s.ended { // the change that says so comes later
			return nil, nil //nolint:nilnil // documented
		}
		return s, nil
	}
	b := r.f.b
	s := &subject{id: id, isA: b.s.isA}
	if err := r.view(s); err != nil || s.ended {
		return nil, err //nolint:nilnil // documented
	}
	key := b.stateKey(id)
	items, err := b.s.rt.Items(r.f.disk, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: key, To: key + "\x00", Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("state of entity %q: %w", id, err)
	}
	if len(items) > 0 {
		s.restore(items[0].Body)
		s.bytes += len(s.state)
	}
	r.subjects[id] = s
	s.at = r.order.PushFront(s)
	r.bytes += s.bytes
	r.shrink()
	return s, nil
}

// view loads the entity. An entity that does not exist has ended.
func (r *runner) view(s *subject) error {
	was := s.bytes
	err := r.f.b.s.rt.View(r.f.disk, s.id, func(v entity.View) error {
		s.load(v)
		return nil
	})
	switch {
	case errors.Is(err, entity.ErrNotFound):
		s.ended = true
		return nil
	case err != nil:
		return fmt.Errorf("entity %q: %w", s.id, err)
	}
	if s.at != nil {
		r.bytes += s.bytes - was
	}
	return nil
}

// end forgets an entity that was deleted, and its state.
func (r *runner) end(id string) {
	if s := r.subjects[id]; s != nil {
		s.ended = true
		r.remove(s)
	}
	r.gone = append(r.gone, id)
}

func (r *runner) remove(s *subject) {
	delete(r.subjects, s.id)
	r.order.Remove(s.at)
	r.bytes -= s.bytes
}

// forget forgets all entities.
// REQUIRES: all states are stored.
func (r *runner) forget() {
	clear(r.subjects)
	r.order.Init()
	r.bytes = 0
}

// shrink drops the least recently used entities for which there is no room. States that are not
// stored yet stay.
func (r *runner) shrink() {
	limit := r.f.b.s.cfg.CacheBytes / len(r.f.runners)
	for at := r.order.Back(); at != nil && r.bytes > limit && at != r.order.Front(); {
		s, before := at.Value.(*subject), at.Prev()
		if !s.touched {
			r.remove(s)
		}
		at = before
	}
}
