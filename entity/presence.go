package entity

import (
	"math"
	"strconv"
)

// PresenceState says whether the device of an entity is online. The numbers are part of the stored
// format.
type PresenceState uint8

// The states of a presence.
const (
	PresenceUnknown PresenceState = 0 // the device was never heard from
	PresenceOnline  PresenceState = 1 // the device is online
	PresenceOffline PresenceState = 2 // the device was online, and no longer is
)

var presenceStates = [...]string{PresenceUnknown: "unknown", PresenceOnline: "online", PresenceOffline: "offline"}

// String returns unknown, online or offline.
func (s PresenceState) String() string {
	if int(s) >= len(presenceStates) {
		return presenceStates[PresenceUnknown]
	}
	return presenceStates[s]
}

// Presence says whether the device of an entity is online, and since when. The zero Presence is
// that of an entity whose device was never heard from. Times are in milliseconds since the epoch,
// by the runtime's clock.
type Presence struct {
	State PresenceState
	// Connected says that the device is online and has a connection, its own or that of a gateway
	// that has spoken for it. A lost connection still counts during the grace period.
	Connected bool
	// Since is when the state began, 0 if that is unknown.
	Since int64
	// Seen is when the device last sent something that was kept, 0 if never. It is written to the
	// store every SeenEvery, and with each change of the state.
	Seen int64
}

// SeenAt says when the device of an entity was last heard from.
type SeenAt struct {
	Entity string
	Seen   int64 // milliseconds since the epoch
}

// OnlineEntity is an entity whose stored presence is online.
type OnlineEntity struct {
	ID        string
	Type      string // "" for none
	Connected bool
	Seen      int64
}

// AppendJSON appends the presence as JSON, for example
// {"state":"online","connected":true,"since_ms":1451649600512, "seen_ms":1451649660512}, without
// unknown times.
func (p *Presence) AppendJSON(dst []byte) []byte {
	dst = append(append(append(dst, `{"state":"`...), p.State.String()...), '"')
	dst = strconv.AppendBool(append(dst, `,"connected":`...), p.Connected)
	if p.Since != 0 {
		dst = strconv.AppendInt(append(dst, `,"since_ms":`...), p.Since, 10)
	}
	if p.Seen != 0 {
		dst = strconv.AppendInt(append(dst, `,"seen_ms":`...), p.Seen, 10)
	}
	return append(dst, '}')
}

// Bits returns the state and the connection as one number, as stores keep them: the state, plus 4
// for a connection. PresenceOfBits is the inverse.
func (p *Presence) Bits() int64 {
	if p.Connected {
		return int64(p.State) | 4
	}
	return int64(p.State)
}

// PresenceOfBits returns the presence with these Bits and times.
func PresenceOfBits(bits, since, seen int64) Presence {
	return Presence{State: PresenceState(bits & 3), Connected: bits&4 != 0, Since: since, Seen: seen} //nolint:gosec // two bits
}

// present is what the runtime knows about one entity whose device is online or has a connection. It
// is guarded by the mu of its presenceShard. Times are in milliseconds of the runtime's monotonic
// clock unless noted, see presences.now.
type present struct {
	id         string
	prev, next *present      // in the list of its slot in the wheel
	rule       *presenceRule // of its type
	heard      int64         // when it last sent something, or never
	until      int64         // a lost connection counts until then
	seen       int64         // heard, in milliseconds since the epoch
	saved      int64         // the value of seen that the store has
	own, via   int32         // connections: its own, and those of gateways
	slot       int32         // index in the wheel plus 1, 0 if not in it

	spoke     bool // has sent something since it lost its last connection, or never had one
	online    bool // as last determined by the entity's actor
	connected bool // the same
	asked     bool // the actor has been asked to look, and has not finished
}

// never is a time before all others, and forever one after them.
const (
	never   = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

// judge returns the presence at a moment, and when it changes by itself, forever if it does not.
//
//   - A device with a connection of its own is online.
//   - A device that has lost all its connections, and has sent nothing since, is online for the
//     grace period.
//   - Any other device is online for the timeout after it last sent something: a connected gateway
//     says nothing about the devices behind it.
func (e *present) judge(now int64) (online, connected bool, next int64) {
	connected, next = e.own+e.via > 0, forever
	if !connected && e.connected && now < e.until {
		connected, next = true, e.until
	}
	end := e.until
	switch {
	case e.own > 0:
		return true, connected, next
	case e.spoke:
		end = max(end, e.silent())
	}
	if now < end {
		return true, connected, min(next, end)
	}
	return false, false, forever
}

// silent returns when the device will have been silent for too long.
func (e *present) silent() int64 {
	timeout := e.rule.timeout.Load()
	if timeout == 0 && e.heard != never {
		return forever
	}
	return e.heard + timeout
}
