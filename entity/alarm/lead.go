package alarm

import "context"

// A replay reads what the history has, which is ahead of the changes. Readings that it has taken in
// are still to come as changes, and would be late ones: where many wait, each would lead to another
// replay that finds the same. So the place that the history was known to go to is kept until the
// changes have got there, and what comes before it, of a time that was gone through, is done with.

// lead is a place among the changes that the history goes to.
type lead struct {
	head string // a cursor
	over bool   // the changes have got there
}

// taken is the time that a replay of a rule has gone through, both ends included.
type taken struct {
	rule     *rule
	from, to int64
	lead     *lead
}

// waits reports whether some of it may still be among the changes.
func (x *taken) waits() bool { return x.lead != nil && !x.lead.over }

// leadNow returns where the history goes to now, or went to when this step first asked.
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

// endLeads says that nobody knows when the changes get to a place.
func (e *engine) endLeads() {
	for _, l := range e.leads {
		l.over = true
	}
	e.leads = nil
}

// took notes what a replay has gone through that is done.
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

// tookIn reports whether a replay has taken in a reading of a time that comes as a change only now.
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
