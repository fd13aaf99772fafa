package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// post is a place in a tree of supervisors: how the actor there is spawned and how it looks
// after those below.
type post struct {
	id        int
	lifetime  actor.Lifetime
	strategy  actor.Strategy
	max       int
	within    time.Duration
	stop      bool // an exhausted budget ends the child, and not the supervisor
	backoff   bool
	decisions []actor.Directive // by the number of the error
	below     []*post
}

// faults are the errors with which an actor can fail.
var faultErrors = []error{errors.New("first"), errors.New("second"), errors.New("third")}

// drawPost draws a tree.
func drawPost(r *rand.Rand, depth int, next *int) *post {
	p := &post{
		id: *next, lifetime: actor.Lifetime(r.IntN(3)), strategy: actor.Strategy(r.IntN(3)),
		max: r.IntN(4), within: time.Second, stop: r.IntN(3) == 0, backoff: r.IntN(2) == 0,
	}
	*next++
	for range faultErrors {
		p.decisions = append(p.decisions, []actor.Directive{actor.Restart, actor.Restart, actor.Resume, actor.Stop, actor.Escalate}[r.IntN(5)])
	}
	if depth > 0 {
		for range 1 + r.IntN(3) {
			p.below = append(p.below, drawPost(r, depth-1, next))
		}
	}
	return p
}

// options are those with which the actor of a post is spawned.
func (p *post) options() []actor.SpawnOption {
	opts := []actor.SupervisionOption{actor.MaxRestarts(p.max, p.within), actor.Decide(func(err error) actor.Directive {
		for i, e := range faultErrors {
			if errors.Is(err, e) {
				return p.decisions[i]
			}
		}
		return actor.Restart
	})}
	if p.stop {
		opts = append(opts, actor.Exhausted(actor.Stop))
	}
	if p.backoff {
		opts = append(opts, actor.Backoff(time.Millisecond, 10*time.Millisecond))
	}
	return []actor.SpawnOption{p.lifetime, actor.Supervise(p.strategy, opts...)}
}

// model says what supervision must do, as OTP does it: which incarnations end and begin, in
// which order. It is written from the documentation and shares nothing with the engine.
type model struct {
	at  time.Duration
	log []string
}

// holder is who holds a post in the model.
type holder struct {
	*post
	above  *holder
	below  []*holder
	own    []time.Duration // failures of this one, for OneForOne
	shared []time.Duration // failures of those below, for the others
}

func (m *model) begin(p *post, above *holder) *holder {
	h := &holder{post: p, above: above}
	m.beginAgain(h)
	return h
}

// beginAgain begins an incarnation, with new actors below it.
func (m *model) beginAgain(h *holder) {
	m.log = append(m.log, fmt.Sprint("begin ", h.id))
	h.below, h.shared = nil, nil
	for _, p := range h.post.below {
		h.below = append(h.below, m.begin(p, h))
	}
}

// end ends an incarnation, those below first.
func (m *model) end(h *holder) {
	for _, b := range slices.Backward(h.below) {
		m.end(b)
	}
	h.below = nil
	m.log = append(m.log, fmt.Sprint("end ", h.id))
}

// remove ends an actor for good.
func (m *model) remove(h *holder) {
	m.end(h)
	h.above.dismiss(h)
}

func (h *holder) dismiss(b *holder) {
	h.below = slices.DeleteFunc(h.below, func(o *holder) bool { return o == b })
}

// stopped is the end of an actor of its own accord.
func (m *model) stopped(h *holder) {
	if h.lifetime == actor.Permanent {
		m.restart(h, -1)
		return
	}
	m.remove(h)
}

// failed is a failure with the error of that number, or -1 for one that nobody knows.
func (m *model) failed(h *holder, fault int) {
	above := h.above
	d := actor.Restart
	if fault >= 0 {
		d = above.decisions[fault]
	}
	switch d {
	case actor.Resume:
	case actor.Stop:
		m.remove(h)
	case actor.Escalate:
		m.escalate(h, fault)
	default:
		if h.lifetime == actor.Temporary {
			m.remove(h)
			return
		}
		m.restart(h, fault)
	}
}

func (m *model) escalate(h *holder, fault int) {
	if h.above.above == nil { // the root
		m.remove(h)
		return
	}
	m.failed(h.above, fault)
}

// restart restarts those whom the strategy names, if the budget is not exhausted.
func (m *model) restart(h *holder, fault int) {
	above := h.above
	counted := &h.own
	if above.strategy != actor.OneForOne {
		counted = &above.shared
	}
	*counted = append(slices.DeleteFunc(*counted, func(t time.Duration) bool { return m.at-t >= above.within }), m.at)
	switch {
	case len(*counted) > above.max && above.stop:
		m.remove(h)
		return
	case len(*counted) > above.max:
		m.escalate(h, fault)
		return
	}
	var members []*holder
	switch above.strategy {
	case actor.OneForOne:
		members = []*holder{h}
	case actor.AllForOne:
		members = slices.Clone(above.below)
	case actor.RestForOne:
		members = slices.Clone(above.below[slices.Index(above.below, h):])
	}
	for _, b := range slices.Backward(members) {
		m.end(b)
	}
	for _, b := range members {
		if b.lifetime == actor.Temporary { // it does not come back with the others
			above.dismiss(b)
			continue
		}
		m.beginAgain(b)
	}
}

// all returns who is there, from the top down.
func (h *holder) all() []*holder {
	var list []*holder
	for _, b := range h.below {
		list = append(append(list, b), b.all()...)
	}
	return list
}

// cast is the same tree of real actors.
type cast struct {
	log  []string
	refs map[int]actor.Ref[int]
}

// member is the actor of a post. It is told the number of the error to fail with, or -1 to
// stop.
type member struct {
	*post
	cast *cast
}

// Init implements actor.Initializer.
func (m *member) Init(ctx *actor.Context[int]) error {
	m.cast.log = append(m.cast.log, fmt.Sprint("begin ", m.id))
	m.cast.refs[m.id] = ctx.Self()
	for _, p := range m.below {
		actor.Spawn[int](ctx, fmt.Sprint(p.id), func() *member { return &member{p, m.cast} }, p.options()...)
	}
	return nil
}

// Receive implements actor.Actor.
func (m *member) Receive(_ *actor.Context[int], fault int) error {
	if fault < 0 {
		return actor.ErrStop
	}
	return faultErrors[fault]
}

// Terminate implements actor.Terminator.
func (m *member) Terminate(*actor.Context[int], error) {
	m.cast.log = append(m.cast.log, fmt.Sprint("end ", m.id))
}

// supervised plays a tree against the model.
func supervised(w *World) {
	r := w.Rand()
	next := 1
	top := drawPost(r, 2, &next)
	root := &holder{post: &post{max: 10, within: time.Minute, decisions: make([]actor.Directive, len(faultErrors))}}
	m := &model{}
	root.below = []*holder{m.begin(top, root)}
	c := &cast{refs: make(map[int]actor.Ref[int])}
	actor.Spawn[int](w.System(), "top", func() *member { return &member{top, c} }, top.options()...)
	for range 12 {
		there := root.all()
		if len(there) == 0 {
			break
		}
		w.Advance(time.Duration(20+r.IntN(400)) * time.Millisecond)
		c.log, m.log, m.at = nil, nil, w.Elapsed()
		h := there[r.IntN(len(there))]
		what := "fail"
		ref := c.refs[h.id]
		switch k := r.IntN(8); k {
		case 0:
			what = "stop from outside"
			ref.Stop()
			m.remove(h)
		case 1:
			what = "kill"
			ref.Kill()
			m.end(h)
			h.above.dismiss(h)
			m.log = nil // nobody terminates
		case 2, 3:
			what = "stop"
			ref.Tell(w.Context(), -1)
			m.stopped(h)
		default:
			k %= len(faultErrors)
			ref.Tell(w.Context(), k)
			m.failed(h, k)
		}
		w.Advance(15 * time.Millisecond) // the backoff
		if !slices.Equal(c.log, m.log) {
			w.Fatalf("%d: %s: got %v, want %v, in the tree %s", h.id, what, c.log, m.log, top)
		}
	}
}

// String prints the tree in one line.
func (p *post) String() string {
	return fmt.Sprintf("{%d: lifetime %d, strategy %d, at most %d, stop %v, decisions %v, below %v}", p.id, p.lifetime, p.strategy, p.max, p.stop, p.decisions, p.below)
}

func TestSupervisionDoesWhatTheModelSays(t *testing.T) {
	Check(t, Options{Runs: 3000, Strategy: Portfolio()}, supervised)
}
