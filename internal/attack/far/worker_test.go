package far_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

var errPlanned = errors.New("planned")

// deed is what a worker does for a letter.
type deed uint8

const (
	nothing deed = iota
	stop
	fail
	explode
	sleep
	greet // be told when the worker ends normally
	linkBack
	unlinkBack
	watchBack
	unwatchBack
	deeds // how many there are
)

// worker is an actor of the node that is far. It has one incarnation.
type worker struct {
	w       *world
	node    *node
	ref     actor.Ref[any]
	running atomic.Int64            // handlers
	seen    map[int]int             // the last letter of each player
	watches map[actor.PID][]*notice // of the handlers

	mu     sync.Mutex
	guests map[int]actor.PID // who has greeted it
	end    actor.Reason      // 0 if it lives, or if nothing was heard of its end
}

func (k *worker) lives() bool {
	_, ok := k.ref.Backlog()
	return ok
}

// Receive implements [actor.Actor].
func (k *worker) Receive(ctx *actor.Context[any], message any) error {
	if k.running.Add(1) > 1 {
		k.w.Report("turn: two handlers of %s run", k.ref)
	}
	defer k.running.Add(-1)
	switch m := message.(type) {
	case func():
		m()
	case mail:
		k.inOrder(m)
		if err := k.do(ctx, m); err != nil {
			return err
		}
		actor.Reply(ctx, m, m.ID)
	}
	return nil
}

// inOrder checks that a letter comes once, and after those that its sender has sent before.
func (k *worker) inOrder(m mail) {
	l := k.w.book.of(m)
	l.handled.Add(1)
	if m.Seq <= k.seen[m.From] {
		k.w.Report("order: number %d of its sender comes after %d: %s", m.Seq, k.seen[m.From], l)
	}
	k.seen[m.From] = m.Seq
}

// do does what a letter says. Those of a goroutine beside the player have no sender to do it with.
func (k *worker) do(ctx *actor.Context[any], m mail) error {
	switch from := ctx.Sender(); {
	case m.Deed == stop:
		ctx.Stop()
	case m.Deed == fail:
		return errPlanned
	case m.Deed == explode:
		panic("planned")
	case m.Deed == sleep:
		_ = ctx.Sleep(time.Duration(m.random().IntN(2000)) * time.Microsecond)
	case !from.IsZero():
		k.doWith(ctx, m, from)
	}
	return nil
}

// doWith does what concerns the player that has sent the letter.
func (k *worker) doWith(ctx *actor.Context[any], m mail, from actor.PID) {
	switch m.Deed {
	case greet:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.guests[m.From] = from
	case linkBack:
		ctx.Link(from)
	case unlinkBack:
		ctx.Unlink(from)
	case watchBack:
		x := k.w.expect(k, from)
		k.watches[from] = append(k.watches[from], x)
		ctx.Watch(from, func(d actor.Down) any { return func() { x.came(d) } })
	case unwatchBack:
		takeBack(k.watches[from])
		ctx.Unwatch(from)
	default:
	}
}

// Terminate implements [actor.Terminator].
func (k *worker) Terminate(ctx *actor.Context[any], _ error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pid := range k.guests {
		if to, err := actor.Lookup[any](ctx.System(), pid); err == nil {
			to.Tell(ctx, parting{})
		}
	}
}

// knows reports whether the player has greeted it.
func (k *worker) knows(p *player) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.guests[p.number]
	return ok
}

// ended notes how it has ended.
func (k *worker) ended(why actor.Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end = why
}

func (k *worker) reason() actor.Reason {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end
}
