package virtual_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
)

var errPlanned = errors.New("planned")

// key is a virtual actor, over all of its activations.
type key struct {
	name string
	w    *world

	mu      sync.Mutex
	running int             // callbacks
	living  *activation     // whose Init has returned, and whose Terminate has not
	seen    map[*sender]int // the last letter of each
}

// activation is an incarnation of a virtual actor.
type activation struct{ key *key }

// enter notes that a callback begins.
func (a *activation) enter(what string, living *activation) {
	k, w := a.key, a.key.w
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running++
	if k.running > 1 && !w.reentrant && !w.kills {
		w.Report("turn: %s of key %s runs while another callback does", what, k.name)
	}
	if k.living != living && !w.kills {
		w.Report("activation: %s of key %s, of one that is not the living one", what, k.name)
	}
}

// leave notes that a callback has ended, and which activation lives now.
func (a *activation) leave(living *activation) {
	a.key.mu.Lock()
	defer a.key.mu.Unlock()
	a.key.running--
	a.key.living = living
}

// inOrder checks that a letter comes after those that its sender has sent before.
func (k *key) inOrder(l *letter) {
	if l.by == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.seq <= k.seen[l.by] {
		k.w.Report("order: number %d of sender %s comes after %d: %s", l.seq, l.by.name, k.seen[l.by], l)
	}
	k.seen[l.by] = l.seq
}

// spawn makes an activation, or fails to.
func (w *world) spawn(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[mail], error) {
	r := w.rand()
	k := w.byName[at.Key]
	spawned := func() (actor.Ref[mail], error) {
		return actor.TrySpawn(at.Parent, at.Key, func() *activation { return &activation{k} }, opts...)
	}
	if w.calm.Load() {
		return spawned()
	}
	w.pause(r)
	if w.faults && r.IntN(20) == 0 {
		return w.misspawn(r, spawned)
	}
	ref, err := spawned()
	w.pause(r)
	if err == nil && r.IntN(30) == 0 {
		ref.Stop()
	}
	return ref, err
}

// misspawn fails or panics, before or after it has spawned.
func (w *world) misspawn(r *rand.Rand, spawned func() (actor.Ref[mail], error)) (actor.Ref[mail], error) {
	if r.IntN(2) == 0 {
		_, _ = spawned()
	}
	if r.IntN(2) == 0 {
		panic("planned")
	}
	return actor.Ref[mail]{}, errPlanned
}

// pause takes a moment now and then, where the round has slow activations.
func (w *world) pause(r *rand.Rand) {
	if w.slow && r.IntN(20) == 0 {
		<-time.After(time.Duration(r.IntN(500)) * time.Microsecond)
	}
}

// Init implements [actor.Initializer].
func (a *activation) Init(ctx *actor.Context[mail]) error {
	a.enter("Init", nil)
	var living *activation
	defer func() { a.leave(living) }()
	w := a.key.w
	r := w.rand()
	if !w.calm.Load() {
		switch n := r.IntN(50); {
		case n < 3 && w.faults:
			return w.fail(r)
		case n == 3:
			_ = ctx.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
		case n == 4:
			<-time.After(time.Duration(r.IntN(300)) * time.Microsecond)
		case n == 5:
			ctx.Stop()
		}
	}
	living = a
	return nil
}

// Terminate implements [actor.Terminator].
func (a *activation) Terminate(ctx *actor.Context[mail], _ error) {
	a.enter("Terminate", a)
	defer a.leave(nil)
	w := a.key.w
	if w.calm.Load() {
		return
	}
	switch r := w.rand(); r.IntN(20) {
	case 0:
		<-time.After(time.Duration(r.IntN(300)) * time.Microsecond)
	case 1:
		if w.faults {
			panic("planned")
		}
	case 2: // its successor gets it
		l := a.write(r, told, 0)
		l.key = a.key
		w.tell(ctx, l)
	}
}

// Receive implements [actor.Actor].
func (a *activation) Receive(ctx *actor.Context[mail], m mail) error {
	a.enter("Receive", a)
	defer a.leave(a)
	w, l := a.key.w, m.l
	w.counts.ran.Add(1)
	if m.note != nil {
		m.note()
		return nil
	}
	l.entries.Add(1)
	a.key.inOrder(l)
	if err := a.do(ctx, l, rand.New(rand.NewPCG(l.seed, 0))); err != nil {
		return err
	}
	if l.forwards.Load() == 0 {
		actor.Reply(ctx, m, l.id)
	}
	return nil
}

// fail fails in one of the ways there are.
func (w *world) fail(r *rand.Rand) error {
	switch r.IntN(3) {
	case 0:
		panic("planned")
	case 1:
		if !w.inline { // else it would end whoever sends
			runtime.Goexit()
		}
	}
	return errPlanned
}
