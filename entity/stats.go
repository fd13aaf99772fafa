package entity

import (
	"sync/atomic"
	"time"
)

// Stats are the runtime's counters at one moment, since it was opened.
type Stats struct {
	Readings, Values      uint64    // committed
	Rejected              uint64    // readings refused or not kept, with an error to their source
	Commands              uint64    // steps of commands that were committed
	OpenCommands          int       // entities with commands that have not ended
	Receivers             int       // devices that can be reached by commands
	Online, Connected     int       // devices that are, see Presence
	WentOnline            uint64    // how often devices went online
	WentOffline           uint64    // how often devices went offline
	Batches               uint64    // commits
	WindowUsed, WindowMax int64     // bytes
	CommitLatency         Histogram // for each Ingest, from the entity's acceptance to the commit
	Live                  int       // entities that have an actor, hot or detached; the others are cold
	HotBytes, HotMax      int64     // roughly how many bytes they occupy, and the bound
	Evicted               uint64    // entities that went cold
	Relations             int       // edges between entities
	Registered            int64     // entities in the store
	Subscriptions         int
	Lagged                uint64 // subscriptions that fell behind
	StoreErrors           uint64 // failed commits, counting each try
	SealFailures          uint64 // how often the store could not pack history, which stays unpacked
	StoreError            string // why the store cannot commit now, "" if it can
}

// Histogram says how long something took, in buckets.
type Histogram struct {
	// Bounds are the inclusive upper bounds of the buckets, ascending.
	Bounds []time.Duration
	// Counts has one count for each bound and one more for longer durations. They are not
	// cumulative.
	Counts []uint64
	Count  uint64
	Sum    time.Duration
}

// Quantile estimates the q-quantile of the durations, for q from 0 to 1, as if they were spread
// evenly within each bucket. It returns 0 if there are none, and the last bound if the quantile
// lies beyond it.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := min(max(q, 0), 1) * float64(h.Count)
	var below float64
	var lower time.Duration
	for i, upper := range h.Bounds {
		n := float64(h.Counts[i])
		if n > 0 && below+n >= rank {
			return lower + time.Duration(float64(upper-lower)*(rank-below)/n)
		}
		below += n
		lower = upper
	}
	if h.Count == 0 {
		return 0
	}
	return lower
}

var latencyBounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond,
	7 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// latencies is a Histogram being filled.
type latencies struct {
	counts [len(latencyBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (l *latencies) observe(d time.Duration) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *latencies) histogram() Histogram {
	h := Histogram{Bounds: latencyBounds[:], Counts: make([]uint64, len(l.counts)), Sum: time.Duration(l.sum.Load())}
	for i := range l.counts {
		h.Counts[i] = l.counts[i].Load()
		h.Count += h.Counts[i]
	}
	return h
}

// counters are the source of Stats.
type counters struct {
	readings, values, commands, rejected, batches, storeErrors, lagged atomic.Uint64
	presences                                                          [len(presenceStates)]atomic.Uint64 // changes, by state
	live, hotBytes                                                     atomic.Int64
	evicted                                                            atomic.Uint64
	storeError                                                         atomic.Pointer[string]
	latency                                                            latencies
}

// Stats returns the counters. It does no I/O and is safe for concurrent use.
func (r *Runtime) Stats() Stats {
	info := r.store.Info()
	s := Stats{
		Readings: r.count.readings.Load(), Values: r.count.values.Load(), Rejected: r.count.rejected.Load(),
		Commands: r.count.commands.Load(), OpenCommands: r.commander.entities(), Receivers: r.receivers.len(),
		Online: int(r.presences.online.Load()), Connected: int(r.presences.connected.Load()),
		WentOnline: r.count.presences[PresenceOnline].Load(), WentOffline: r.count.presences[PresenceOffline].Load(),
		Batches: r.count.batches.Load(), WindowUsed: r.window.inUse(), WindowMax: r.window.size,
		CommitLatency: r.count.latency.histogram(), Live: int(r.count.live.Load()), Registered: info.Entities, SealFailures: info.SealFailures,
		HotBytes: r.count.hotBytes.Load(), HotMax: r.cfg.HotBytes, Evicted: r.count.evicted.Load(), Relations: r.graph.len(),
		Subscriptions: r.hub.len(), Lagged: r.count.lagged.Load(), StoreErrors: r.count.storeErrors.Load(),
	}
	if text := r.count.storeError.Load(); text != nil {
		s.StoreError = *text
	}
	return s
}
