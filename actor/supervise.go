package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Strategy says which children a failure concerns.
type Strategy uint8

// OneForOne: a failure concerns the child that failed, and nobody else.
const OneForOne Strategy = 0

// The supervision that an actor exercises unless told otherwise.
const (
	defaultMaxRestarts = 10
	defaultWithin      = time.Minute
)

// supervision is what an actor does about failures of its children.
type supervision struct {
	strategy    Strategy
	maxRestarts int
	within      time.Duration
	backoffMin  time.Duration
	backoffMax  time.Duration
}

// SupervisionOption refines [Supervise].
type SupervisionOption func(*supervision)

// Supervise says how the actor, or for [NewSystem] the system with the actors at
// its root, supervises its children: when one fails, it is restarted with fresh
// state and the mailbox that it had; when it fails too often it is stopped, and
// whoever watches it gets a [Down] with the reason [Failed].
//
// Without Supervise it is OneForOne, 10 restarts in a minute, without backoff.
func Supervise(strategy Strategy, opts ...SupervisionOption) SuperviseOption {
	s := supervision{strategy: strategy, maxRestarts: defaultMaxRestarts, within: defaultWithin}
	for _, opt := range opts {
		opt(&s)
	}
	return SuperviseOption{s}
}

// SuperviseOption is the result of [Supervise]: an option of spawning and of
// [NewSystem].
type SuperviseOption struct{ s supervision }

func (o SuperviseOption) applySpawn(c *spawnConfig)   { c.super = &o.s }
func (o SuperviseOption) applySystem(c *systemConfig) { c.super = o.s }

// MaxRestarts bounds the restarts of each child: with more than n failures within
// the given time the child is stopped. With n = 0 the first failure stops it.
func MaxRestarts(n int, within time.Duration) SupervisionOption {
	return func(s *supervision) { s.maxRestarts, s.within = n, within }
}

// Backoff delays restarts: the first by about shortest, each further one within
// the time of [MaxRestarts] by twice as much, up to longest, with a jitter of a
// quarter so that what failed together does not come back together. Nobody is
// blocked meanwhile; messages wait in the mailbox.
func Backoff(shortest, longest time.Duration) SupervisionOption {
	return func(s *supervision) { s.backoffMin, s.backoffMax = shortest, max(shortest, longest) }
}

// delay returns the backoff before restart number n, counted from 1.
func (s *supervision) delay(n int) time.Duration {
	if s.backoffMin <= 0 {
		return 0
	}
	d := s.backoffMin
	for ; n > 1 && d < s.backoffMax; n-- {
		d *= 2
	}
	d = min(d, s.backoffMax)
	return d - d/8 + rand.N(d/4+1)
}

// supervise decides about a child that failed. REQUIRES: the turn owns c.
func (c *cell[M]) supervise(child *core, err error) {
	if c.phase == stopping || c.phase == restarting {
		child.signal(signal{kind: sigGiveUp, err: err})
		return
	}
	ext := child.extension()
	now := time.Now()
	recent := ext.failures[:0]
	for _, t := range ext.failures {
		if now.Sub(t) < c.super.within {
			recent = append(recent, t)
		}
	}
	ext.failures = append(recent, now)
	if n := len(ext.failures); n <= c.super.maxRestarts {
		child.signal(signal{kind: sigRestart, after: c.super.delay(n)})
		return
	}
	err = fmt.Errorf("%w: %d failures within %v: %w", ErrRestartBudget, len(ext.failures), c.super.within, err)
	c.sys.log.LogAttrs(context.Background(), slog.LevelError, "actor stopped by its supervisor",
		slog.String("actor", child.pid().String()), slog.String("error", err.Error()))
	child.signal(signal{kind: sigGiveUp, err: err})
}

// logFailure writes the one line about a failure.
func (c *cell[M]) logFailure(err error) {
	attrs := []slog.Attr{
		slog.String("actor", c.pid().String()),
		slog.String("error", err.Error()),
		slog.String("message_type", fmt.Sprintf("%T", c.cur.msg)),
	}
	var p *PanicError
	if errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	c.sys.log.LogAttrs(context.Background(), slog.LevelWarn, "actor failed", attrs...)
}
