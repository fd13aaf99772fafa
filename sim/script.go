package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Settle runs steps until nothing more can happen without time passing.
func (w *World) Settle() {
	w.settle()
	for len(w.ready) > 0 {
		w.move(nil)
	}
	w.abortIfFailed()
}

// Advance lets d of virtual time pass, with everything that happens in it, and settles.
func (w *World) Advance(d time.Duration) {
	over := false
	w.at(time.Now().Add(d), func() { over = true })
	w.until(func() bool { return over }, nil)
	w.Settle()
}

// At calls do after d, as a step of its own, in any order with other steps that are then ready. do
// may tell, ask, stop, crash and so on.
func (w *World) At(d time.Duration, do func()) { w.at(time.Now().Add(d), do) }

// Sometime returns a random time within d, drawn from [World.Rand], for [World.At].
func (w *World) Sometime(d time.Duration) time.Duration {
	return time.Duration(w.userRand.Int64N(int64(max(d, 1))))
}

func (w *World) at(when time.Time, do func()) {
	e := &event{at: when, do: do}
	w.events.push(e)
	if !when.After(time.Now()) {
		w.ready = append(w.ready, w.events.pop().choice())
	}
}

// Begin is the one message of a [World.Go].
type Begin struct{}

// Go runs script concurrently with the test, as the handler of an actor with that name: it may ask
// and sleep with its context, and other steps run in between. Faults do not affect it.
func (w *World) Go(name string, script func(ctx *actor.Context[Begin])) {
	ref := actor.SpawnFunc(w.System(), name, func(ctx *actor.Context[Begin], _ Begin) error {
		script(ctx)
		return actor.ErrStop
	}, actor.Temporary)
	w.actors.spare(ref.PID())
	ref.Tell(w.ctx, Begin{})
}

// monitor is a condition that is looked at after each step.
type monitor struct {
	name  string
	check func() error
}

// Always requires that check returns nil, now and after each step of the rest of the
// run. check must not wait.
func (w *World) Always(name string, check func() error) {
	w.monitors = append(w.monitors, monitor{name, check})
	w.observe()
	w.abortIfFailed()
}

// Never requires that found returns false, now and after each step of the rest of the
// run. found must not wait.
func (w *World) Never(name string, found func() bool) {
	w.Always(name, func() error {
		if found() {
			return fmt.Errorf("it has happened")
		}
		return nil
	})
}

// Heal turns off all faults: from here on links work, and the schedule is fair, so that
// nothing starves.
func (w *World) Heal() {
	w.faults, w.healed = Faults{}, true
	for _, l := range w.links {
		l.Mend()
		l.Faults(LinkFaults{})
	}
	for _, d := range w.disks {
		d.Faults(DiskFaults{})
	}
	if w.follow == nil {
		w.picker = RandomWalk().Start(stream(w.seed, streamSchedule), 0)
	}
}

// Eventually heals the world, and fails the run unless check returns nil before d of
// virtual time has passed. check is called after each step and must not wait.
func (w *World) Eventually(d time.Duration, name string, check func() error) {
	w.Heal()
	over := false
	w.at(time.Now().Add(d), func() { over = true })
	var err error
	w.until(func() bool {
		w.observing = true
		err = check()
		w.observing = false
		return err == nil || over
	}, nil)
	if err != nil {
		w.fail("eventually "+name, fmt.Sprintf("%s: not within %v: %v", name, d, err))
	}
}

// observe looks at the conditions.
func (w *World) observe() {
	if len(w.monitors) == 0 || w.failure != nil || w.over {
		return
	}
	w.observing = true
	defer func() { w.observing = false }()
	for i := range w.monitors {
		m := &w.monitors[i]
		if err := m.check(); err != nil {
			w.fail("always "+m.name, fmt.Sprintf("%s: %v", m.name, err))
		}
	}
}

// event is something of the script that is due at some time.
type event struct {
	at    time.Time
	do    func()
	frame *frame // what it is on a link
}

func (e *event) choice() Choice {
	if e.frame != nil {
		return Choice{kind: chooseFrame, frame: e.frame, key: e.frame.link.key()}
	}
	return Choice{kind: chooseEvent, event: e, key: 1}
}

// eventHeap is a list by time: there are few.
type eventHeap []*event

func (h *eventHeap) push(e *event) {
	i := len(*h)
	for i > 0 && (*h)[i-1].at.After(e.at) {
		i--
	}
	*h = slices.Insert(*h, i, e)
}

func (h *eventHeap) pop() *event {
	e := (*h)[0]
	*h = slices.Delete(*h, 0, 1)
	return e
}
