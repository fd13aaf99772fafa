package cluster

import (
	"context"
	"errors"
)

// Engine is the means by which the members of a cluster agree: a small map whose values are
// replaced by compare-and-set. It must not lose what it has accepted, or go back to an earlier
// state: two members could then hold one shard. It needs no leases, locks or expiry. Its values are
// usually some kilobytes, and at most [MaxValue]; there are a few for each member and group.
//
// Its methods are safe for concurrent use. Package cluster/memory has one for tests and for several
// systems in one process; package cluster/enginetest is the conformance suite for others.
type Engine interface {
	// Put sets the value of a key if its revision is still was (0 if the key must not exist), and
	// returns its new revision, which is greater than every earlier one. Otherwise it returns
	// ErrConflict, and nothing has changed. After ErrUnsure, or the error of ctx, the value may
	// have been set, now or later. value belongs to the engine.
	Put(ctx context.Context, key string, value []byte, was Revision) (Revision, error)
	// Get returns the entry of a key, or ErrNotFound. The entry may be out of date, but not older
	// than what the same engine has put or returned before. Its value must not be changed.
	Get(ctx context.Context, key string) (Entry, error)
	// Watch calls see for each entry whose key has the prefix, and then for each that is set, one
	// call at a time. Entries of one key come in order; of several in quick succession, the last is
	// enough. They may come late, and repeatedly. see must not block, and must not change the
	// value. It may be called once more after stop.
	Watch(prefix string, see func(Entry)) (stop func())
}

// MaxValue is the largest size of a value, in bytes: that of the map of a group with the most
// shards.
const MaxValue = 512 << 10

// Revision is the number of a change in an engine. Later changes of a key have greater revisions.
type Revision uint64

// Entry is a key of an engine with its value.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
}

var (
	// ErrConflict says that somebody else has changed the key.
	ErrConflict = errors.New("revision conflict")
	// ErrUnsure says that it is unknown whether the key was changed.
	ErrUnsure = errors.New("outcome unknown")
	// ErrNotFound says that an engine has no such key.
	ErrNotFound = errors.New("no such key")
	// ErrDeclaredDead says that a member was silent for longer than its lease, and that the others
	// have continued without it. Start again, usually in a new process: a system that is connected
	// cannot join a second time.
	ErrDeclaredDead = errors.New("declared dead")
)
