package alarm

// machine is the state of one rule for one entity at one time of the readings. It is a pure
// function of the conditions at each time, so evaluating them in order and replaying them from the
// history give the same result.
type machine struct {
	raised bool
	at     int64 // when it entered this state
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

// advance advances to a time before which nothing else was measured, and makes the transition that
// is due.
func (m *machine) advance(r *rule, ts int64) (turn, bool) {
	if !m.pending || m.since+m.wait(r) > ts {
		return turn{}, false
	}
	t := turn{raised: !m.raised, since: m.since, at: max(m.since+m.wait(r), m.at)}
	*m = machine{raised: t.raised, at: t.at}
	return t, true
}

// observe records whether the condition for the next transition holds from a time on. advance must
// have been called for that time.
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
