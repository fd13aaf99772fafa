package alarm

import "context"

// A replay reads the history, which is ahead of the changes. Readings that it has seen will still
// come as changes, and would then be late: if many wait, each would lead to another replay with the
// same result. So the place up to which the history is known to go is kept until the changes have
// reached it; a change before that place, with a time that was replayed, needs no further work.

// lead is a place among the changes up to which the history goes.
type lead struct {
	head string // a cursor
	over bool   // the changes have got there
}

// taken is the range of time that a replay of a rule has covered, both ends included.
type taken struct {
	rule     *rule
	from, to int64
	lead     *lead
}

// waits reports whether some of its readings may still come as changes.
func (x *taken) waits() bool { return x.lead != nil && !x.lead.over }

// leadNow returns the place up to which the history goes now, or went when this step first asked.
func (e *engine) leadNow(ctx context.Context) (*lead, error) {
	if e.lead != nil {
		return e.lead, nil
	}
	head, err := e.head(ctx)
	if err != nil {
		return nil, err
	}
	e.lead = &lead{head: head, over: e.place.Cursor == "" || e.place.Cursor == head}
	if !e.lead.over {
		e.leads = append(e.leads, e.lead)
	}
	return e.lead, nil
}

// endLeads records that it is unknown when the changes reach a place.
func (e *engine) endLeads() {
	for _, l := range e.leads {
		l.over = true
	}
	e.leads = nil
}

// took records the range that a finished replay has covered.
func (s *subject) took(p *replay) {
	s.forgetTaken()
	if p.lead.over {
		return
	}
	x := taken{p.st.rule, p.span.From, p.at, p.lead}
	for i := range s.taken {
		if s.taken[i].rule == x.rule {
			s.taken[i] = x
			return
		}
	}
	s.taken = append(s.taken, x)
}

// forgetTaken forgets what the changes have got to.
func (s *subject) forgetTaken() {
	kept := s.taken[:0]
	for _, x := range s.taken {
		if x.waits() {
			kept = append(kept, x)
		}
	}
	if s.taken = kept; len(kept) == 0 {
		s.taken = nil
	}
}

// tookIn reports whether a replay has already seen a reading that comes as a change only now.
func (s *subject) tookIn(r *rule, ts int64) bool {
	if s.taken == nil {
		return false
	}
	s.forgetTaken()
	for _, x := range s.taken {
		if x.rule == r {
			return x.from <= ts && ts <= x.to
		}
	}
	return false
}
