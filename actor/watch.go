package actor

import "slices"

// Down says that a watched actor has ended. Each [Context.Watch] leads to exactly
// one.
type Down struct {
	PID    PID
	Reason Reason
	Err    error // the failure when the reason is Failed, else nil
}

// watch is one Watch of an actor: the watcher's side of it.
type watch[M any] struct {
	target *core // nil when there was nobody
	pid    PID
	wrap   func(Down) M
	active bool // owned by the watcher's turn
}

// downNote carries a Down through the watcher's mailbox, so that it arrives after
// everything that the target had sent.
type downNote[M any] struct {
	watch *watch[M]
	down  Down
}

// Watch sends the actor a message of its own protocol when the actor with that
// address ends: wrap makes it of the [Down], in the watcher's own turn. It comes
// once for each Watch, never before the target's last message to the watcher, and
// at once, with the reason [NoActor], if there is no such actor. A restart of the
// target is not its end. A watch ends with the watcher's incarnation. For use in
// the actor's own callbacks.
func (ctx *Context[M]) Watch(pid PID, wrap func(Down) M) {
	required(wrap != nil, "Watch: the function that wraps the Down is nil")
	c := ctx.cell()
	if !c.enterRuntime() {
		return
	}
	defer c.exitRuntime()
	w := &watch[M]{pid: pid, wrap: wrap, active: true}
	inc := c.needIncarnation()
	if inc.watches == nil {
		inc.watches = make(map[*watch[M]]struct{})
	}
	inc.watches[w] = struct{}{}
	down := func(d Down) { c.post(&envelope[M]{with: &downNote[M]{watch: w, down: d}}, nil) }
	if pid.node == c.sys().name {
		w.target = c.sys().actors.find(pid.id)
	}
	if w.target == nil || !w.target.watchedBy(watcher{note: w, down: down}) {
		w.target = nil
		down(Down{PID: pid, Reason: NoActor})
	}
}

// Unwatch ends all watches of that address. A Down that waits in the mailbox
// already is not delivered any more. For use in the actor's own callbacks.
func (ctx *Context[M]) Unwatch(pid PID) {
	c := ctx.cell()
	if !c.enterRuntime() {
		return
	}
	defer c.exitRuntime()
	m := c.peekIncarnation()
	if m == nil {
		return
	}
	for w := range m.watches {
		if w.pid == pid {
			w.active = false
			delete(c.mailbox.Load().inc.watches, w)
			w.target.forget(w)
		}
	}
}

func (n *downNote[M]) origin() string { return "Down of " + n.down.PID.Path() }

func (n *downNote[M]) message(c *cell[M]) (msg M, ok bool) {
	w := n.watch
	if !w.active {
		return msg, false
	}
	w.active = false
	delete(c.mailbox.Load().inc.watches, w)
	c.enterUser()
	msg = w.wrap(n.down)
	c.leaveUser()
	return msg, true
}

// watchedBy adds a watcher; it reports false when c is gone.
func (c *core) watchedBy(w watcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == stopped {
		return false
	}
	ext := c.needExtLocked()
	ext.watchers = append(ext.watchers, w)
	return true
}

// forget drops the watcher with that note. c may be nil.
func (c *core) forget(note any) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return
	}
	list := c.ext.watchers
	for i := range list {
		if list[i].note == note {
			c.ext.watchers = slices.Delete(list, i, i+1) // in their order: a seed replays it
			return
		}
	}
}
