package planted

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// The lock: a lease with a time limit, and a resource behind it.

type lockMsg interface{ lock() }

type acquire struct{ actor.Returns[int] } // the answer is a fencing token

type expired struct{ token int }

type release struct{ token int }

func (acquire) lock() {}
func (expired) lock() {}
func (release) lock() {}

type locker struct {
	token  int
	holder int
	queue  []*actor.Promised[int]
}

// Receive implements actor.Actor.
func (l *locker) Receive(ctx *actor.Context[lockMsg], m lockMsg) error {
	switch m := m.(type) {
	case acquire:
		l.queue = append(l.queue, actor.Promise(ctx, m))
	case expired:
		if m.token == l.holder {
			l.holder = 0
		}
	case release:
		if m.token == l.holder {
			l.holder = 0
		}
	}
	if l.holder == 0 && len(l.queue) > 0 {
		l.token++
		l.holder = l.token
		ctx.After("lease", 100*time.Millisecond, expired{l.token})
		l.queue[0].Resolve(l.token)
		l.queue = l.queue[1:]
	}
	return nil
}

type write struct {
	actor.Returns[bool]
	token int
}

func lock(w *sim.World, mended bool) {
	locks := actor.Spawn[lockMsg](w.System(), "locks", func() *locker { return &locker{} })
	highest := 0
	stale := false
	resource := actor.SpawnFunc(w.System(), "resource", func(ctx *actor.Context[write], m write) error {
		ok := m.token >= highest
		if mended && !ok { // the token fences who was too slow
			actor.Reply(ctx, m, false)
			return nil
		}
		stale = stale || !ok
		highest = max(highest, m.token)
		actor.Reply(ctx, m, true)
		return nil
	})
	for i := range 3 {
		w.Go(fmt.Sprintf("client-%d", i), func(ctx *actor.Context[sim.Begin]) {
			token, err := actor.Ask(ctx, locks, acquire{})
			if err != nil || ctx.Sleep(10*time.Millisecond) != nil {
				return
			}
			_, _ = actor.Ask(ctx, resource, write{token: token})
			locks.Tell(ctx, release{token})
		})
	}
	w.Never("who has lost the lock writes", func() bool { return stale })
	w.Advance(time.Minute)
}

// The batch: what comes is gathered until there are three, or 10 ms have passed.

type batchMsg interface{ batch() }

type item struct{}

type flush struct{ number int }

func (item) batch()  {}
func (flush) batch() {}

func batch(w *sim.World, mended bool) {
	n, number := 0, 0
	var began time.Time
	var fault error
	batcher := actor.SpawnFunc(w.System(), "batch", func(ctx *actor.Context[batchMsg], m batchMsg) error {
		done := func() {
			n = 0
			number++
		}
		switch m := m.(type) {
		case item:
			if n++; n == 1 {
				began = time.Now()
				ctx.After(fmt.Sprint("flush ", number), 10*time.Millisecond, flush{number})
			}
			if n == 3 {
				done()
			}
		case flush:
			if mended && m.number != number || n == 0 {
				return nil
			}
			if waited := time.Since(began); waited < 10*time.Millisecond {
				fault = fmt.Errorf("a batch of %d was flushed after %v", n, waited)
			}
			done()
		}
		return nil
	})
	w.Always("a batch is full or old enough", func() error { return fault })
	for range 8 {
		w.At(w.Sometime(15*time.Millisecond), func() { batcher.Tell(w.Context(), item{}) })
	}
	w.Advance(time.Second)
}

// The retry: a payment is asked for again when the answer does not come in time.

type pay struct {
	actor.Returns[bool]
	id int
}

func retry(w *sim.World, mended bool) {
	paid := make(map[int]int)
	payments := actor.SpawnFunc(w.System(), "payments", func(ctx *actor.Context[pay], m pay) error {
		if !mended || paid[m.id] == 0 {
			paid[m.id]++
		}
		if err := ctx.Sleep(time.Millisecond); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		actor.Reply(ctx, m, true)
		return nil
	})
	for id := range 3 {
		w.Go(fmt.Sprintf("client-%d", id), func(ctx *actor.Context[sim.Begin]) {
			for range 3 {
				limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				_, err := actor.Ask(limited, payments, pay{id: id})
				cancel()
				if err == nil {
					return
				}
			}
		})
	}
	w.Always("nobody pays twice", func() error {
		for id := range 3 {
			if paid[id] > 1 {
				return fmt.Errorf("client %d has paid %d times", id, paid[id])
			}
		}
		return nil
	})
	w.Advance(time.Minute)
}

// The cancellation: a job is done in pieces that the worker tells itself; a cancel must not
// wait until all pieces are through.

type jobMsg interface{ job() }

type piece struct{ left int }

type stopJob struct{ actor.Returns[int] }

func (piece) job()   {}
func (stopJob) job() {}

func cancel(w *sim.World, mended bool) {
	done, after := 0, -1
	worker := actor.SpawnFunc(w.System(), "job", func(ctx *actor.Context[jobMsg], m jobMsg) error {
		switch m := m.(type) {
		case piece:
			done++
			if m.left == 0 {
				return nil
			}
			if mended { // one piece at a time: others come in between
				ctx.Self().Tell(ctx, piece{m.left - 1})
				return nil
			}
			for i := range m.left { // all at once: who comes now is behind all of them
				_ = i
				ctx.Self().Tell(ctx, piece{0})
			}
		case stopJob:
			after = done
			actor.Reply(ctx, m, done)
			return actor.ErrStop
		}
		return nil
	})
	worker.Tell(w.Context(), piece{20})
	before := 0
	w.Go("user", func(ctx *actor.Context[sim.Begin]) {
		before = done
		_, _ = actor.Ask(ctx, worker, stopJob{})
	})
	w.Settle()
	if after-before > 10 && before > 0 && before < 5 {
		w.Fatalf("the cancel came at piece %d and was heard at piece %d", before, after)
	}
}
