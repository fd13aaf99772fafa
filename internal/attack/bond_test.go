package attack_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// pair is two actors, of which one may have linked itself with the other.
type pair struct{ a, b *node }

func pairOf(a, b *node) pair {
	if a.index > b.index {
		a, b = b, a
	}
	return pair{a, b}
}

// bond is what is known of the links of a pair. Guarded by the world's mu.
type bond struct {
	calls map[*node]int // of Link, by who has called it
	links int           // since an Unlink that was in time
	under int           // calls under way
}

func (w *world) bond(a, b *node) *bond {
	at := w.bonds[pairOf(a, b)]
	if at == nil {
		at = &bond{calls: make(map[*node]int)}
		w.bonds[pairOf(a, b)] = at
	}
	return at
}

// doBond links, or takes that or a watch back, or changes the handler.
func (p *player) doBond(ctx *actor.Context[mail], r *rand.Rand) {
	n, w := p.n, p.n.w
	to := w.pick(nil, r)
	if to == nil || to == n {
		return
	}
	switch r.IntN(8) {
	case 0:
		p.doLink(ctx, to)
	case 1:
		p.doUnlink(ctx, to)
	case 2, 3:
		p.doWatch(ctx, r)
	case 4:
		w.mu.Lock()
		for _, x := range w.watches {
			if x.by.n == n && x.to == to {
				x.over.Store(true)
			}
		}
		w.mu.Unlock()
		ctx.Unwatch(to.ref.PID())
	default:
		p.doBecome(ctx, r)
	}
}

func (p *player) doLink(ctx *actor.Context[mail], to *node) {
	n, w := p.n, p.n.w
	w.mu.Lock()
	at := w.bond(n, to)
	at.calls[n]++
	at.links++
	at.under++
	w.mu.Unlock()
	ctx.Link(to.ref.PID())
	w.mu.Lock()
	defer w.mu.Unlock()
	at.under--
	w.links = append(w.links, link{p, to})
}

// link is a call of Link that has returned.
type link struct {
	by *player
	to *node
}

func (p *player) doUnlink(ctx *actor.Context[mail], to *node) {
	n, w := p.n, p.n.w
	w.mu.Lock()
	at := w.bond(n, to)
	links, sure := at.links, at.under == 0
	for i, l := range w.links {
		if l.by != nil && (l.by.n == n && l.to == to || l.by.n == to && l.to == n) {
			w.links[i] = link{}
		}
	}
	w.mu.Unlock()
	ctx.Unlink(to.ref.PID())
	sure = sure && !to.ended() && !n.mayBeKilled() // else what the handler does may have no effect
	w.mu.Lock()
	defer w.mu.Unlock()
	if sure && at.links == links && at.under == 0 {
		at.links = 0
	}
}

// doBecome changes what handles the next message.
func (p *player) doBecome(ctx *actor.Context[mail], r *rand.Rand) {
	n := len(p.behaviors)
	p.born++
	id := p.born
	receive := func(ctx *actor.Context[mail], m mail) error {
		p.handledBy(id)
		return p.receive(ctx, m)
	}
	switch r.IntN(3) {
	case 0:
		ctx.Become(receive)
		p.behaviors = append(p.behaviors[:max(0, n-1)], id)
	case 1:
		ctx.BecomeStacked(receive)
		p.behaviors = append(p.behaviors, id)
	default:
		ctx.Unbecome()
		p.behaviors = p.behaviors[:max(0, n-1)]
	}
}

// handledBy checks that the message has come to the handler of the last Become, 0 for Receive.
func (p *player) handledBy(id int) {
	want := 0
	if n := len(p.behaviors); n > 0 {
		want = p.behaviors[n-1]
	}
	if id != want {
		p.n.w.Report("become: %s handles with %d, and not with %d", p.n, id, want)
	}
}

// hearFailure is told of the failures of all actors.
func (w *world) hearFailure(_ *actor.Context[actor.ActorFailed], e actor.ActorFailed) error {
	w.heard.Add(1)
	if pe := (*actor.PanicError)(nil); errors.As(e.Err, &pe) && pe.Value != "planned" {
		w.Report("panic: %s: %v\n%s", e.PID, pe, pe.Stack)
	}
	if !errors.Is(e.Err, actor.ErrLinked) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exits[e.PID] = append(w.exits[e.PID], e.Err.Error())
	return nil
}

// exitsBy returns how often a has failed because of b. REQUIRES: w.mu held.
func (w *world) exitsBy(a, b *node) (n int) {
	for _, text := range w.exits[a.ref.PID()] {
		if strings.HasPrefix(text, fmt.Sprintf("%s: %s: ", actor.ErrLinked, b.ref.PID())) {
			n++
		}
	}
	return n
}

// checkLinks waits until those who live have failed with those whom they are linked to.
func (w *world) checkLinks() bool {
	var missing link
	ok := w.control.until(patience, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, l := range w.links {
			if l.by == nil {
				continue
			}
			missing = l
			for _, side := range []link{l, {by: l.to.lastLife(), to: l.by.n}} {
				if side.by == nil || w.linkHolds(side, l) {
					continue
				}
				return false
			}
		}
		return true
	})
	if !ok {
		w.Report("link: of %s and %s one has ended, and the other has not failed", missing.by.n, missing.to)
	}
	return ok
}

// linkHolds reports whether who lives has failed if the other has ended abnormally. REQUIRES: w.mu held.
func (w *world) linkHolds(side, l link) bool {
	events := w.stops[side.to.ref.PID()]
	if len(events) == 0 || events[0].Reason == actor.Stopped || !side.by.lives() || side.by.restarted() || l.by.restarted() {
		return true
	}
	return w.exitsBy(side.by.n, side.to) > 0
}

// judgeLinks checks, when all have ended, that who has failed was linked.
func (w *world) judgeLinks() {
	w.mu.Lock()
	var found []string
	for _, a := range w.all() {
		for _, b := range w.all() {
			n := w.exitsBy(a, b)
			if n == 0 {
				continue
			}
			at := w.bonds[pairOf(a, b)]
			events := w.stops[b.ref.PID()]
			normal := len(events) > 0 && events[0].Reason == actor.Stopped
			switch {
			case at == nil || at.links == 0:
				found = append(found, fmt.Sprintf("link: %s has failed because of %s, and is not linked", a, b))
			case n > at.calls[a]+min(1, at.calls[b]):
				found = append(found, fmt.Sprintf("link: %s has failed %d times because of %s: %v", a, n, b, at.calls))
			case normal && at.calls[a] == 0:
				found = append(found, fmt.Sprintf("link: %s has failed because of %s, which has ended as it should", a, b))
			}
		}
	}
	w.mu.Unlock()
	for _, f := range found {
		w.Report("%s", f)
	}
}

// lastLife returns the incarnation that there was last, nil if there was none.
func (n *node) lastLife() *player {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.lives) == 0 {
		return nil
	}
	return n.lives[len(n.lives)-1]
}

// restarted reports whether its actor has had another incarnation: while one begins a link has no effect.
func (p *player) restarted() bool {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	return len(p.n.lives) > 1
}
