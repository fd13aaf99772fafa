package actor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// The protocol of the workers (runnext, the queues, stealing, searching, sleeping, waking, and
// fencing a handler) is walked through: each run takes the steps of real workers and of those
// who tell, ask and kill in one order, on one goroutine at a time. First all orders with at
// most two preemptions, at every step and in favor of everybody; then random ones. When nobody
// can go on, nothing may be left to do.

// strand is a goroutine whose steps are taken.
type strand struct {
	number int
	resume chan struct{}
	away   bool // it sleeps, or has not begun
	woken  bool // it was woken before it slept
}

// walk is a walker that chooses by a function: of the number of the step and of how many may
// go on, the one that has taken the last step first if it may.
type walk struct {
	mu       sync.Mutex
	settled  *sync.Cond // arriving is 0
	arriving int
	ready    []*strand // in the order of their numbers
	running  *strand
	strands  map[*worker]*strand
	steps    int
	choose   func(step, n int) int
	idle     chan struct{} // nobody can go on
}

func newWalk(choose func(step, n int) int) *walk {
	k := &walk{strands: map[*worker]*strand{}, choose: choose, idle: make(chan struct{}, 1)}
	k.settled = sync.NewCond(&k.mu)
	return k
}

func (k *walk) strand(w *worker) *strand {
	s := k.strands[w]
	if s == nil {
		s = &strand{number: len(k.strands), resume: make(chan struct{}), away: true}
		k.strands[w] = s
	}
	return s
}

func (k *walk) add(s *strand) {
	i, _ := slices.BinarySearchFunc(k.ready, s, func(a, b *strand) int { return a.number - b.number })
	k.ready = slices.Insert(k.ready, i, s)
}

func (k *walk) arrives(w *worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.strand(w); s.away {
		s.away = false
		k.arriving++
	} else {
		s.woken = true
	}
}

func (k *walk) arrived(w *worker) {
	k.mu.Lock()
	s := k.strand(w)
	if s.woken { // it has never slept, and still runs
		s.woken = false
		k.mu.Unlock()
		return
	}
	k.add(s)
	if k.arriving--; k.arriving == 0 {
		k.settled.Signal()
	}
	k.mu.Unlock()
	<-s.resume
}

func (k *walk) step() {
	k.mu.Lock()
	s := k.running
	k.add(s)
	next := k.next(s)
	k.mu.Unlock()
	if next != s {
		next.resume <- struct{}{}
		<-s.resume
	}
}

func (k *walk) sleeps(w *worker) {
	k.mu.Lock()
	s := k.strand(w)
	away := !s.woken
	s.away = away
	k.mu.Unlock()
	if away { // s may be woken already
		k.gone()
	}
}

func (k *walk) gone() {
	k.mu.Lock()
	next := k.next(nil)
	k.mu.Unlock()
	if next == nil {
		k.idle <- struct{}{}
		return
	}
	next.resume <- struct{}{}
}

// next takes the one that goes on out of those who may, nil if there is none. last is the one
// that has taken the last step. REQUIRES: k.mu held.
func (k *walk) next(last *strand) *strand {
	for k.arriving > 0 {
		k.settled.Wait()
	}
	if len(k.ready) == 0 {
		return nil
	}
	i := k.choose(k.steps, len(k.ready))
	k.steps++
	if at := slices.Index(k.ready, last); at >= 0 { // 0 is last, and the others follow in their order
		i = (at + i) % len(k.ready)
	}
	k.running = k.ready[i]
	k.ready = slices.Delete(k.ready, i, i+1)
	return k.running
}

// play runs what outsiders do, each on a strand, until nobody can go on.
func (k *walk) play(t *testing.T, s *scheduler, outsiders ...func()) {
	t.Helper()
	for _, f := range outsiders {
		w := new(worker) // stands for it in strands
		k.arrives(w)
		go func() {
			k.arrived(w)
			f()
			k.gone()
		}()
	}
	k.mu.Lock()
	first := k.next(nil)
	k.mu.Unlock()
	first.resume <- struct{}{}
	<-k.idle
	if s.waiting() {
		t.Error("all sleep and an actor waits in a queue")
	}
	for _, w := range *s.workers.Load() {
		if w.runnext.Load() != nil {
			t.Error("all sleep and an actor waits in a runnext")
		}
	}
	if n := s.searching.Load(); n != 0 {
		t.Errorf("all sleep and %d count as searching", n)
	}
}

// walkSystem makes a system of n workers whose steps k takes, without a monitor.
func walkSystem(k *walk, n int32) *System {
	sys := NewSystem("walk", WithLogger(slog.New(slog.DiscardHandler)))
	s := sys.sched
	s.n = n
	s.allowed.Store(n)
	s.monitor.sleeping = false // nobody wakes it
	s.walk = k
	return sys
}

// walkOnce runs one scenario in one order and judges it. It returns how many steps there were.
func walkOnce(t *testing.T, choose func(step, n int) int, scenario func(*testing.T, *walk, *System) (sent int)) int {
	t.Helper()
	k := newWalk(choose)
	sys := walkSystem(k, 2)
	sent := scenario(t, k, sys)
	sys.sched.walk = nil
	if st := sys.Stats(); int(st.Handled+st.DeadLetters) != sent {
		t.Errorf("sent %d, handled %d, dead letters %d", sent, st.Handled, st.DeadLetters)
	}
	if _, err := sys.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	return k.steps
}

// preemption lets another strand go on at a step in place of the one that took the last one.
type preemption struct{ step, other int }

const (
	preemptionsMost = 2    // in a run, of which all are tried
	walkRandom      = 1000 // orders of a scenario that are tried besides
)

func TestWorkersKeepTheProtocolInEveryOrderOfTheirSteps(t *testing.T) {
	for name, scenario := range map[string]func(*testing.T, *walk, *System) int{
		"tell": walkTell, "ask": walkAsk, "kill": walkKill, "steal": walkSteal,
	} {
		t.Run(name, func(t *testing.T) {
			longest := walkOnce(t, func(int, int) int { return 0 }, scenario)
			runs := 1
			var preempt func(before []preemption) // and after those before, at every later step
			preempt = func(before []preemption) {
				from := 0
				if n := len(before); n > 0 {
					from = before[n-1].step + 1
				}
				for step := from; step < longest && !t.Failed(); step++ {
					for other, more := 1, true; more; other++ {
						more = false
						all := append(slices.Clone(before), preemption{step, other})
						steps := walkOnce(t, func(step, n int) int {
							for _, p := range all {
								if p.step == step && p.other < n {
									more = more || p == all[len(all)-1] && p.other+1 < n
									return p.other
								}
							}
							return 0
						}, scenario)
						longest = max(longest, steps)
						if runs++; t.Failed() {
							t.Fatalf("with preemptions at %v", all)
						}
						if len(all) < preemptionsMost {
							preempt(all)
						}
					}
				}
			}
			preempt(nil)
			for seed := range uint64(walkRandom) {
				r := rand.New(rand.NewPCG(seed, 1))
				walkOnce(t, func(_, n int) int { // runs of steps, so that one gets far while another waits
					if r.IntN(4) > 0 {
						return 0
					}
					return r.IntN(n)
				}, scenario)
				if runs++; t.Failed() {
					t.Fatalf("by the seed %d", seed)
				}
			}
			t.Logf("%d orders of some %d steps", runs, longest)
			if longest < 20 {
				t.Errorf("only %d steps: nothing was tested", longest)
			}
		})
	}
}

// walkTell has two outsiders tell two actors, one of which tells the other.
func walkTell(t *testing.T, k *walk, sys *System) int {
	bg := context.Background()
	var b Ref[int]
	a := SpawnFunc(sys, "", func(ctx *Context[int], n int) error {
		b.Tell(ctx, n)
		sys.sched.step()
		return nil
	})
	b = SpawnFunc(sys, "", func(*Context[int], int) error { sys.sched.step(); return nil })
	k.play(t, sys.sched, func() { a.Tell(bg, 1); sys.sched.step(); a.Tell(bg, 2) }, func() { b.Tell(bg, 3) })
	return 5
}

// walkAsk has a handler wait for another actor's answer, and be told meanwhile.
func walkAsk(t *testing.T, k *walk, sys *System) int {
	bg := context.Background()
	type question struct{ Returns[int] }
	server := SpawnFunc(sys, "", func(ctx *Context[question], q question) error {
		sys.sched.step()
		Reply(ctx, q, 1)
		return nil
	})
	a := SpawnFunc(sys, "", func(ctx *Context[int], _ int) error {
		_, err := Ask(ctx, server, question{})
		return err
	})
	k.play(t, sys.sched, func() { a.Tell(bg, 1) }, func() { a.Tell(bg, 2) })
	return 4
}

// walkKill kills an actor while its handler runs, has run, or has not begun; the monitor's part,
// which takes the actor away from the handler, is played by who kills it.
func walkKill(t *testing.T, k *walk, sys *System) int {
	bg := context.Background()
	s := sys.sched
	inside, fenced := 0, false
	x := SpawnFunc(sys, "x", func(ctx *Context[int], _ int) error {
		inside++
		s.step()
		ctx.After("never", 1<<60, 0)
		s.step()
		inside--
		return nil
	})
	c := x.to.base()
	k.play(t, s, func() { x.Tell(bg, 1); s.step(); x.Tell(bg, 2) }, func() {
		s.step()
		x.Kill()
		for range 3 {
			s.step()
			for _, w := range *s.workers.Load() {
				if !fenced && w.current.Load() == c && s.fence(w, c) {
					if fenced = true; inside == 0 {
						t.Error("the actor was taken away from nobody")
					}
				}
			}
		}
	})
	if !c.hasStopped() {
		t.Error("a killed actor has not ended")
	}
	if n := len(s.abandoned); n > 0 {
		t.Errorf("%d workers are noted as left behind and have ended", n)
	}
	if n := c.impl().mailState().waiting; n > 0 {
		t.Error("mail was left in the mailbox")
	}
	return 2
}

// walkSteal has a turn wake several actors, so that one waits in runnext and the others in the queue
// while the worker is slow.
func walkSteal(t *testing.T, k *walk, sys *System) int {
	bg := context.Background()
	s := sys.sched
	var woken []Ref[int]
	for range 3 {
		woken = append(woken, SpawnFunc(sys, "", func(*Context[int], int) error { s.step(); return nil }))
	}
	a := SpawnFunc(sys, "", func(ctx *Context[int], _ int) error {
		for _, ref := range woken {
			ref.Tell(ctx, 1)
			s.step()
		}
		return nil
	})
	k.play(t, s, func() { a.Tell(bg, 1) }, func() {
		for _, w := range *s.workers.Load() { // as the monitor does
			w.due.Store(true)
		}
		s.step()
		a.Tell(bg, 2)
	})
	return 8
}
