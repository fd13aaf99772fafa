package virtual_test

import (
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// deed is what a handler does for a letter.
type deed uint8

const (
	nothing deed = iota
	stop
	fail
	sleep
	block
	ask
	tell
	forward
	watch
	link
	timer
	child
	deeds // how many there are
)

// draw draws a deed. Half of all letters have none.
func (w *world) draw(r *rand.Rand) deed {
	d := deed(r.IntN(2 * int(deeds)))
	if d >= deeds || !w.faults && (d == fail || d == link) {
		return nothing
	}
	return d
}

// do does it.
func (a *activation) do(ctx *actor.Context[mail], l *letter, r *rand.Rand) error {
	w, soon := a.key.w, time.Duration(r.IntN(300))*time.Microsecond
	switch l.deed {
	case stop:
		if r.IntN(2) == 0 {
			return actor.ErrStop
		}
		ctx.Stop()
	case fail:
		return w.fail(r)
	case sleep:
		return ctx.Sleep(soon)
	case block:
		return actor.Blocking(ctx, func() error { <-time.After(soon); return nil })
	case ask, tell:
		a.send(ctx, l, r)
	case forward:
		a.forward(ctx, l)
	case watch:
		x := w.expect(nil, w.keys[r.IntN(len(w.keys))])
		ctx.Watch(w.ref(x.key).PID(), func(d actor.Down) mail { return mail{note: func() { x.came(d) }} })
	case link:
		ctx.Link(w.ref(w.keys[r.IntN(len(w.keys))]).PID())
	case timer:
		x := w.expect(nil, a.key)
		w.counts.orders.Add(1)
		ctx.After("timer", soon, mail{note: x.once})
	case child:
		w.counts.orders.Add(1)
		actor.SpawnFunc(ctx, "", w.ran).Tell(ctx, mail{})
	case nothing, deeds:
	}
	return nil
}

// ran is the handler of a child.
func (w *world) ran(*actor.Context[mail], mail) error {
	w.counts.ran.Add(1)
	return nil
}

// write writes a letter of an activation. It may come to nothing if that is killed meanwhile.
func (a *activation) write(r *rand.Rand, way way, hops int) *letter {
	l := a.key.w.letter(r, way, nil)
	if l.hops = hops; hops == 0 {
		l.deed = nothing
	}
	l.unsure.Store(a.key.w.kills)
	return l
}

// send asks or tells some key.
func (a *activation) send(ctx *actor.Context[mail], of *letter, r *rand.Rand) {
	switch w := a.key.w; {
	case of.hops == 0:
	case of.deed == ask:
		w.ask(ctx, a.write(r, asked, of.hops-1))
	default:
		w.tell(ctx, a.write(r, told, of.hops-1))
	}
}

// forward passes the letter on, to an actor that is always there.
func (a *activation) forward(ctx *actor.Context[mail], l *letter) {
	w := a.key.w
	l.unsure.Store(l.unsure.Load() || w.kills)
	l.forwards.Add(1)
	if err := actor.Forward(ctx, w.sink); err != nil {
		l.forwards.Add(-1)
		if !w.kills && !w.closing.Load() {
			w.Report("forward: %v: %s", err, l)
		}
	}
}

// receive is the handler of the actor that letters are forwarded to.
func (w *world) receive(ctx *actor.Context[mail], m mail) error {
	w.counts.ran.Add(1)
	m.l.entries.Add(1)
	actor.Reply(ctx, m, m.l.id)
	return nil
}
