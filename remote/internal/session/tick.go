package session

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// The times of a session.
const (
	// ResumeWithin is how long a session waits for a connection unless its host says
	// otherwise.
	ResumeWithin = 10 * time.Second

	ackBytes   = 64 << 10 // received: confirm at once
	ackDelay   = 20 * time.Millisecond
	sweepEvery = 100 * time.Millisecond
	pingAfter  = 2 * time.Second  // of silence
	breakAfter = 10 * time.Second // of silence
	sweepSlots = 16 << 10         // at a time, with the mutex held
)

// Tick does what is due and returns when to call it again, the zero time if there is
// nothing to wait for.
func (s *Session) Tick(now time.Time) (next time.Time) {
	s.mu.Lock()
	due := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	if s.sweeping {
		s.sweeping = false
		s.sweepAt = now.Add(sweepEvery)
	}
	if due(s.sweepAt) {
		s.sweep(now)
	}
	switch s.state {
	case Open:
		s.watch(now)
		s.stay(now)
		if due(s.ackAt) {
			s.ackNow, s.ackAt = true, time.Time{}
		}
	case Dialing, Broken:
		if within := s.host.config.ResumeWithin; due(s.since.Add(within)) {
			s.lose(fmt.Errorf("%w: %v: %w", ErrExpired, within, s.cause()))
		}
	case Lost:
	}
	if s.log.kept == 0 && s.state == Open && s.ackAt.IsZero() {
		s.log.trim()
	}
	wake := (s.ackNow || s.pingNow || s.log.waiting()) && s.wake()
	next = s.timer()
	s.next = next
	s.unlock(wake, false)
	return next
}

// cause is why there is no connection.
func (s *Session) cause() error {
	if s.err == nil {
		return fmt.Errorf("no connection to %s", s.describe())
	}
	return s.err
}

// watch looks how long the peer has been silent.
func (s *Session) watch(now time.Time) {
	switch silent := now.Sub(s.heard); {
	case silent >= breakAfter:
		s.broke(fmt.Errorf("%w for %v", ErrSilent, silent), now)
	case silent >= pingAfter && s.pinged.IsZero():
		s.pinged = now
		s.pingNow = true
	}
}

// stay looks, while this node leaves, whether the peer still confirms: one that only pings
// would be waited for without end.
func (s *Session) stay(now time.Time) {
	if !s.bye || s.state != Open {
		return
	}
	if s.moved.IsZero() || s.movedTo != s.log.confirmed {
		s.moved, s.movedTo = now, s.log.confirmed
	}
	if within := s.host.config.ResumeWithin; now.Sub(s.moved) >= within {
		s.lose(fmt.Errorf("%w: %s has confirmed nothing for %v", ErrExpired, s.describe(), within))
	}
}

// timer returns when something is due next.
func (s *Session) timer() time.Time {
	var next time.Time
	earliest := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	switch s.state {
	case Open:
		earliest(s.ackAt)
		if s.pinged.IsZero() {
			earliest(s.heard.Add(pingAfter))
		}
		earliest(s.heard.Add(breakAfter))
		if !s.moved.IsZero() {
			earliest(s.moved.Add(s.host.config.ResumeWithin))
		}
	case Dialing, Broken:
		earliest(s.since.Add(s.host.config.ResumeWithin))
	case Lost:
		return time.Time{}
	}
	earliest(s.sweepAt)
	return next
}

// sweep cancels the asks for whose answers nobody waits. The mutex is held, and released
// in between where there are many.
func (s *Session) sweep(now time.Time) {
	s.sweepAt = time.Time{}
	var over []uint64
	for from := 0; from < len(s.asks.slots); from += sweepSlots {
		if from > 0 {
			s.mu.Unlock()
			s.mu.Lock()
		}
		over = s.asks.over(over[:0], from, from+sweepSlots)
		for _, ask := range over {
			if s.state == Lost || s.bye {
				return
			}
			s.asks.take(ask)
			s.put(wire.KindCancel, func(dst []byte) []byte { return wire.AppendCancel(dst, ask) }, 16)
		}
	}
	if s.asks.open > 0 {
		s.sweepAt = now.Add(sweepEvery)
	}
}
