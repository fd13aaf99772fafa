package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
)

// say notes an option in words.
func (w *world) say(format string, args ...any) {
	w.options = append(w.options, fmt.Sprintf(format, args...))
}

// drawOptions draws the options of the kind.
func (w *world) drawOptions(r *rand.Rand) []cluster.KindOption {
	idle := []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Second}[r.IntN(4)]
	hot, restarts := 1+r.IntN(len(w.keys)+1), 1+r.IntN(20)
	w.say("idle after %v, hot %d, %d restarts", idle, hot, restarts)
	opts := []cluster.KindOption{
		cluster.IdleAfter(idle), cluster.Hot(hot), cluster.Spawning(w.drawSpawnOptions(r)...),
		cluster.Supervised(actor.Supervise(actor.OneForOne, actor.MaxRestarts(restarts, 10*time.Millisecond))),
	}
	if r.IntN(3) == 0 {
		park := 1 + r.IntN(4)
		w.say("park %d", park)
		opts = append(opts, cluster.Park(park))
	}
	return opts
}

// drawSpawnOptions draws those of the activations.
func (w *world) drawSpawnOptions(r *rand.Rand) []actor.SpawnOption {
	opts := []actor.SpawnOption{[]actor.Lifetime{actor.Transient, actor.Permanent, actor.Temporary}[r.IntN(3)]}
	w.say("%v", opts[0])
	if w.reentrant {
		opts = append(opts, actor.Reentrant())
	}
	switch n := r.IntN(6); n {
	case 0, 1, 2, 3:
		overflow := []actor.Overflow{actor.Block, actor.DropNewest, actor.DropOldest, actor.Reject}[n]
		bound := 1 + r.IntN(4)
		w.say("bounded %d %v", bound, overflow)
		opts = append(opts, actor.Bounded(bound, overflow))
	case 4:
		w.inline = true
		opts = append(opts, actor.Inline())
	}
	return opts
}
