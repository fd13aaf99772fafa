package mapping

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Stats are the counters of a service at one moment, since it was opened.
type Stats struct {
	Mappings    int           // installed
	Changes     uint64        // applied
	Evaluations uint64        // of fields
	Failures    uint64        // evaluations that failed, and values that a target refused
	Outputs     uint64        // readings written
	Values      uint64        // values in them
	Again       uint64        // values of those that replaced an earlier one, or were written at a start
	Refused     uint64        // readings that a target did not take
	Waiting     int           // changes that are read and not applied
	Lag         time.Duration // how long ago the last change that was applied had been committed, 0 when none waits
	Lagged      uint64        // times the subscription fell behind and went on from the log
	Missed      uint64        // times changes were gone, so that everything was recomputed
	Restarts    uint64        // times the service began anew
	// Failing has the mappings with the most failures, at most MaxFailing.
	Failing []Failing
}

// Failing is a mapping whose evaluations fail.
type Failing struct {
	Mapping  string
	Failures uint64
	Last     string // the last failure
}

// MaxFailing bounds Stats.Failing, and with it the labels of a counter.
const MaxFailing = 20

// counters are what Stats is made of.
type counters struct {
	changes, evaluations, failures, outputs, values, again, refused, lagged, missed, restarts atomic.Uint64

	mappings, waiting, committed atomic.Int64
	failing                      atomic.Pointer[[]Failing]
}

// Stats returns the counters. It does not wait and is safe for concurrent use.
func (s *Service) Stats() Stats {
	c := &s.count
	st := Stats{
		Mappings: int(c.mappings.Load()), Changes: c.changes.Load(), Evaluations: c.evaluations.Load(),
		Failures: c.failures.Load(), Outputs: c.outputs.Load(), Values: c.values.Load(), Again: c.again.Load(),
		Refused: c.refused.Load(), Waiting: int(c.waiting.Load()), Lagged: c.lagged.Load(), Missed: c.missed.Load(), Restarts: c.restarts.Load(),
	}
	if st.Waiting > 0 {
		st.Lag = max(0, time.Since(time.UnixMilli(c.committed.Load())))
	}
	if failing := c.failing.Load(); failing != nil {
		st.Failing = *failing
	}
	return st
}

// publish adds what the engine has counted since the last time.
func (e *Engine) publish(c *counters) {
	c.evaluations.Add(e.evaluations)
	e.evaluations = 0
	if e.failures == 0 {
		return
	}
	c.failures.Add(e.failures)
	e.failures = 0
	var list []Failing
	for name, m := range e.mappings {
		if n, last := m.failed(); n > 0 {
			list = append(list, Failing{name, n, last})
		}
	}
	slices.SortFunc(list, func(a, b Failing) int {
		return cmp.Or(cmp.Compare(b.Failures, a.Failures), cmp.Compare(a.Mapping, b.Mapping))
	})
	list = slices.Clip(list[:min(len(list), MaxFailing)])
	c.failing.Store(&list)
}

// failed returns how many failures a mapping has had and the last one.
func (m *mapping) failed() (n uint64, last string) {
	n, last = m.refusals, m.refusal
	for _, f := range m.fields {
		if n += f.failures; f.failure != "" {
			last = f.failure
		}
	}
	return n, last
}

// refused takes note of a reading that the target of a mapping does not take, and
// returns how many that were since the mapping was loaded, 0 when it is gone.
func (e *Engine) refused(name string, err error) uint64 {
	m := e.mappings[name]
	if m == nil {
		return 0
	}
	e.failures++
	m.refusals++
	m.refusal = err.Error()
	return m.refusals
}
