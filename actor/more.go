package actor

// more holds what belongs to an incarnation and what most actors never need. All of
// it is owned by the turn.
type more[M any] struct {
	timers    map[string]*timer[M]
	watches   map[*watch[M]]struct{}
	errands   map[*errand[M]]struct{}
	behaviors []func(*Context[M], M) error
	stash     []envelope[M]
	idle      *idle[M]
}

// needMore returns c.more, made on first need.
func (c *cell[M]) needMore() *more[M] {
	if c.more == nil {
		c.more = new(more[M])
	}
	return c.more
}

// release ends what the incarnation had under way. What it had stashed goes back to
// the head of the mailbox: the next incarnation, or the dead letters, get it in order.
func (m *more[M]) release(c *cell[M]) {
	for _, t := range m.timers {
		t.cancel(c.sys)
	}
	for w := range m.watches {
		w.active = false
		w.target.forget(w)
	}
	for e := range m.errands {
		e.active = false
	}
	if m.idle != nil {
		m.idle.cancel(c.sys)
	}
	if len(m.stash) > 0 {
		c.box.putFirst(m.stash)
	}
}
