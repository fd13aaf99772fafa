package behavior

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// What was decided is carried out for each entity one after the other, the next when the one
// before is durable: an entity forgets the numbers of a source but for the greatest, so that an
// effect which failed for the moment must not be overtaken. Entities do not wait for each other.

const (
	// senderWaiting is how many edits and commands wait for their commits at once.
	senderWaiting = 64
	// retryMin and retryMax bound the wait before an effect is tried again.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// chunk is effects that were decided together, and their item in the store.
type chunk struct {
	key     string
	effects []effect
	left    int // that are not settled, guarded by sender.mu
}

// sender carries the effects of a behavior out.
type sender struct {
	rt    *entity.Runtime
	ctx   context.Context //nolint:containedctx // ends with the follower
	wg    sync.WaitGroup
	news  chan struct{} // something has been settled
	wake  chan struct{} // there is something to begin with
	slots chan struct{} // for edits and commands

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

func startSender(ctx context.Context, rt *entity.Runtime) *sender {
	s := &sender{
		rt: rt, ctx: ctx, news: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		slots: make(chan struct{}, senderWaiting), queues: make(map[string]*queue),
	}
	s.wg.Go(s.run)
	return s
}

// send takes effects that are durable.
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
	e := q.list[0].effect // only settle removes it
	s.mu.Unlock()
	from := entity.Origin{Source: e.source, Seq: e.seq}
	if e.readings != nil {
		size := 0
		for i := range e.readings {
			size += 64 * len(e.readings[i].Values)
		}
		err := s.rt.IngestFor(s.ctx, e.entity, e.created, from, e.readings, size, func(err error) { s.settle(q, err) })
		if err != nil {
			s.settle(q, err)
		}
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
		if e.command != nil {
			_, err = s.rt.Command(s.ctx, e.entity, *e.command)
		} else {
			_, err = s.rt.Edit(s.ctx, e.entity, entity.Edits{From: from, Of: e.created, Patches: e.patches})
		}
		s.settle(q, err)
	})
}

// settle takes note of what became of the first effect of a queue.
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
	if err != nil && !gone { // of an entity that has been deleted since there is nothing to say
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

// again has the first effect of a queue tried once more.
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

// refusal reports whether an effect is refused for good: it does not agree with the entity's
// type or with a limit.
func refusal(err error) bool {
	for _, transient := range [...]error{entity.ErrClosed, entity.ErrStopped, entity.ErrFailed, entity.ErrFull, entity.ErrBusy, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, transient) {
			return false
		}
	}
	for _, final := range [...]error{
		entity.ErrInvalid, entity.ErrMismatch, entity.ErrTooManyKeys, entity.ErrTooManyCommands, entity.ErrOtherCommand, entity.ErrConflict,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// nudge tells who waits on the channel, once, that there is something new.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
