package model

import (
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Limits of the times in a Presence.
const (
	MinPresenceTimeout = time.Second
	MaxPresenceTimeout = 366 * 24 * time.Hour
	MaxPresenceGrace   = 24 * time.Hour
)

// NoTimeout is a Presence.Timeout that never passes.
const NoTimeout = "none"

// Presence says when a device of the type counts as offline. Times are texts such as 90s,
// 10m or 1h30m.
type Presence struct {
	// Timeout is how long a device without a connection of its own may be silent, from 1s
	// to 366d, or none; "" leaves it to the server.
	Timeout string `json:"timeout,omitempty"`
	// Grace is how long a device may be without the connection that it had, at most 24h;
	// "" leaves it to the server.
	Grace string `json:"grace,omitempty"`
}

// TimeoutOr returns Timeout, 0 for NoTimeout, and def if it is not set. For a nil Presence it
// returns def.
func (p *Presence) TimeoutOr(def time.Duration) time.Duration {
	switch {
	case p == nil || p.Timeout == "":
		return def
	case p.Timeout == NoTimeout:
		return 0
	}
	return duration(p.Timeout, def)
}

// GraceOr returns Grace, or def if it is not set. For a nil Presence it returns def.
func (p *Presence) GraceOr(def time.Duration) time.Duration {
	if p == nil || p.Grace == "" {
		return def
	}
	return duration(p.Grace, def)
}

// duration is what a text that was checked says.
func duration(text string, def time.Duration) time.Duration {
	ms, ok := value.ParseDuration(text)
	if !ok {
		return def
	}
	return time.Duration(ms) * time.Millisecond
}

func (p *Presence) check(at string) error {
	if p == nil {
		return nil
	}
	if p.Timeout != "" && p.Timeout != NoTimeout {
		if err := checkTime(at+".timeout", p.Timeout, MinPresenceTimeout, MaxPresenceTimeout, ` or "none"`); err != nil {
			return err
		}
	}
	if p.Grace != "" {
		return checkTime(at+".grace", p.Grace, 0, MaxPresenceGrace, "")
	}
	return nil
}

func checkTime(at, text string, least, most time.Duration, other string) error {
	ms, ok := value.ParseDuration(text)
	if !ok || ms < least.Milliseconds() || ms > most.Milliseconds() {
		return invalid(at, "must be a duration from %s to %s%s, not %.32q",
			value.AppendDuration(nil, least.Milliseconds()), value.AppendDuration(nil, most.Milliseconds()), other, text)
	}
	return nil
}
