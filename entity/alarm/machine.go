package alarm

// machine is how one rule stands for one entity at one time of the readings. It is a pure
// function of the conditions at each time: whether they were found out in order, or are
// gone through again from the history, gives the same.
type machine struct {
	raised bool
	at     int64 // when it became what it is
	// pending says that the condition for the next transition holds, since when.
	pending bool
	since   int64
}

// turn is a transition of a machine.
type turn struct {
	raised    bool
	since, at int64
}

// wait is how long the condition for the next transition must hold.
func (m *machine) wait(r *rule) int64 {
	if m.raised {
		return r.clearFor
	}
	return r.raiseFor
}

// advance goes on to a time, by which nothing else was measured: what is due happens.
func (m *machine) advance(r *rule, ts int64) (turn, bool) {
	if !m.pending || m.since+m.wait(r) > ts {
		return turn{}, false
	}
	t := turn{raised: !m.raised, since: m.since, at: max(m.since+m.wait(r), m.at)}
	*m = machine{raised: t.raised, at: t.at}
	return t, true
}

// observe takes in whether the condition for the next transition holds from a time on.
// advance has been called for that time.
func (m *machine) observe(r *rule, ts int64, holds bool) (turn, bool) {
	switch {
	case !holds:
		m.pending, m.since = false, 0
		return turn{}, false
	case !m.pending:
		m.pending, m.since = true, ts
	}
	return m.advance(r, ts)
}

// holds reports whether the condition for the next transition is met.
func (m *machine) holds(r *rule, f *frame) bool {
	if !m.raised {
		return r.raise.Match(f, &f.env)
	}
	if r.raise.Match(f, &f.env) {
		return false
	}
	return r.clear == nil || r.clear.Match(f, &f.env)
}
