package actor_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// The protocol of an actor's state (idle, runnable, running, parked, stopped) is walked
// through exhaustively: two senders, one who stops or kills, and an actor that waits for an
// answer in its handler, whose steps are taken in every possible order. What senders do may
// also fall into the middle of a handler; a reentrant actor handles others in the middle of a
// wait. The driver below is the judge of the protocol: an
// actor that is made ready twice, or not at all though it has mail, is an error.

// odometer enumerates all sequences of choices.
type odometer struct {
	digits, sizes []int
	at            int
}

func (o *odometer) choose(n int) int {
	if o.at == len(o.digits) {
		o.digits, o.sizes = append(o.digits, 0), append(o.sizes, n)
	}
	o.sizes[o.at] = n
	o.at++
	return o.digits[o.at-1]
}

// next goes on to the next sequence. It reports false after the last one.
func (o *odometer) next() bool {
	o.digits, o.sizes = o.digits[:o.at], o.sizes[:o.at]
	o.at = 0
	for i := len(o.digits) - 1; i >= 0; i-- {
		if o.digits[i]++; o.digits[i] < o.sizes[i] {
			o.digits, o.sizes = o.digits[:i+1], o.sizes[:i+1]
			return true
		}
	}
	return false
}

// judge drives a system by an odometer's choices.
type judge struct {
	odo    *odometer
	driven *actor.Driven
	ready  []actor.Step
	extra  []func() // what outsiders still have to do, in any order
	twice  int      // actors that were made ready while they were
}

func (j *judge) Attach(d *actor.Driven) { j.driven = d }
func (j *judge) Uint64() uint64         { return 1 }
func (j *judge) Settle()                { synctest.Wait() }

func (j *judge) Ready(s actor.Step) {
	for _, r := range j.ready {
		if r.Actor() == s.Actor() {
			j.twice++
		}
	}
	j.ready = append(j.ready, s)
}

// act does one thing that is possible: a step, or what an outsider has to do.
func (j *judge) act() bool {
	n := len(j.ready) + len(j.extra)
	if n == 0 {
		return false
	}
	if i := j.odo.choose(n); i < len(j.ready) {
		s := j.ready[i]
		j.ready = append(j.ready[:i:i], j.ready[i+1:]...)
		s.Run()
	} else {
		j.outsider(i - len(j.ready))
	}
	return true
}

func (j *judge) outsider(i int) {
	f := j.extra[i]
	j.extra = append(j.extra[:i:i], j.extra[i+1:]...)
	f()
}

// meanwhile lets outsiders do something in the middle of a handler, or not.
func (j *judge) meanwhile() {
	if i := j.odo.choose(len(j.extra) + 1); i < len(j.extra) {
		j.outsider(i)
	}
}

func (j *judge) Until(done func() bool, _ <-chan struct{}) {
	for !done() {
		if !j.act() {
			panic("nothing is left to do, and what is waited for has not come")
		}
	}
}

func TestEveryInterleavingOfTellStopAndAwaitKeepsTheProtocol(t *testing.T) {
	for _, end := range []struct {
		name string
		stop func(actor.Ref[int])
	}{
		{"stop", actor.Ref[int].Stop}, {"kill", actor.Ref[int].Kill}, {"drain", actor.Ref[int].Drain}, {"live", nil},
	} {
		for _, reentrant := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reentrant %t", end.name, reentrant), func(t *testing.T) {
				runs, sends := 0, 3
				if reentrant {
					sends = soaktest.Rounds(t, 2, 3) // with three it is 20 000 more, for 15 seconds under the race detector
				}
				odo := new(odometer)
				for ok := true; ok; ok = odo.next() {
					runs++
					synctest.Test(t, func(t *testing.T) { walk(t, odo, end.stop, sends, reentrant) })
					if t.Failed() {
						t.Fatalf("by the choices %v", odo.digits)
					}
				}
				t.Logf("%d interleavings", runs)
				if runs < 50 {
					t.Errorf("only %d interleavings: nothing was tested", runs)
				}
			})
		}
	}
}

func walk(t *testing.T, odo *odometer, stop func(actor.Ref[int]), sends int, reentrant bool) {
	j := &judge{odo: odo}
	sys := actor.NewSystem("walk", actor.DrivenBy(j), actor.WithLogger(slog.New(slog.DiscardHandler)))
	type question struct{ actor.Returns[int] }
	handled, inHandler := 0, 0
	server := actor.SpawnFunc(sys, "", func(ctx *actor.Context[question], q question) error {
		actor.Reply(ctx, q, 1)
		return nil
	})
	var opts []actor.SpawnOption
	off := 0 // handlers of a reentrant actor that do not count while they wait
	if reentrant {
		opts, off = append(opts, actor.Reentrant()), 1
	}
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		if inHandler++; inHandler != 1 {
			t.Errorf("%d handlers at once", inHandler)
		}
		if n == 0 {
			inHandler -= off
			_, _ = actor.Ask(ctx, server, question{})
			inHandler += off
		} else {
			j.meanwhile()
		}
		inHandler--
		handled++
		return nil
	}, opts...)
	sent := 0
	tell := func(n int) func() { return func() { sent++; ref.Tell(bg, n) } }
	j.extra = []func(){tell(0), tell(1), tell(0)}[:sends]
	if stop != nil {
		j.extra = append(j.extra, func() { stop(ref) })
	} else {
		j.extra = append(j.extra, tell(2))
	}
	for j.act() {
		synctest.Wait()
	}
	dead := int(sys.Stats().DeadLetters)
	if sent != handled+dead || j.twice > 0 {
		t.Errorf("sent %d, handled %d, dead letters %d; made ready twice %d times", sent, handled, dead, j.twice)
	}
	if _, err := actor.Lookup[int](sys, ref.PID()); (err != nil) != (stop != nil) {
		t.Error(fmt.Errorf("at the end: %w", err))
	}
	if _, err := sys.Shutdown(bg); err != nil {
		t.Error(err)
	}
	j.driven.Close()
}
