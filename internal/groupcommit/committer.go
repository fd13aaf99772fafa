package groupcommit

import (
	"context"
	"sync"
	"time"
)

// Store is what a Committer commits to. One goroutine calls its methods.
type Store[T any] interface {
	// Commit makes the first n of items durable, all of them if it can. The others come
	// again: after a while if err is not nil, which says that their commit has failed.
	// The acker calls acknowledge, unless it is nil: after those of earlier commits, and
	// while the next commit runs.
	Commit(ctx context.Context, items []T) (n int, acknowledge func(), err error)
	// Refuse takes items that will not be committed, because the committer's context has
	// ended. err is how the last try to commit them failed, nil if there was none.
	Refuse(items []T, err error)
}

// Committer runs a Policy on two goroutines, Run and Acknowledge. Make it with New. Its
// other methods are safe for concurrent use.
type Committer[T any] struct {
	ctx   context.Context //nolint:containedctx // the life of what the committer is part of
	store Store[T]
	now   func() int64
	wake  chan struct{} // the policy has something new to say
	stop  chan struct{} // closed by Stop
	acks  chan func()

	mu        sync.Mutex
	policy    *Policy[T]    // guarded by mu
	committed uint64        // items, guarded by mu; what was refused counts as little as what came after it
	progress  chan struct{} // closed when committed moves; nil when nobody waits, guarded by mu
}

// New makes a committer. now is its clock, in nanoseconds. When ctx ends, what is not
// committed is refused.
func New[T any](ctx context.Context, cfg Config, store Store[T], cost func(T) int64, now func() int64) *Committer[T] {
	return &Committer[T]{
		ctx: ctx, store: store, now: now, policy: NewPolicy(cfg, cost),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), acks: make(chan func(), 1),
	}
}

// Accept takes an item over and returns its number. It does not wait.
func (c *Committer[T]) Accept(item T) (number uint64) {
	c.mu.Lock()
	number, due := c.policy.Add(item)
	c.mu.Unlock()
	if due {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return number
}

// Wait returns nil when the item of that number and all before it are committed, or the
// cause of ctx or of the committer's end.
func (c *Committer[T]) Wait(ctx context.Context, number uint64) error {
	for {
		c.mu.Lock()
		if c.committed >= number {
			c.mu.Unlock()
			return nil
		}
		if c.progress == nil {
			c.progress = make(chan struct{})
		}
		progress := c.progress
		c.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.ctx.Done():
			if c.Committed(number) {
				return nil
			}
			return context.Cause(c.ctx)
		}
	}
}

// Committed reports whether the item of that number and all before it are committed.
func (c *Committer[T]) Committed(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed >= number
}

// Uncommitted returns the items that were accepted and are not committed, in order.
func (c *Committer[T]) Uncommitted() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy.Uncommitted()
}

// Stop ends Run when nothing is left, and Acknowledge after it. Call it once, when
// nothing will be accepted any more.
func (c *Committer[T]) Stop() { close(c.stop) }

// Acknowledge is the acker: it tells the world about commits, in order, until Run ends.
func (c *Committer[T]) Acknowledge() {
	for acknowledge := range c.acks {
		acknowledge()
	}
}

// Run commits until Stop is called and nothing is left.
func (c *Committer[T]) Run() {
	defer close(c.acks)
	var failure error // of the last try to commit what comes next
	for stop := c.stop; ; {
		c.mu.Lock()
		batch, wait := c.policy.Next(c.now())
		c.mu.Unlock()
		switch {
		case batch != nil && c.ctx.Err() != nil:
			c.store.Refuse(batch, failure)
			c.settle(len(batch), nil)
			failure = nil
		case batch != nil:
			failure = c.commit(batch)
		case wait > 0:
			c.sleep(wait)
		case stop == nil:
			return
		default:
			select {
			case <-c.wake:
			case <-stop:
				stop = nil
			}
		}
	}
}

// sleep returns after that time, or when there may be something to do.
func (c *Committer[T]) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wake:
	case <-c.ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.policy.Hasten()
	}
}

func (c *Committer[T]) commit(batch []T) error {
	n, acknowledge, err := c.store.Commit(c.ctx, batch)
	c.mu.Lock()
	c.committed += uint64(n)
	if n > 0 && c.progress != nil {
		close(c.progress)
		c.progress = nil
	}
	c.mu.Unlock()
	if acknowledge != nil {
		c.acks <- acknowledge
	}
	c.settle(n, err) // only now: an acker that does not keep up makes batches larger
	return err
}

func (c *Committer[T]) settle(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy.Settle(c.now(), n, err)
}
