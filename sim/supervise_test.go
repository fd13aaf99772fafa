package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// model says what a supervisor of n children must do, as OTP's does it: which incarnations
// end and begin, in which order. It is written from the documentation and shares nothing
// with the engine.
type model struct {
	strategy actor.Strategy
	max      int
	within   time.Duration
	stop     bool // an exhausted budget ends the child, and not the supervisor
	alive    []int
	failures map[int][]time.Duration // by child, or by -1 for all of them
}

// fail returns what happens when child k fails.
func (m *model) fail(k int, at time.Duration) (log []string) {
	counted := k
	if m.strategy != actor.OneForOne {
		counted = -1
	}
	recent := slices.DeleteFunc(m.failures[counted], func(t time.Duration) bool { return at-t >= m.within })
	m.failures[counted] = append(recent, at)
	members := []int{k}
	switch {
	case len(m.failures[counted]) > m.max && m.stop:
		m.alive = slices.DeleteFunc(m.alive, func(c int) bool { return c == k })
		return []string{fmt.Sprint("end ", k)}
	case len(m.failures[counted]) > m.max:
		for _, c := range slices.Backward(m.alive) {
			log = append(log, fmt.Sprint("end ", c))
		}
		m.failures = make(map[int][]time.Duration) // another incarnation of the supervisor
		m.alive = []int{0, 1, 2, 3}
		for _, c := range m.alive {
			log = append(log, fmt.Sprint("begin ", c))
		}
		return log
	case m.strategy == actor.AllForOne:
		members = m.alive
	case m.strategy == actor.RestForOne:
		members = m.alive[slices.Index(m.alive, k):]
	}
	for _, c := range slices.Backward(members) {
		log = append(log, fmt.Sprint("end ", c))
	}
	for _, c := range members {
		log = append(log, fmt.Sprint("begin ", c))
	}
	return log
}

// kid logs its incarnations. It fails with each message.
type kid struct {
	number int
	log    *[]string
}

// Init implements actor.Initializer.
func (k *kid) Init(*actor.Context[int]) error {
	*k.log = append(*k.log, fmt.Sprint("begin ", k.number))
	return nil
}

// Receive implements actor.Actor.
func (k *kid) Receive(*actor.Context[int], int) error { return errPlanned }

// Terminate implements actor.Terminator.
func (k *kid) Terminate(*actor.Context[int], error) {
	*k.log = append(*k.log, fmt.Sprint("end ", k.number))
}

// parent spawns four kids.
type parent struct {
	log  *[]string
	kids *[]actor.Ref[int]
}

// Init implements actor.Initializer.
func (p *parent) Init(ctx *actor.Context[int]) error {
	*p.kids = nil
	for i := range 4 {
		*p.kids = append(*p.kids, actor.Spawn[int](ctx, fmt.Sprint("kid", i), func() *kid { return &kid{i, p.log} }))
	}
	return nil
}

// Receive implements actor.Actor.
func (p *parent) Receive(*actor.Context[int], int) error { return nil }

func TestSupervisionDoesWhatTheModelSays(t *testing.T) {
	runs := 1000
	if raceEnabled {
		runs = 100
	}
	Check(t, Options{Runs: runs}, func(w *World) {
		r := w.Rand()
		m := &model{
			strategy: actor.Strategy(r.IntN(3)), max: r.IntN(4), within: time.Second, stop: r.IntN(2) == 0,
			alive: []int{0, 1, 2, 3}, failures: make(map[int][]time.Duration),
		}
		opts := []actor.SupervisionOption{actor.MaxRestarts(m.max, m.within)}
		if m.stop {
			opts = append(opts, actor.Exhausted(actor.Stop))
		}
		if r.IntN(2) == 0 {
			opts = append(opts, actor.Backoff(time.Millisecond, 10*time.Millisecond))
		}
		var log []string
		var kids []actor.Ref[int]
		actor.Spawn[int](w.System(), "parent", func() *parent { return &parent{&log, &kids} }, actor.Supervise(m.strategy, opts...))
		for range 9 {
			if len(m.alive) == 0 {
				break
			}
			w.Advance(time.Duration(20+r.IntN(400)) * time.Millisecond)
			log = nil
			k := m.alive[r.IntN(len(m.alive))]
			want := m.fail(k, w.Elapsed())
			kids[k].Tell(context.Background(), 1)
			w.Advance(15 * time.Millisecond) // the backoff
			if !slices.Equal(log, want) {
				w.Fatalf("strategy %d, at most %d, stop %v: kid %d failed: got %v, want %v", m.strategy, m.max, m.stop, k, log, want)
			}
		}
	})
}
