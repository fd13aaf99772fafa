package mapping

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Stats has the counters of all mappings since the service was opened.
type Stats struct {
	Mappings int `json:"mappings" example:"1"`
	// The changes that were examined.
	Changes     uint64 `json:"changes" example:"10"`
	Evaluations uint64 `json:"evaluations" example:"10"`
	// The evaluations that failed, and the readings that a target refused.
	Failures uint64 `json:"failures"`
	// The readings that were written.
	Outputs uint64 `json:"outputs" example:"10"`
	// The values in them.
	Values uint64 `json:"values" example:"10"`
	// Those of the values that replaced an earlier one, or were written at a start.
	Again uint64 `json:"-"`
	// The readings that their targets did not accept.
	Refused uint64 `json:"refused"`
	// The memory of what they keep of their sources, in bytes, an estimate.
	Kept int64 `json:"kept_bytes" example:"4096"`
	// The values that they could not keep, as there was no room, and the groups that have given up their members.
	Dropped uint64 `json:"dropped"`
	// The changes that are read and not applied.
	Waiting int `json:"waiting"`
	// How long ago the change had been committed that is applied now, 0 when none waits.
	Lag time.Duration `json:"-"`
	// How often the mappings fell behind the change buffer and read the log.
	Lagged uint64 `json:"lagged"`
	// How often changes were no longer in the log, so that everything was recomputed.
	Missed uint64 `json:"missed"`
	// How often the service restarted.
	Restarts uint64 `json:"restarts"`
	// The mappings with the most failures, at most MaxFailing.
	Failing []Failing `json:"-"`
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
	changes, evaluations, failures, outputs, values, again, refused, dropped, lagged, missed, restarts atomic.Uint64

	mappings, kept, waiting, committed atomic.Int64
	failing                            atomic.Pointer[[]Failing]
}

// Stats returns the counters. It does not wait and is safe for concurrent use.
func (s *Service) Stats() Stats {
	c := &s.count
	st := Stats{
		Mappings: int(c.mappings.Load()), Changes: c.changes.Load(), Evaluations: c.evaluations.Load(),
		Failures: c.failures.Load(), Outputs: c.outputs.Load(), Values: c.values.Load(), Again: c.again.Load(),
		Refused: c.refused.Load(), Kept: c.kept.Load(), Dropped: c.dropped.Load(), Waiting: int(c.waiting.Load()), Lagged: c.lagged.Load(), Missed: c.missed.Load(), Restarts: c.restarts.Load(),
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
	c.kept.Store(int64(e.room.used))
	c.dropped.Add(e.room.dropped)
	e.room.dropped = 0
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

// refused records a reading that the target of a mapping has refused, and returns how many there
// were since the mapping was loaded, 0 if the mapping no longer exists.
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
