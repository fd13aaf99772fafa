package groupcommit

import (
	"slices"
	"time"
)

// Config says how batches are made. Set everything but Delay.
type Config struct {
	// Bytes is the size at which a batch is full: it is committed without growing any
	// more, and no batch is larger unless its one item is.
	Bytes int64
	// Delay is how long a batch grows before it is committed, while more keeps coming;
	// where commits take longer it is as long as they take, up to 4 times Delay. When a
	// quarter of it brings nothing the batch is committed at once. 0 or less: a batch
	// does not grow.
	Delay time.Duration
	// RetryMin and RetryMax bound the wait before a failed commit is tried again, which
	// doubles from the one to the other.
	RetryMin, RetryMax time.Duration
}

const (
	growthMost  = 4 // how many times Delay a batch may grow
	growthSteps = 4 // how often in Delay it is looked at
)

// phase is what a policy waits for.
type phase uint8

const (
	idle       phase = iota // an item
	growing                 // more items, until lookAt
	committing              // the end of a commit
	retrying                // retryAt, to commit the same items again
)

// Policy decides which items are committed together, and when. It has no goroutine,
// lock or clock of its own: times are nanoseconds of whichever clock its caller has,
// which must not go back. Make it with NewPolicy. It is not safe for concurrent use.
//
//	idle ──Next──▶ growing ──Next──▶ committing ──Settle──▶ idle
//	                                   ▲     │
//	                                 Next  Settle, not of all
//	                                   │     ▼
//	                                  retrying
type Policy[T any] struct {
	cfg  Config
	cost func(T) int64

	gathering []T
	bytes     int64 // of gathering
	added     uint64
	phase     phase
	hasty     bool

	// of the batch that grows
	began, lookAt int64
	seen          int // items when it was looked at last

	// of the batch that is committed
	batch   []T // what of it is not settled
	taken   int64
	took    int64 // how long the last one took
	retryAt int64
	backoff time.Duration
}

// NewPolicy makes a policy for items that have a cost in bytes each.
func NewPolicy[T any](cfg Config, cost func(T) int64) *Policy[T] {
	return &Policy[T]{cfg: cfg, cost: cost}
}

// Add takes an item in and returns its number, counted from 1. If due is true, Next has
// something to say that it had not before.
func (p *Policy[T]) Add(item T) (number uint64, due bool) {
	wasFull := p.full()
	p.gathering = append(p.gathering, item)
	p.bytes += p.cost(item)
	p.added++
	switch p.phase {
	case idle:
		due = len(p.gathering) == 1
	case growing:
		due = !wasFull && p.full()
	case committing, retrying:
	}
	return p.added, due
}

// Uncommitted returns the items that are not settled, in order.
func (p *Policy[T]) Uncommitted() []T { return slices.Concat(p.batch, p.gathering) }

// Hasten has nothing wait from now on: no batch grows, and what failed is tried again at
// once. Next may have something to say then.
func (p *Policy[T]) Hasten() { p.hasty = true }

// Next says what is to be done at the time now. With a batch: commit it, and call Settle
// with the outcome. With a wait in its place: call Next again after that time, or when
// Add reports that it is due. With neither: when Add does, or after Settle. To ask more
// often changes nothing.
func (p *Policy[T]) Next(now int64) (batch []T, wait time.Duration) {
	switch p.phase {
	case idle:
		if len(p.gathering) == 0 {
			return nil, 0
		}
		if p.cfg.Delay <= 0 || p.hasty || p.full() {
			return p.take(now), 0
		}
		p.phase, p.began = growing, now
		return nil, p.look(now)
	case growing:
		switch {
		case p.full(), p.hasty:
			return p.take(now), 0
		case now < p.lookAt:
			return nil, time.Duration(p.lookAt - now)
		case len(p.gathering) == p.seen, now-p.began >= p.growth():
			return p.take(now), 0
		}
		return nil, p.look(now)
	case retrying:
		if now < p.retryAt && !p.hasty {
			return nil, time.Duration(p.retryAt - now)
		}
		p.phase = committing
		return p.batch, 0
	case committing:
	}
	return nil, 0
}

// look remembers what has gathered and returns how long to wait for more.
func (p *Policy[T]) look(now int64) time.Duration {
	step := max(p.cfg.Delay/growthSteps, 1)
	p.seen, p.lookAt = len(p.gathering), now+int64(step)
	return step
}

// growth is how long a batch may grow.
func (p *Policy[T]) growth() int64 {
	return min(max(p.took, int64(p.cfg.Delay)), growthMost*int64(p.cfg.Delay))
}

func (p *Policy[T]) full() bool { return p.bytes >= p.cfg.Bytes }

// take begins the commit of what has gathered, up to Bytes and at least one item.
func (p *Policy[T]) take(now int64) []T {
	p.phase, p.taken, p.backoff = committing, now, p.cfg.RetryMin
	if p.bytes <= p.cfg.Bytes {
		p.batch, p.gathering, p.bytes = p.gathering, nil, 0
		return p.batch
	}
	n, bytes := 0, int64(0)
	for n < len(p.gathering) {
		cost := p.cost(p.gathering[n])
		if n > 0 && bytes+cost > p.cfg.Bytes {
			break
		}
		bytes += cost
		n++
	}
	p.batch = p.gathering[:n:n]
	p.gathering = append([]T(nil), p.gathering[n:]...)
	p.bytes -= bytes
	return p.batch
}

// Settle takes the outcome of the commit that Next has asked for: the first n of its
// items are settled, by way of an answer if they could not be committed. What is left of
// them comes with Next again: at once, or after a while when err says that the commit of
// these has failed. REQUIRES: a commit is under way.
func (p *Policy[T]) Settle(now int64, n int, err error) {
	if p.phase != committing || n < 0 || n > len(p.batch) {
		panic("groupcommit: Settle without such a commit")
	}
	if n > 0 {
		p.batch, p.backoff = p.batch[n:], p.cfg.RetryMin
	}
	switch {
	case len(p.batch) == 0:
		p.batch, p.phase, p.took = nil, idle, now-p.taken
	case err != nil:
		p.phase, p.retryAt = retrying, now+int64(p.backoff)
		p.backoff = min(2*p.backoff, p.cfg.RetryMax)
	default:
		p.phase, p.retryAt = retrying, now
	}
}
