package alarm

import "sync/atomic"

// counters are what the service counts.
type counters struct {
	rules, committed, waiting, unacked                   atomic.Int64
	open                                                 [severities + 1]atomic.Int64 // by severity
	evaluations, late, ahead, ignored, replays, overflow atomic.Uint64
	delivered, failed, dead, lost                        atomic.Uint64
	commits, restarts, missed, lagged                    atomic.Uint64
}

// Stats are the counters of a service since it was opened, and its present state.
type Stats struct {
	Rules int64
	// Open are the alarms that have not cleared by severity, the worst first, and
	// Unacknowledged those of them that nobody has acknowledged.
	Open           [severities]int64
	Unacknowledged int64
	// Evaluations counts evaluations of a condition for a reading, Late the late readings of a
	// rule, Replays the replays of the history for them, and Ignored the late readings that were
	// too old. Ahead counts the readings that had to wait for their time, see MaxAhead.
	Evaluations, Late, Replays, Ignored, Ahead uint64
	// Overflow counts the conditions that were met and not followed, see MaxActive.
	Overflow uint64
	// Delivered counts the deliveries that webhooks have accepted, Failed the attempts that are
	// retried, Dead the deliveries that were given up, and Lost those of which nothing is kept, see
	// MaxDead.
	Delivered, Failed, Dead, Lost uint64
	// Waiting is how many changes wait for the engine, and Committed is when the last processed
	// change was committed, in milliseconds since the epoch.
	Waiting, Committed int64
	// Commits counts the commits, Restarts how often the service restarted, Missed how often
	// changes were no longer kept when it needed them, and Lagged how often it fell so far behind
	// that it had to read changes from the log.
	Commits, Restarts, Missed, Lagged uint64
}

// Stats returns the counters. It does no I/O.
func (s *Service) Stats() Stats {
	c := &s.count
	x := Stats{
		Rules: c.rules.Load(), Unacknowledged: c.unacked.Load(), Waiting: c.waiting.Load(), Committed: c.committed.Load(),
		Evaluations: c.evaluations.Load(), Late: c.late.Load(), Replays: c.replays.Load(), Ignored: c.ignored.Load(), Ahead: c.ahead.Load(), Overflow: c.overflow.Load(),
		Delivered: c.delivered.Load(), Failed: c.failed.Load(), Dead: c.dead.Load(), Lost: c.lost.Load(),
		Commits: c.commits.Load(), Restarts: c.restarts.Load(), Missed: c.missed.Load(), Lagged: c.lagged.Load(),
	}
	for i := range x.Open {
		x.Open[i] = c.open[i+1].Load()
	}
	return x
}
