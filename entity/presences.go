package entity

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// presences knows which devices are online: it has one present for each entity whose device is
// online or has a connection, whether the entity is hot or cold. A message costs no more than
// finding the present and noting the time. When a device may have gone offline, the wheel says so,
// and the entity's actor is asked to look: it decides, and makes the change durable.
//
// The entities are sharded so that devices do not contend.
type presences struct {
	rt                       *Runtime
	timeout, grace, comeback time.Duration
	seed                     maphash.Seed
	shards                   [presenceShards]presenceShard
	wake, save               chan struct{}

	tracked, placed   atomic.Int64 // presents in all shards, and those in their wheels
	online, connected atomic.Int64 // presents in these states

	asking chan struct{} // holds an element for each actor being asked
	saving chan struct{} // holds an element while times are being saved

	mu    sync.Mutex
	rules map[string]*presenceRule // by type, guarded by mu
	order []string                 // entities to ask, guarded by mu
	saves []SeenAt                 // times to save, guarded by mu
}

type presenceShard struct {
	mu    sync.Mutex
	byID  map[string]*present // guarded by mu
	wheel wheel               // guarded by mu
}

// presenceRule says when a device of a type is offline, in milliseconds. timeout is 0 if it may be
// silent forever.
type presenceRule struct{ timeout, grace atomic.Int64 }

const (
	presenceShards = 32
	// presenceAsks bounds the actors that are asked at a time. If a million devices disappear at
	// once, their entities have to be loaded from the store, and anything else that needs room in
	// the window waits behind no more than these.
	presenceAsks = 1024
	// savePage is how many times are saved at once.
	savePage = 1000
)

func newPresences(rt *Runtime) *presences {
	p := &presences{
		rt: rt, timeout: rt.cfg.PresenceTimeout, grace: rt.cfg.PresenceGrace, comeback: rt.cfg.PresenceReturn, seed: maphash.MakeSeed(),
		wake: make(chan struct{}, 1), save: make(chan struct{}, 1), asking: make(chan struct{}, presenceAsks), saving: make(chan struct{}, 1), rules: make(map[string]*presenceRule),
	}
	for i := range p.shards {
		p.shards[i].byID = make(map[string]*present)
	}
	return p
}

// now returns the monotonic time in milliseconds: it neither jumps nor goes back.
func (p *presences) now() int64 { return p.rt.nanos() / int64(time.Millisecond) }

func (p *presences) shard(id string) *presenceShard {
	return &p.shards[maphash.String(p.seed, id)%presenceShards]
}

// Seen says that the device of an entity has sent something that is kept: a reading, a report, an
// answer to a command. It does not block and is cheap enough to be called for each message. An
// entity that does not exist has no presence.
func (r *Runtime) Seen(id string) { r.presences.seen(id) }

// SeenLast is Seen for what a device has sent over a connection that has since ended: the device is
// online for the grace period, not for the timeout.
func (r *Runtime) SeenLast(id string) { r.presences.seenLast(id) }

// Connect says that the device of an entity has a connection of its own: it is online until end is
// called, and for the grace period after that. The entity need not exist yet. end may be called
// more than once. Neither blocks.
func (r *Runtime) Connect(id string) (end func()) { return r.presences.connect(id, true) }

// ConnectVia is Connect for the connection of a gateway that has spoken for the device. It does not
// keep a device online that has been silent for longer than the timeout. When the gateway is gone,
// the timeout continues, since a gateway that reconnects does not report on its devices until they
// speak; for devices that may be silent forever, the grace period begins.
func (r *Runtime) ConnectVia(id string) (end func()) { return r.presences.connect(id, false) }

func (p *presences) seen(id string) {
	wall, now := p.rt.clock.stamp(), p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := p.find(s, id)
	if e == nil {
		return
	}
	e.seen, e.heard, e.spoke = wall, now, true
	switch {
	case !e.online:
		p.ask(e)
	case e.slot == 0:
		p.review(s, e, now)
	}
}

func (p *presences) seenLast(id string) {
	wall, now := p.rt.clock.stamp(), p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, added := p.find(s, id)
	if e == nil {
		return
	}
	if added {
		e.spoke = false
	}
	e.seen, e.heard = wall, now
	if !e.online {
		e.until = max(e.until, now+e.rule.grace.Load())
	}
	p.review(s, e, now)
}

// find returns the present of an entity, making one if need be; it returns nil if there are too
// many. REQUIRES: s.mu held.
func (p *presences) find(s *presenceShard, id string) (e *present, added bool) {
	if e = s.byID[id]; e != nil {
		return e, false
	}
	e = p.add(s, id)
	return e, e != nil
}

// add makes a present, unless there are too many. REQUIRES: s.mu held.
func (p *presences) add(s *presenceShard, id string) *present {
	if p.tracked.Load() >= MaxPresent {
		return nil
	}
	p.tracked.Add(1)
	id = strings.Clone(id) // it may be part of a packet
	e := &present{id: id, rule: p.ruleOf(""), heard: never, until: never, spoke: true}
	s.byID[id] = e
	return e
}

// drop removes a present. REQUIRES: s.mu held.
func (p *presences) drop(s *presenceShard, e *present) {
	p.set(e, false, false)
	p.remove(s, e)
	delete(s.byID, e.id)
	p.tracked.Add(-1)
}

// set records what the actor has determined. REQUIRES: the shard's mu held.
func (p *presences) set(e *present, online, connected bool) {
	count := func(n *atomic.Int64, was, is bool) {
		if is && !was {
			n.Add(1)
		} else if was && !is {
			n.Add(-1)
		}
	}
	count(&p.online, e.online, online)
	count(&p.connected, e.connected, connected)
	e.online, e.connected = online, connected
}

// ask requests that the entity's actor look soon. REQUIRES: the shard's mu held.
func (p *presences) ask(e *present) {
	if e.asked {
		return
	}
	e.asked = true
	p.mu.Lock()
	p.order = append(p.order, e.id)
	p.mu.Unlock()
	nudge(p.wake)
}

// review checks a present that has changed. REQUIRES: s.mu held.
func (p *presences) review(s *presenceShard, e *present, now int64) {
	online, connected, _ := e.judge(now)
	switch {
	case e.asked: // the actor will place it
	case online != e.online || connected != e.connected:
		p.ask(e)
	default:
		p.place(s, e, now)
	}
}

// place puts a present into the wheel if its state can change by itself. REQUIRES: s.mu held.
func (p *presences) place(s *presenceShard, e *present, now int64) {
	_, _, at := e.judge(now)
	p.remove(s, e)
	if at == forever && e.seen <= e.saved {
		return
	}
	// It may send something at any time from now on, and is not placed again then.
	p.placeAt(s, e, min(at, now+SeenEvery.Milliseconds()), now)
}

// placeAt REQUIRES: s.mu held.
func (p *presences) placeAt(s *presenceShard, e *present, at, now int64) {
	if e.slot == 0 && p.placed.Add(1) == 1 {
		nudge(p.wake)
	}
	s.wheel.place(e, at, now)
}

// remove REQUIRES: s.mu held.
func (p *presences) remove(s *presenceShard, e *present) {
	if e.slot != 0 {
		s.wheel.remove(e)
		p.placed.Add(-1)
	}
}

func (p *presences) connect(id string, own bool) (end func()) {
	now := p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := p.find(s, id)
	if e == nil {
		return func() {}
	}
	*e.links(own)++
	p.review(s, e, now)
	return sync.OnceFunc(func() { p.disconnect(s, e, own) })
}

// links counts the connections of a kind.
func (e *present) links(own bool) *int32 {
	if own {
		return &e.own
	}
	return &e.via
}

func (p *presences) disconnect(s *presenceShard, e *present, own bool) {
	now := p.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	*e.links(own)--
	switch gone := e.own+e.via == 0; {
	case own && e.own == 0:
		e.until, e.spoke = now+e.rule.grace.Load(), e.spoke && !gone
	case gone && e.rule.timeout.Load() == 0:
		e.until, e.spoke = now+e.rule.grace.Load(), false
	}
	if e.own+e.via == 0 && !e.online && !e.asked { // the device is silent, or there is no such entity
		p.drop(s, e)
		return
	}
	p.review(s, e, now)
}

// forget removes the presence of an entity that was deleted; the connections of its device are
// remembered until they end.
func (p *presences) forget(id string) {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return
	}
	if e.own+e.via == 0 {
		p.drop(s, e)
		return
	}
	p.set(e, false, false)
	p.remove(s, e)
	e.heard, e.until, e.seen, e.saved, e.spoke, e.asked = never, never, 0, 0, true, false
}

// made checks an entity that has just been created, in case its device already has a connection.
func (p *presences) made(id string) {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil && !e.online {
		p.ask(e)
	}
}

// decide returns the presence of an entity, given the previous one. changed says that it has to be
// made durable.
func (p *presences) decide(id string, was Presence, rule *presenceRule) (is Presence, changed bool) {
	wall, now := p.rt.clock.stamp(), p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil {
		return was, false
	}
	e.asked, e.rule = false, rule
	online, connected, _ := e.judge(now)
	is = Presence{State: was.State, Connected: connected, Since: was.Since, Seen: max(was.Seen, e.seen)}
	switch {
	case online && was.State != PresenceOnline:
		is.State, is.Since = PresenceOnline, wall
		p.rt.count.presences[PresenceOnline].Add(1)
	case !online && was.State == PresenceOnline:
		is.State, is.Since = PresenceOffline, wall
		p.rt.count.presences[PresenceOffline].Add(1)
	}
	leaves := !online && e.own+e.via == 0
	changed = is.State != was.State || is.Connected != was.Connected || leaves && is.Seen != was.Seen
	if changed {
		e.saved = is.Seen
	}
	if leaves {
		p.drop(s, e)
		return is, changed
	}
	p.set(e, online, connected)
	p.place(s, e, now)
	return is, changed
}

// absent is decide for an entity that does not exist.
func (p *presences) absent(id string) {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		e.asked = false
		if e.own+e.via == 0 {
			p.drop(s, e)
		}
	}
}

// again asks an entity once more after a while if asking it has failed.
func (p *presences) again(id string) {
	now := p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil && e.asked {
		e.asked = false
		p.placeAt(s, e, now+commanderRetry.Milliseconds(), now)
	}
}

// live returns a committed presence with the time at which the device was last heard from.
func (p *presences) live(id string, stored Presence) Presence {
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		stored.Seen = max(stored.Seen, e.seen)
	}
	return stored
}

// recall reads from the store which devices were online when it was closed. Each has some time to
// come back.
func (p *presences) recall(ctx context.Context) error {
	wall, now := p.rt.clock.stamp(), p.now()
	for after := ""; ; {
		page, err := p.rt.store.Online(ctx, after, changePage)
		if err != nil {
			return fmt.Errorf("read who is online: %w", err)
		}
		for i := range page {
			p.recallOne(&page[i], wall, now)
		}
		if len(page) < changePage {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

func (p *presences) recallOne(o *OnlineEntity, wall, now int64) {
	s := p.shard(o.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := p.add(s, o.ID)
	if e == nil {
		return
	}
	e.rule, e.seen, e.saved, e.spoke = p.ruleOf(o.Type), o.Seen, o.Seen, !o.Connected
	if o.Seen != 0 {
		// After a crash, Seen may be out of date by SeenEvery; no device must be offline too early.
		e.heard = now - max(0, wall-o.Seen-SeenEvery.Milliseconds())
	}
	e.until = now + p.comeback.Milliseconds()
	p.set(e, true, o.Connected)
	p.place(s, e, now)
}

// Run works until the runtime is closed.
func (p *presences) Run() {
	for {
		now := p.now()
		if p.placed.Load() > 0 {
			for i := range p.shards {
				p.advance(&p.shards[i], now)
			}
		}
		p.askAll()
		wait := commanderNap
		if p.placed.Load() > 0 {
			wait = time.Duration(wheelTick-p.now()%wheelTick) * time.Millisecond
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.rt.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// advance checks the presents of a shard whose time has come.
func (p *presences) advance(s *presenceShard, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wheel.advance(now, func(e *present) {
		p.placed.Add(-1)
		if p.review(s, e, now); e.asked {
			return
		}
		if e.seen > e.saved {
			e.saved = e.seen
			p.mu.Lock()
			if len(p.saves) < MaxPresent { // the store may not answer
				p.saves = append(p.saves, SeenAt{e.id, e.seen})
			}
			p.mu.Unlock()
			nudge(p.save)
			p.place(s, e, now)
		}
	})
}

// askAll asks the entities in order. It waits while too many are being asked.
func (p *presences) askAll() {
	for {
		p.mu.Lock()
		if len(p.order) == 0 {
			p.order = nil
			p.mu.Unlock()
			return
		}
		id := p.order[0]
		p.order = p.order[1:]
		p.mu.Unlock()
		select {
		case p.asking <- struct{}{}:
		case <-p.rt.ctx.Done():
			return
		}
		p.askOne(id)
	}
}

func (p *presences) askOne(id string) {
	d := &delivery{look: true, cost: editCost, own: true}
	d.done = func(err error) {
		<-p.asking
		if err != nil {
			p.again(id)
		}
	}
	if p.rt.send(p.rt.ctx, id, sourceKey{}, d) != nil {
		<-p.asking
		p.again(id)
	}
}

// Save writes to the store when devices were last heard from, until the runtime is closed.
func (p *presences) Save() {
	for {
		select {
		case <-p.save:
		case <-p.rt.ctx.Done():
			return
		}
		if err := p.saveAll(p.rt.ctx); err != nil && p.rt.ctx.Err() == nil {
			p.rt.log.LogAttrs(p.rt.ctx, slog.LevelWarn, "when devices were last heard of cannot be saved; the next time, or a change of the presence, is", slog.Any("error", err))
		}
	}
}

// saveAll saves the times in saves, after any save already running.
func (p *presences) saveAll(ctx context.Context) error {
	select {
	case p.saving <- struct{}{}:
		defer func() { <-p.saving }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p.mu.Lock()
	list := p.saves
	p.saves = nil
	p.mu.Unlock()
	for len(list) > 0 {
		n := min(savePage, len(list))
		if err := p.rt.read(ctx, func(ctx context.Context) error { return p.rt.store.SaveSeen(ctx, list[:n]) }); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// finish saves all unsaved times when the runtime closes.
func (p *presences) finish(ctx context.Context) error {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		p.mu.Lock()
		for _, e := range s.byID {
			if e.online && e.seen > e.saved {
				p.saves = append(p.saves, SeenAt{e.id, e.seen})
			}
		}
		p.mu.Unlock()
		s.mu.Unlock()
		if err := p.saveAll(ctx); err != nil {
			return fmt.Errorf("save when devices were last heard of: %w", err)
		}
	}
	return nil
}

// ruleOf returns the rule of a type, "" for none.
func (p *presences) ruleOf(typ string) *presenceRule {
	p.mu.Lock()
	defer p.mu.Unlock()
	rule := p.rules[typ]
	if rule == nil {
		rule = new(presenceRule)
		p.read(typ, rule)
		p.rules[typ] = rule
	}
	return rule
}

// read reads the rule of a type and reports whether it has changed.
func (p *presences) read(typ string, rule *presenceRule) (changed bool) {
	timeout, grace := p.timeout, p.grace
	if t := p.rt.types.current.Load().resolved[typ]; t != nil {
		timeout, grace = t.Presence.TimeoutOr(timeout), t.Presence.GraceOr(grace)
	}
	was, wasGrace := rule.timeout.Swap(timeout.Milliseconds()), rule.grace.Swap(grace.Milliseconds())
	return was != timeout.Milliseconds() || wasGrace != grace.Milliseconds()
}

// retype makes the entities follow the present rules of their types.
func (p *presences) retype() {
	p.mu.Lock()
	changed := make(map[*presenceRule]bool)
	for typ, rule := range p.rules {
		if p.read(typ, rule) {
			changed[rule] = true
		}
	}
	p.mu.Unlock()
	if len(changed) == 0 {
		return
	}
	now := p.now()
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		for _, e := range s.byID {
			if changed[e.rule] {
				p.review(s, e, now)
			}
		}
		s.mu.Unlock()
	}
}

// follow makes an entity follow the rule of its new type.
func (p *presences) follow(id, typ string) {
	rule, now := p.ruleOf(typ), p.now()
	s := p.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		e.rule = rule
		p.review(s, e, now)
	}
}

// look determines whether the presence of the entity has changed.
func (e *entityActor) look(d *delivery) {
	if e.state.created == 0 {
		e.rt.presences.absent(e.h.id)
		return
	}
	is, changed := e.rt.presences.decide(e.h.id, e.state.presence, e.rt.presences.ruleOf(e.state.typ))
	if !changed {
		return
	}
	e.state.presence = is
	d.presence, d.ts = &is, e.rt.clock.stamp()
	d.created, d.num = e.state.created, e.num
}
