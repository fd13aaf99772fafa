package actor

import (
	"fmt"
	"strconv"
	"strings"
)

// PID is the untyped address of an actor: its system's name and incarnation, the actor's path, and
// a number that no other actor of that system has or will have. So a PID kept after its actor's
// end, or after the end of its process, never reaches a namesake. It is a comparable value, safe to
// copy and to use as a map key. The zero PID is nobody's. The address of a virtual actor has "*" in
// place of a system, and no numbers: see [Virtual].
type PID struct {
	node string
	path string
	id   uint64
	inc  uint32
}

// Node returns the name of the system in which the actor lives.
func (p PID) Node() string { return p.node }

// Incarnation returns the number that the system drew when it was made, which distinguishes it from
// earlier systems of its name. It is never 0 for an actor that has lived.
func (p PID) Incarnation() uint32 { return p.inc }

// Path returns the actor's place in the tree, "/carts/user-42" for example. The
// last part of an actor without a name is "$" and its number.
func (p PID) Path() string { return p.path }

// IsZero reports whether p is nobody's address.
func (p PID) IsZero() bool { return p == PID{} }

// String returns the form that [ParsePID] reads, "node~incarnation/path#number", and "-" for
// the zero PID. Both numbers have the base 36.
func (p PID) String() string {
	if p.IsZero() {
		return "-"
	}
	text := make([]byte, 0, len(p.node)+len(p.path)+20)
	text = append(text, p.node...)
	if p.inc != 0 {
		text = strconv.AppendUint(append(text, '~'), uint64(p.inc), 36)
	}
	text = append(append(text, p.path...), '#')
	return string(strconv.AppendUint(text, p.id, 36))
}

// MarshalText returns the form of [PID.String], empty for the zero PID.
func (p PID) MarshalText() ([]byte, error) {
	if p.IsZero() {
		return nil, nil
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads the form of [PID.MarshalText].
func (p *PID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = PID{}
		return nil
	}
	parsed, err := ParsePID(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// ParsePID parses the form of [PID.String]. The error wraps [ErrBadPID]. A PID without an
// incarnation, as earlier releases printed it, can be parsed but finds no actor.
func ParsePID(text string) (PID, error) {
	slash := strings.IndexByte(text, '/')
	hash := strings.LastIndexByte(text, '#')
	if slash < 1 || hash < slash {
		return PID{}, fmt.Errorf("parse %q: %w: want system~incarnation/path#number", text, ErrBadPID)
	}
	id, err := strconv.ParseUint(text[hash+1:], 36, 64)
	if err != nil {
		return PID{}, fmt.Errorf("parse %q: %w: the part after # is not a number in base 36", text, ErrBadPID)
	}
	node, printed, hasInc := strings.Cut(text[:slash], "~")
	var inc uint64
	if hasInc {
		inc, err = strconv.ParseUint(printed, 36, 32)
	}
	if err != nil || node == "" || hasInc && inc == 0 {
		return PID{}, fmt.Errorf("parse %q: %w: the part between ~ and / is not the number of an incarnation in base 36", text, ErrBadPID)
	}
	return PID{node: node, path: text[slash:hash], id: id, inc: uint32(inc)}, nil
}
