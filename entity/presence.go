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
	PresenceUnknown PresenceState = 0 // nothing was ever heard of the device
	PresenceOnline  PresenceState = 1 // it is there
	PresenceOffline PresenceState = 2 // it was there, and no longer is
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
	// Connected says that it is online and has a connection, its own or that of a gateway which has
	// spoken for it. A lost connection still counts while it may come back.
	Connected bool
	// Since is when the state began, 0 if that is unknown.
	Since int64
	// Seen is when the device last sent something that was kept, 0 for never. It is written to the
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

// PresenceOfBits returns a presence by its Bits and times.
func PresenceOfBits(bits, since, seen int64) Presence {
	return Presence{State: PresenceState(bits & 3), Connected: bits&4 != 0, Since: since, Seen: seen} //nolint:gosec // two bits
}

// present is what the runtime knows of one entity whose device is online or has a
// connection. It is guarded by the mu of its presenceShard. Times without another unit are
// milliseconds of the runtime's clock that does not jump, see presences.now.
type present struct {
	id         string
	prev, next *present      // in the list of its slot of the wheel
	rule       *presenceRule // of its type
	heard      int64         // when it said something, never if it has not
	until      int64         // what is lost counts as there until then
	seen       int64         // heard, in milliseconds since the epoch
	saved      int64         // what of seen the store has
	own, via   int32         // connections: its own, and those of gateways
	slot       int32         // of the wheel, one more than its index; 0: none

	spoke     bool // since it lost its last connection; true where it has had none
	online    bool // as the entity's actor has last found it
	connected bool // the same
	asked     bool // the actor is to look, or is looking
}

// never is a time before all others, and forever one after them.
const (
	never   = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

// judge says what the presence is at a moment, and when that changes by itself, forever for
// not.
//
//   - A device with a connection of its own is online.
//   - One that had connections and has lost all, and has said nothing since, is online for
//     the grace.
//   - Any other one is online for the timeout after it has said something: that a gateway is
//     connected says nothing of the devices behind it.
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

// silent is when the device will have been silent for too long.
func (e *present) silent() int64 {
	timeout := e.rule.timeout.Load()
	if timeout == 0 && e.heard != never {
		return forever
	}
	return e.heard + timeout
}
