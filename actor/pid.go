package actor

import (
	"fmt"
	"strconv"
	"strings"
)

// PID is the untyped address of an actor: the system it lives in, its path, and
// a number that no other actor of that system has or will have, so that a PID
// kept after its actor's end never reaches a namesake. It is a comparable value,
// safe to copy and to use as a map key. The zero PID is nobody's.
type PID struct {
	node string
	path string
	id   uint64
}

// Node returns the name of the system in which the actor lives.
func (p PID) Node() string { return p.node }

// Path returns the actor's place in the tree, "/carts/user-42" for example. The
// last part of an actor without a name is "$" and its number.
func (p PID) Path() string { return p.path }

// IsZero reports whether p is nobody's address.
func (p PID) IsZero() bool { return p == PID{} }

// String returns the form that [ParsePID] reads, "node/path#number", and "-" for
// the zero PID.
func (p PID) String() string {
	if p.IsZero() {
		return "-"
	}
	return p.node + p.path + "#" + strconv.FormatUint(p.id, 36)
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

// ParsePID reads what [PID.String] printed. The error wraps [ErrBadPID].
func ParsePID(text string) (PID, error) {
	slash := strings.IndexByte(text, '/')
	hash := strings.LastIndexByte(text, '#')
	if slash < 1 || hash < slash {
		return PID{}, fmt.Errorf("parse %q: %w: want system/path#number", text, ErrBadPID)
	}
	id, err := strconv.ParseUint(text[hash+1:], 36, 64)
	if err != nil {
		return PID{}, fmt.Errorf("parse %q: %w: the part after # is not a number in base 36", text, ErrBadPID)
	}
	return PID{node: text[:slash], path: text[slash:hash], id: id}, nil
}
