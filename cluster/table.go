package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// table is the [actor.Place] of a kind: it finds the handle of a key, and knows where the shards are.
type table[M any] struct {
	node    *Node
	cfg     kindConfig
	spawn   func(at Activation, opts ...actor.SpawnOption) (actor.Ref[M], error)
	virtual *actor.Virtual[M] // set by Serve
	router  *router           // set and used only by its turn
	hot     hot[M]
	parked  parking
	lots    []lot[M]
}

func newTable[M any](n *Node, cfg kindConfig, spawn func(Activation, ...actor.SpawnOption) (actor.Ref[M], error)) *table[M] {
	t := &table[M]{node: n, cfg: cfg, spawn: spawn, lots: make([]lot[M], cfg.shards)}
	t.hot.limit, t.parked.limit = cfg.hot, int64(cfg.park)
	for i := range t.lots {
		l := &t.lots[i]
		l.m = make(map[string]*handle[M])
		if n.alone {
			l.here = true
			l.open.Store(true)
			l.held.Store(1)
		}
	}
	return t
}

// shardOf returns the number of a key's shard: by FNV-1a, which is the same in all processes.
func (t *table[M]) shardOf(key string) int {
	if t.cfg.numbered {
		if n, ok := t.number(key); ok {
			return n
		}
	}
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open:], '}'); n > 1 {
			key = key[open+1 : open+n]
		}
	}
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return int((h ^ h>>32) % uint64(len(t.lots)))
}

// number returns the number that a key is. REQUIRES: the kind is numbered.
func (t *table[M]) number(key string) (n int, ok bool) {
	n, err := strconv.Atoi(key)
	return n, err == nil && n >= 0 && n < len(t.lots) && strconv.Itoa(n) == key
}

// has reports whether the kind has an actor of that key.
func (t *table[M]) has(key string) bool {
	if !t.cfg.numbered {
		return true
	}
	_, ok := t.number(key)
	return ok
}

func (t *table[M]) lot(key string) *lot[M] { return &t.lots[t.shardOf(key)] }

// handle returns the handle of a key, nil if it has none.
func (t *table[M]) handle(key string) *handle[M] { return t.lot(key).handle(key) }

func (l *lot[M]) handle(key string) *handle[M] {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.m[key]
}

// replace returns a handle in place of old, nil for none.
func (t *table[M]) replace(l *lot[M], key string, old *handle[M]) *handle[M] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.m[key]; h != nil && h != old {
		return h
	}
	h := &handle[M]{key: strings.Clone(key), at: -1, parked: &t.parked} // it may be part of something large
	l.m[h.key] = h
	return h
}

// remove forgets a handle that is gone, if it is still the one of its key.
func (t *table[M]) remove(h *handle[M]) {
	l := t.lot(h.key)
	l.mu.Lock()
	if l.m[h.key] == h {
		delete(l.m, h.key)
	}
	look := len(l.m) == 0 && l.giving != nil
	l.mu.Unlock()
	if look {
		t.look(h.key)
	}
}

// look tells the router to look at a key's lot.
func (t *table[M]) look(key string) {
	i := t.shardOf(key)
	t.node.tell(func(ctx *actor.Context[any], _ *router) { t.advance(ctx, i) })
}

func (t *table[M]) len() (n int) {
	for i := range t.lots {
		l := &t.lots[i]
		l.mu.RLock()
		n += len(l.m)
		l.mu.RUnlock()
	}
	return n
}

// Serve implements actor.Place.
func (t *table[M]) Serve(v *actor.Virtual[M]) { t.virtual = v }

// Find implements actor.Place.
func (t *table[M]) Find(key string) (ref actor.Ref[M]) {
	l := t.lot(key)
	if !l.open.Load() {
		return ref
	}
	h := l.handle(key)
	if h == nil {
		return ref
	}
	live := h.live.Load()
	if live == nil {
		return ref
	}
	if !h.used.Load() { // without moving the cache line for each message
		h.used.Store(true)
	}
	return *live
}

// Standing implements actor.Place.
func (t *table[M]) Standing(key string) (ref actor.Ref[M]) {
	if h := t.handle(key); h != nil {
		ref = h.standing()
	}
	return ref
}

// Hold implements actor.Place.
func (t *table[M]) Hold(key string, m actor.Held[M]) error {
	if !t.has(key) {
		return actor.ErrStopped
	}
	l := t.lot(key)
	if t.node.alone {
		return t.deliver(l, m)
	}
	if t.node.closed.Load() {
		return actor.ErrStopped
	}
	w, to, epoch := l.enter(m.Stamp())
	var err error
	switch w {
	case toHandle:
		err = t.deliver(l, m)
	case toPeer:
		err = t.forward(to, epoch, m)
	case toWait:
		return t.park(l, m, peer{})
	}
	if l.leave() {
		t.look(key)
	}
	switch {
	case w != toPeer:
	case errors.Is(err, actor.ErrUnreachable):
		return t.park(l, m, to)
	case errors.Is(err, actor.ErrMailboxFull) && m.Stamp() != 0: // its sender, on another node, would not hear of it
		return t.park(l, m, peer{})
	}
	return err
}

// park makes a message wait, because it is unknown where it goes, or because a peer could not be
// reached.
func (t *table[M]) park(l *lot[M], m actor.Held[M], lost peer) error {
	ok, look := l.park(m, &t.parked, lost)
	if !ok {
		return fmt.Errorf("%d messages wait for an owner of their shard: %w", t.cfg.park, actor.ErrMailboxFull)
	}
	if t.node.closed.Load() { // it may have been there too late to be refused
		t.endLot(l)
		return nil
	}
	if look {
		t.look(m.Key())
	}
	return nil
}

// forward sends a message to another node.
func (t *table[M]) forward(to peer, epoch uint64, m actor.Held[M]) error {
	ref, err := t.virtual.There(to.node, to.inc, epoch, m.Key())
	if err != nil {
		return err
	}
	return m.Forward(ref)
}

// safely calls do and returns a panic as an error. It is for the router, which works for many
// actors and may call methods of their messages.
func safely(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %w", actor.ErrNotAccepted, &actor.PanicError{Value: v})
		}
	}()
	return do()
}

// deliver gives a message to the handle of its key, which makes an activation if there is none.
func (t *table[M]) deliver(l *lot[M], m actor.Held[M]) error {
	key := m.Key()
	h := l.handle(key)
	for {
		if h != nil {
			switch h.add(m) {
			case addedFirst:
				t.pump(h)
				return nil
			case added:
				return nil
			case noRoom:
				return fmt.Errorf("%d messages wait for activations: %w", t.cfg.park, actor.ErrMailboxFull)
			case isGone:
			}
		}
		h = t.replace(l, key, h)
	}
}

// Left implements actor.Place.
func (t *table[M]) Left(key string, m actor.Held[M]) bool {
	h := t.handle(key)
	if h == nil {
		return false // somebody has kept the parent, and spawned with it
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = append(h.left, m)
	return true
}

// Ended implements actor.Place.
func (t *table[M]) Ended(key string) {
	h := t.handle(key)
	if h == nil {
		return // as in Left
	}
	t.hot.remove(h)
	if h.ended() {
		t.pump(h)
	}
}

// pump sends held messages to the activation, which it makes if there is none, until nothing is
// held: then the activation is live, or the handle is gone. It stops when the activation accepts
// nothing any more; the activation's end starts it again. No lock is held while a message is sent,
// since an inline actor would handle it there. REQUIRES: the caller has begun it.
func (t *table[M]) pump(h *handle[M]) {
	through := false
	defer func() {
		if !through { // the user's code has ended the goroutine: nobody else would go on
			t.pump(h)
		}
	}()
	for {
		switch do, mail, to := h.next(); do {
		case doSpawn:
			l := t.lot(h.key)
			if epoch := l.held.Load(); epoch != 0 && t.node.Valid() {
				t.activate(h, l, epoch)
			} else {
				left, held := h.abandon()
				l.yield(slices.Concat(left, held))
				if t.node.closed.Load() { // nobody is there who would look
					t.endLot(l)
				} else {
					t.look(h.key)
				}
			}
		case doSend:
			t.send(h, mail, to)
		case doLeave:
			through = true
			return
		case doRemove:
			t.remove(h)
			through = true
			return
		}
	}
}

// send sends mail to the activation.
func (t *table[M]) send(h *handle[M], mail []actor.Held[M], to actor.Ref[M]) {
	for i := range mail {
		if !mail[i].Send(to) {
			h.close(mail[i:])
			return
		}
	}
}

// Failures of an activation besides the errors of spawn.
var (
	errElsewhere = errors.New("the actor was not spawned with the parent that was given")
	errGoexit    = errors.New("the function that spawns has ended its goroutine")
)

// activate makes an activation. If that fails, the waiting messages are refused.
func (t *table[M]) activate(h *handle[M], l *lot[M], epoch uint64) {
	victim := t.hot.add(h) // before there is an end that would remove it
	var ref actor.Ref[M]
	err := errGoexit // what remains if spawn ends the goroutine
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w\n%s", &actor.PanicError{Value: v}, debug.Stack())
		}
		t.activated(h, l, epoch, ref, err)
		if victim != nil {
			if ref := victim.standing(); !ref.IsZero() {
				ref.Drain()
			}
		}
	}()
	terms := actor.Terms{AtOnce: t.cfg.numbered}
	if !t.node.alone {
		terms.Valid = func() bool { return l.held.Load() == epoch && t.node.Valid() }
	}
	shard := Shard{Group: t.virtual.Name(), Number: t.shardOf(h.key), Epoch: epoch}
	ref, err = t.spawn(Activation{t.virtual.At(h.key, terms), h.key, shard}, t.cfg.spawn...)
	if err == nil && (ref.PID() != t.virtual.PID(h.key) || ref == t.virtual.Ref(h.key)) {
		err = errElsewhere
	}
}

// activated continues with the result of spawn.
func (t *table[M]) activated(h *handle[M], l *lot[M], epoch uint64, ref actor.Ref[M], err error) {
	lives := func() bool { return t.virtual.Spawned(h.key) == ref }
	if err == nil {
		h.open(ref, lives)
		if !t.hot.has(h) { // it was chosen to end before it was there
			ref.Drain()
		}
		if l.held.Load() != epoch { // those that were there have been told already
			t.virtual.Yield(ref)
		}
		return
	}
	left, held := h.abandon()
	if ref = t.virtual.Spawned(h.key); !ref.IsZero() && h.strand(ref, lives) {
		ref.Stop() // it was made before spawn failed, and the next one needs its name
	} else {
		t.hot.remove(h)
	}
	refuse(left, actor.Passivated)
	refuse(held, actor.NoActor)
	if !errors.Is(err, actor.ErrStopped) { // whose system says so itself
		t.virtual.System().Log().Warn("virtual actor was not activated",
			slog.String("kind", t.virtual.Name()), slog.String("key", h.key), slog.String("error", err.Error()))
	}
}

func refuse[M any](mail []actor.Held[M], why actor.Reason) {
	for _, m := range mail {
		m.Refuse(why)
	}
}

// follow implements routed: it records who has the shards.
func (t *table[M]) follow(ctx *actor.Context[any], r *router, m *shardMap) {
	gated := func(old peer) bool { return !r.gone(old) && !t.node.cfg.rules.routes.noGates }
	for i := range t.lots {
		s := &m.slots[i]
		if s.epoch == 0 {
			continue
		}
		mine := s.owner == r.self
		var to peer
		if !mine {
			to = r.peers[s.owner]
		}
		if t.lots[i].reroute(s.epoch, mine, to, gated) {
			t.endAll(i, actor.Ref[M].Stop)
		}
		t.advance(ctx, i)
	}
}

// endAll ends the activations of a shard.
func (t *table[M]) endAll(i int, end func(actor.Ref[M])) {
	l := &t.lots[i]
	l.mu.RLock()
	keys := slices.Sorted(maps.Keys(l.m))
	handles := make([]*handle[M], len(keys))
	for i, key := range keys {
		handles[i] = l.m[key]
	}
	l.mu.RUnlock()
	for _, h := range handles {
		if ref := h.standing(); !ref.IsZero() {
			end(ref)
		}
	}
}

// advance implements routed: it does the pending work of a shard.
func (t *table[M]) advance(ctx *actor.Context[any], i int) {
	l := &t.lots[i]
	for {
		d, done, g, mail := l.next(t.node.Valid())
		switch d {
		case lotRests:
			return
		case lotGiven:
			for _, given := range done {
				given(nil)
			}
		case lotMark:
			t.sendMark(ctx, i, g)
		case lotHere:
			t.unpark(mail)
			for _, p := range mail {
				if p.mark != nil {
					p.mark.keep(nil)
				} else if err := safely(func() error { return t.deliver(l, p.m) }); err != nil {
					p.m.Refuse(actor.Overflowed)
				}
			}
		case lotThere:
			n, err := t.sendOn(ctx, i, mail)
			if t.unpark(mail[:n]); err != nil { // what is put back keeps its places
				cut := errors.Is(err, actor.ErrUnreachable)
				if l.putBack(mail[n:], cut); !cut {
					t.again(ctx, i)
				}
				return
			}
		}
	}
}

// unpark releases the places of messages.
func (t *table[M]) unpark(mail []parcel[M]) {
	for i := range mail {
		if mail[i].counted {
			t.parked.n.Add(-1)
			mail[i].counted = false
		}
	}
}

// again looks at a lot once more when there may be room on the way to its owner.
func (t *table[M]) again(ctx *actor.Context[any], i int) {
	ctx.After(fmt.Sprint("again ", t.virtual.Name(), "/", i), roomPause, stroke(func(ctx *actor.Context[any], _ *router) {
		t.lots[i].retry()
		t.advance(ctx, i)
	}))
}

// sendOn sends waiting messages to the owner. It returns how many it has sent: all, unless the
// owner cannot be reached, or too much is in flight to it.
func (t *table[M]) sendOn(ctx *actor.Context[any], i int, mail []parcel[M]) (int, error) {
	l := &t.lots[i]
	to, epoch := l.to, l.epoch
	for n, p := range mail {
		if p.mark != nil {
			t.sendMarkOn(ctx, i, to, epoch, p.mark)
			continue
		}
		switch err := safely(func() error { return t.forward(to, epoch, p.m) }); {
		case err == nil:
		case errors.Is(err, actor.ErrUnreachable), errors.Is(err, actor.ErrMailboxFull):
			return n, err
		case errors.Is(err, actor.ErrNotAccepted):
			p.m.Refuse(actor.NotAccepted)
		default:
			p.m.Refuse(actor.Stopped)
		}
	}
	return len(mail), nil
}

// sendMark sends the mark of a gate, by way of the former owner. The order of lost messages does
// not matter.
func (t *table[M]) sendMark(ctx *actor.Context[any], i int, g *gate) {
	t.router.ask(ctx, g.via, barrier{Kind: t.virtual.Name(), Shard: i, Stamp: g.stamp, Want: g.want}, func(ctx *actor.Context[any], r *router, err error) {
		full := errors.Is(err, actor.ErrMailboxFull)
		again := (full || errors.Is(err, context.DeadlineExceeded)) && !r.gone(g.via) && time.Since(g.since) < parkTime
		t.lots[i].returned(g, again, err == nil)
		if full && again {
			t.again(ctx, i)
		} else {
			t.advance(ctx, i)
		}
	})
}

// sendMarkOn sends a mark of another node to the owner.
func (t *table[M]) sendMarkOn(ctx *actor.Context[any], i int, to peer, epoch uint64, k *mark) {
	t.router.ask(ctx, to, barrier{Kind: t.virtual.Name(), Shard: i, Stamp: epoch, Want: k.want}, func(ctx *actor.Context[any], _ *router, err error) {
		if errors.Is(err, actor.ErrMailboxFull) { // it has to follow all the same
			t.lots[i].addMark(k)
			t.again(ctx, i)
			return
		}
		k.keep(err)
	})
}

// mark implements routed.
func (t *table[M]) mark(ctx *actor.Context[any], i int, k *mark) {
	t.lots[i].addMark(k)
	t.advance(ctx, i)
}

// tick implements routed.
func (t *table[M]) tick(ctx *actor.Context[any], before time.Time) {
	for i := range t.lots {
		l := &t.lots[i]
		mail, waits := l.expire(before)
		t.unpark(mail)
		refuseParcels(mail, actor.NoConnection)
		if waits || len(mail) > 0 || l.here && !l.open.Load() {
			t.advance(ctx, i)
		}
		t.wake(i)
	}
}

// wake activates the actors of a shard that are always active.
func (t *table[M]) wake(i int) {
	if !t.cfg.numbered {
		return
	}
	l, key := &t.lots[i], strconv.Itoa(i)
	if l.held.Load() == 0 || !t.node.Valid() || l.handle(key) != nil {
		return
	}
	if h := t.replace(l, key, nil); h.want() {
		t.pump(h)
	}
}

// add implements routed.
func (t *table[M]) add(r *router) {
	t.router = r
	for i := range t.lots { // those of a node that is alone are here
		t.wake(i)
	}
}

// settled implements routed.
func (t *table[M]) settled() bool {
	for i := range t.lots {
		if t.lots[i].waits() {
			return false
		}
	}
	return true
}

// shards implements routed.
func (t *table[M]) shards() int { return len(t.lots) }

// end implements routed: the node has ended.
func (t *table[M]) end() {
	for i := range t.lots {
		t.endLot(&t.lots[i])
	}
	t.virtual.Stop()
}

// endLot refuses what waits in a lot.
func (t *table[M]) endLot(l *lot[M]) {
	l.mu.Lock()
	l.close()
	mail := slices.Concat(l.left, l.early, l.queue, l.later)
	done := l.giving
	l.left, l.early, l.queue, l.later, l.giving = nil, nil, nil, nil, nil
	l.mu.Unlock()
	t.unpark(mail)
	refuseParcels(mail, actor.Stopped)
	for _, given := range done {
		given(actor.ErrStopped)
	}
}

func refuseParcels[M any](mail []parcel[M], why actor.Reason) {
	for _, p := range mail {
		if p.mark != nil {
			p.mark.keep(actor.ErrUnreachable)
		} else {
			p.m.Refuse(why)
		}
	}
}

// holder is a kind as the [Holder] of its shards.
type holder[M any] struct{ t *table[M] }

// Versions implements Versioned.
func (h holder[M]) Versions() Versions { return h.t.cfg.versions }

// Take implements Holder.
func (h holder[M]) Take(ctx context.Context, s Shard) error {
	claim := func() error {
		for _, claim := range h.t.cfg.claims {
			if err := claim(ctx, s); err != nil {
				return fmt.Errorf("claim: %w", err)
			}
		}
		return nil
	}
	late := h.t.node.cfg.rules.routes.lateClaims
	if !late {
		if err := claim(); err != nil {
			return err
		}
	}
	err := h.t.node.perform(ctx, func(ctx *actor.Context[any], _ *router, done func(error)) {
		err := h.t.lots[s.Number].take(s.Epoch)
		if err == nil {
			h.t.advance(ctx, s.Number)
			h.t.wake(s.Number)
		}
		done(err)
	})
	if err == nil && late {
		err = claim()
	}
	return err
}

// Give implements Holder.
func (h holder[M]) Give(ctx context.Context, s Shard) error {
	return h.t.node.perform(ctx, func(ctx *actor.Context[any], _ *router, done func(error)) {
		h.t.lots[s.Number].give(done)
		h.t.endAll(s.Number, h.t.virtual.Yield)
		h.t.advance(ctx, s.Number)
	})
}

// Drop implements Holder.
func (h holder[M]) Drop(s Shard) {
	h.t.node.tell(func(*actor.Context[any], *router) {
		if h.t.lots[s.Number].drop(s.Epoch) {
			h.t.endAll(s.Number, actor.Ref[M].Stop)
		}
	})
}
