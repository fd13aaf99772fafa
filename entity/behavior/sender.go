package behavior

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// The effects on an entity are carried out one after the other, each when the previous one is
// durable: an entity remembers only the greatest number of a source, so an effect that failed
// temporarily must not be overtaken. Entities do not wait for each other.

const (
	// senderWaiting is how many edits and commands wait for their commits at once.
	senderWaiting = 64
	// allowedFor is how long an effect that was allowed may be carried out without asking again,
	// which requires reading the entity.
	allowedFor = time.Second
	// retryMin and retryMax bound the wait before an effect is tried again.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// chunk is effects that were decided together, and their item in the store.
type chunk struct {
	key     string
	effects []effect
	decided time.Time // zero for an item of an earlier start
	left    int       // that are not settled, guarded by sender.mu
}

// sender carries the effects of a behavior out.
type sender struct {
	rt    *entity.Runtime
	allow func(entity.View) bool // as in Spec
	ctx   context.Context        //nolint:containedctx // ends with the follower
	wg    sync.WaitGroup
	news  chan struct{} // something has been settled
	wake  chan struct{} // there is something to begin with
	slots chan struct{} // for effects that wait for an entity or for their commit

	mu      sync.Mutex
	queues  map[string]*queue // by entity, guarded by mu
	ready   []*queue          // whose first effect is to be sent, guarded by mu
	landed  []string          // keys of chunks that are carried out, guarded by mu
	refused []Failure         // guarded by mu
	done    int               // effects, guarded by mu
}

// queue is the effects on one entity.
type queue struct {
	list  []queued
	delay time.Duration // before the first is tried again
}

type queued struct {
	*effect
	chunk *chunk
}

func startSender(ctx context.Context, rt *entity.Runtime, allow func(entity.View) bool) *sender {
	s := &sender{
		rt: rt, allow: allow, ctx: ctx, news: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		slots: make(chan struct{}, senderWaiting), queues: make(map[string]*queue),
	}
	s.wg.Go(s.run)
	return s
}

// send accepts effects that are durable.
func (s *sender) send(c *chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.left = len(c.effects)
	for i := range c.effects {
		e := &c.effects[i]
		q := s.queues[e.entity]
		if q == nil {
			q = new(queue)
			s.queues[e.entity] = q
			s.ready = append(s.ready, q)
		}
		q.list = append(q.list, queued{e, c})
	}
	nudge(s.wake)
}

// run begins with the effects that are ready.
func (s *sender) run() {
	for {
		s.mu.Lock()
		ready := s.ready
		s.ready = nil
		s.mu.Unlock()
		for _, q := range ready {
			s.begin(q)
		}
		if len(ready) > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}

// begin carries the first effect of a queue out, and does not wait for its commit.
func (s *sender) begin(q *queue) {
	s.mu.Lock()
	first := q.list[0] // only settle removes it
	s.mu.Unlock()
	e, old := first.effect, s.allow != nil && time.Since(first.chunk.decided) >= allowedFor
	if e.readings != nil && !old {
		s.ingest(q, e)
		return
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.slots }()
		var err error
		if old {
			err = s.ask(e)
		}
		switch {
		case err != nil:
			s.settle(q, err)
		case e.readings != nil:
			s.ingest(q, e)
		default:
			s.settle(q, s.apply(e))
		}
	})
}

// errNotAllowed says that an effect was allowed when it was decided, and no longer is.
var errNotAllowed = errors.New("the behavior may not change the entity any more")

// ask asks whether an effect that was decided some time ago is still allowed.
func (s *sender) ask(e *effect) error {
	return s.rt.View(s.ctx, e.entity, func(v entity.View) error {
		if v.Created() == e.created && !s.allow(v) { // nothing happens to another entity of the id
			return errNotAllowed
		}
		return nil
	})
}

// ingest writes the readings of an effect. It is settled when they are durable.
func (s *sender) ingest(q *queue, e *effect) {
	size := 0
	for i := range e.readings {
		size += 64 * len(e.readings[i].Values)
	}
	from := entity.Origin{Source: e.source, Seq: e.seq}
	err := s.rt.IngestFor(s.ctx, e.entity, e.created, from, e.readings, size, func(err error) { s.settle(q, err) })
	if err != nil {
		s.settle(q, err)
	}
}

// apply carries out the edit or the command of an effect.
func (s *sender) apply(e *effect) error {
	var err error
	if e.command != nil {
		command := *e.command
		command.Of = e.created
		_, err = s.rt.Command(s.ctx, e.entity, command)
	} else {
		from := entity.Origin{Source: e.source, Seq: e.seq}
		_, err = s.rt.Edit(s.ctx, e.entity, entity.Edits{From: from, Of: e.created, Patches: e.patches})
	}
	return err
}

// settle records the result of the first effect of a queue.
func (s *sender) settle(q *queue, err error) {
	if s.ctx.Err() != nil {
		return // it is carried out at the next start
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := q.list[0]
	gone := errors.Is(err, entity.ErrNotFound)
	if err != nil && !gone && !refusal(err) {
		q.delay = min(max(2*q.delay, retryMin), retryMax)
		time.AfterFunc(q.delay, func() { s.again(q) })
		return
	}
	if err != nil && !gone { // a deleted entity is not worth reporting
		s.refused = append(s.refused, Failure{Time: time.Now().UnixMilli(), Entity: first.entity, Seq: first.seq, Text: brief(err.Error()), Refused: true})
	}
	q.delay = 0
	q.list[0] = queued{}
	if q.list = q.list[1:]; len(q.list) == 0 {
		delete(s.queues, first.entity)
	} else {
		s.ready = append(s.ready, q)
		nudge(s.wake)
	}
	s.done++
	if first.chunk.left--; first.chunk.left == 0 {
		s.landed = append(s.landed, first.chunk.key)
	}
	nudge(s.news)
}

// again schedules a retry of the first effect of a queue.
func (s *sender) again(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, q)
	nudge(s.wake)
}

// take returns what was settled since the last call.
func (s *sender) take() (landed []string, refused []Failure, done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	landed, refused, done = s.landed, s.refused, s.done
	s.landed, s.refused, s.done = nil, nil, 0
	return landed, refused, done
}

// refusal reports whether an effect is refused permanently: it is no longer allowed, or does not
// agree with the entity's type or with a limit.
func refusal(err error) bool {
	for _, transient := range [...]error{entity.ErrClosed, entity.ErrStopped, entity.ErrFailed, entity.ErrFull, entity.ErrBusy, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, transient) {
			return false
		}
	}
	for _, final := range [...]error{
		errNotAllowed, entity.ErrInvalid, entity.ErrMismatch, entity.ErrTooManyKeys, entity.ErrTooManyCommands, entity.ErrOtherCommand, entity.ErrConflict,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// nudge signals the receiver of ch that there is something new; signals are not counted.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
