package cluster

import (
	"context"
	"errors"
)

// Engine is what the members of a cluster agree by: a small map whose values are replaced by comparing and
// setting. No lease, lock or expiry is asked of it. Its values are some kilobytes; there are some for each
// member and group.
//
// Its methods are safe for concurrent use. Package cluster/memory has one for tests and for several systems
// in one process; package cluster/enginetest is what another one has to pass.
type Engine interface {
	// Put sets the value of a key if its revision is still was, 0 for a key that must not exist, and
	// returns its new revision, which is greater than each before it. It returns ErrConflict if it is not,
	// and then nothing has changed. After ErrUnsure, or the error of ctx, it may have been set, now or
	// later. Value belongs to the engine.
	Put(ctx context.Context, key string, value []byte, was Revision) (Revision, error)
	// Get returns the entry of a key, or ErrNotFound. It may be an older one, but none older than what the
	// same engine has put or returned before. The value must not be changed.
	Get(ctx context.Context, key string) (Entry, error)
	// Watch calls see for each entry whose key has the prefix, and from then on for each that is set, one
	// call at a time. Those of one key come in order; of several that follow each other quickly the last
	// is enough. They may come late, and one that has come may come again. see must not block, and its
	// value must not be changed. After stop it may be called once more.
	Watch(prefix string, see func(Entry)) (stop func())
}

// Revision is the number of a change in an engine. Later changes of a key have greater ones.
type Revision uint64

// Entry is a key of an engine with its value.
type Entry struct {
	Key      string
	Value    []byte
	Revision Revision
}

var (
	// ErrConflict says that a key was changed by somebody else.
	ErrConflict = errors.New("revision conflict")
	// ErrUnsure says that it is not known whether a key was changed.
	ErrUnsure = errors.New("outcome unknown")
	// ErrNotFound says that an engine has no such key.
	ErrNotFound = errors.New("no such key")
	// ErrDeclaredDead says that a member was silent for longer than its lease, and that the others have
	// gone on without it. Join again.
	ErrDeclaredDead = errors.New("declared dead")
)
