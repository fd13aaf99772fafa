package actor

import "iter"

// Down says that a watched actor has ended. Each [Context.Watch] leads to exactly
// one.
type Down struct {
	PID    PID
	Reason Reason
	Err    error // the failure when the reason is Failed, else nil
}

// isNormal reports whether the actor has ended as it should.
func (d *Down) isNormal() bool { return d.Reason == Stopped || d.Reason == Passivated }

// watch is one Watch of an actor: the watcher's side of it. Both sides end one of many watches
// without looking at the others.
type watch[M any] struct {
	watcher
	target      *core // nil when there was nobody
	pid         PID
	wrap        func(Down) M
	active      bool      // owned by the watcher's turn
	kept        bool      // of the incarnation before, with which the target has ended; owned by the watcher's turn
	older, next *watch[M] // of the same address, in watches; owned by the watcher's turn
}

// watches has the watches of an incarnation: for each address the last one. Owned by the turn.
type watches[M any] map[PID]*watch[M]

func (m watches[M]) add(w *watch[M]) {
	if last := m[w.pid]; last != nil {
		w.older, last.next = last, w
	}
	m[w.pid] = w
}

func (m watches[M]) remove(w *watch[M]) {
	switch {
	case w.next != nil:
		w.next.older = w.older
	case w.older != nil:
		m[w.pid] = w.older
	default:
		delete(m, w.pid)
	}
	if w.older != nil {
		w.older.next = w.next
	}
	w.older, w.next = nil, nil
}

// of iterates over the watches of an address. The current one may be removed.
func (m watches[M]) of(pid PID) iter.Seq[*watch[M]] {
	return func(yield func(*watch[M]) bool) {
		for w := m[pid]; w != nil; {
			older := w.older
			if !yield(w) {
				return
			}
			w = older
		}
	}
}

// end ends the watches that over says.
func (m watches[M]) end(over func(w *watch[M]) bool) {
	for pid := range m {
		m.endOf(pid, over)
	}
}

// endOf ends those of an address.
func (m watches[M]) endOf(pid PID, over func(w *watch[M]) bool) {
	for w := range m.of(pid) {
		if over(w) {
			w.active = false
			m.remove(w)
			w.target.forget(&w.watcher)
		}
	}
}

// keptOf returns a watch of that address which the incarnation before has left.
func (m watches[M]) keptOf(pid PID) *watch[M] {
	for w := range m.of(pid) {
		if w.kept {
			return w
		}
	}
	return nil
}

// endKept ends the watches that were kept over a restart together with others, but those of who has
// ended meanwhile: their Downs are for the incarnation to come. REQUIRES: the turn owns c.
func (c *cell[M]) endKept() {
	if m := c.peekIncarnation(); m != nil {
		m.watches.end(func(w *watch[M]) bool { return w.kept && w.target.flags.Load()&ended == 0 })
	}
}

// watcher is somebody who wants to know when an actor ends, in the list of that actor.
type watcher struct {
	links[watcher]              // guarded by the watched actor's mu
	down           func(d Down) // puts the Down into the watcher's mailbox
}

// watchers is who watches an actor, in the order in which they came: a seed replays it. Guarded by
// that actor's mu.
type watchers struct{ linkedList[watcher, *watcher] }

// tell tells all. REQUIRES: the list was taken from an actor that has stopped, so that nobody else
// touches it.
func (l *watchers) tell(d Down) {
	for w := l.first; w != nil; {
		next := w.next
		w.prev, w.next = nil, nil
		w.down(d)
		w = next
	}
}

// downNote carries a Down through the watcher's mailbox, so that it arrives after
// everything that the target had sent.
type downNote[M any] struct {
	watch *watch[M]
	down  Down
}

// Watch sends the actor a message of its own protocol when the actor with that address ends: wrap makes
// it from the [Down], in the watcher's own turn. It comes once for each Watch, never before the target's
// last message to the watcher, and at once, with the reason [NoActor], if there is no such actor. A
// restart of the target is not its end. A watch ends with the watcher's incarnation, unless that ends in
// a restart together with its siblings ([AllForOne], [RestForOne]) and the target is one of them that
// does not come back: then the next incarnation gets the Down, once, even if it watches the target again.
// For use in the actor's own callbacks.
func (ctx *Context[M]) Watch(pid PID, wrap func(Down) M) {
	required(wrap != nil, "Watch: the function that wraps the Down is nil")
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	inc := c.needIncarnation()
	if inc.watches == nil {
		inc.watches = make(watches[M])
	}
	if w := inc.watches.keptOf(pid); w != nil { // its Down is on the way
		w.wrap, w.kept = wrap, false
		return
	}
	w := &watch[M]{pid: pid, wrap: wrap, active: true}
	inc.watches.add(w)
	w.down = func(d Down) { c.post(&envelope[M]{with: &downNote[M]{watch: w, down: d}}, nil) }
	var none Down
	if w.target, none = c.core.sys().watchable(pid); w.target == nil || !w.target.watchedBy(&w.watcher) {
		w.target = nil
		w.down(none)
	}
}

// Unwatch ends all watches of that address. A Down that is already in the mailbox is not
// delivered. For use in the actor's own callbacks.
func (ctx *Context[M]) Unwatch(pid PID) {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	m := c.peekIncarnation()
	if m == nil {
		return
	}
	m.watches.endOf(pid, func(*watch[M]) bool { return true })
}

func (n *downNote[M]) origin() string { return "Down of " + n.down.PID.Path() }

func (n *downNote[M]) message(c *cell[M]) (msg M, ok bool) {
	w := n.watch
	if !w.active {
		return msg, false
	}
	w.active = false
	c.mailbox().inc.watches.remove(w)
	c.core.enterUser()
	msg = w.wrap(n.down)
	c.core.leaveUser()
	return msg, true
}

// watchable returns the actor with that address, nil if there is none, and what to say if there is
// none, or not any more.
func (s *System) watchable(pid PID) (c *core, none Down) {
	none = Down{PID: pid, Reason: NoActor}
	if pid.node == virtualNode {
		if _, _, ok := s.virtual(pid); ok {
			none.Reason = Passivated
		}
		return s.local(pid), none
	}
	if pid.node == s.name || pid.IsZero() || s.far.Load() == nil {
		return s.local(pid), none
	}
	c, err := s.elsewhere(pid)
	if err != nil {
		return nil, Down{PID: pid, Reason: NoConnection, Err: err}
	}
	return c, none
}

// watchedBy adds a watcher; it reports false when c is gone.
func (c *core) watchedBy(w *watcher) bool {
	if p := proxyOf(c); p != nil {
		return p.watchedBy(w)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopped {
		return false
	}
	c.needExtLocked().watchers.push(w)
	return true
}

// forget drops a watcher, which need not have been added. c may be nil.
func (c *core) forget(w *watcher) {
	if c == nil {
		return
	}
	if p := proxyOf(c); p != nil {
		p.forget(w)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != stopped && c.ext != nil { // when it has stopped its Down is on the way
		c.ext.watchers.remove(w)
	}
}
