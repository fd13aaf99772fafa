package entity

import "context"

// Store keeps entities, their latest values, their history and the change log.
//
// All methods are safe for concurrent use, except that Commit is called by one
// goroutine at a time. The conformance suite is package storetest; an
// implementation is right when it passes.
type Store interface {
	// Info tells what the store holds. It does no input or output.
	Info() StoreInfo

	// Load returns an entity with its latest values, ordered by key, or
	// ErrNotFound.
	Load(ctx context.Context, id string) (Stored, error)

	// Commit makes a batch durable: all of it or, with an error, as if nothing
	// had been tried; or, where the outcome is unknown, in such a way that the
	// same batch can be committed again and ends in the same state. When it
	// returns nil the batch survives the loss of power.
	//
	// It fills in BatchEntity.Num of entities that are new to the caller; it
	// keeps nothing of the batch.
	Commit(ctx context.Context, b *Batch) error

	// Entities returns up to limit entities with their latest values, in the
	// order of their ids (by bytes), after the id given, and only those whose
	// id contains search in any case.
	Entities(ctx context.Context, after string, limit int, search string) ([]Stored, error)

	// History returns up to limit points of a key of an entity with
	// from <= TS < to, in the order of TS. An unknown entity or key has none.
	History(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]Point, error)

	// Aggregate returns up to limit buckets of step milliseconds over the
	// numbers with from <= TS < to, in the order of TS.
	Aggregate(ctx context.Context, id, key string, from, to, step int64, limit int) ([]Bucket, error)

	// Changes returns up to limit changes with a sequence greater than after,
	// in order, at least one if there is one. It returns ErrCursorExpired when
	// the change after+1 is no longer kept, or after has not been reached yet.
	Changes(ctx context.Context, after uint64, limit int) ([]LoggedChange, error)

	// Close releases the store. No other method is called afterwards.
	Close() error
}

// StoreInfo tells what a store holds.
type StoreInfo struct {
	// Identity is random, made when the store was, and never changes. Cursors
	// carry it, so that a cursor of another store is noticed.
	Identity string
	// LastChange is the sequence of the newest change, 0 when there is none.
	LastChange uint64
	// FirstChange is the sequence of the oldest change that is kept,
	// LastChange+1 when none is.
	FirstChange uint64
	// Entities is how many entities there are.
	Entities int64
}

// Stored is an entity as the store has it.
type Stored struct {
	Num     int64  // the store's own number of it, never 0
	ID      string // its id
	Created int64  // milliseconds since the epoch
	Updated int64  // the newest TS of its readings
	Seq     uint64 // the sequence of its last reading
	Latest  []Latest
}

// Batch is what one commit makes durable.
type Batch struct {
	// First is the sequence of the first record as a change; the others follow
	// without a gap. It is one more than that of the last batch, and the same
	// when a batch is tried again.
	First uint64
	// Committed is the time of the commit, in milliseconds since the epoch.
	Committed int64
	// Entities has each entity of the batch once.
	Entities []BatchEntity
	// Records are the readings in the order in which they were accepted: the
	// history and the change log. For the same entity, key and TS the later
	// replaces the earlier, in the batch and in the store.
	Records []Record
	// Latest is the change buffer: the newest value of each entity and key that
	// changed, once each. The store keeps its own where that is newer by
	// (TS, Seq).
	Latest []LatestRow
}

// BatchEntity is an entity in a batch. What is latest of it is in Batch.Latest.
type BatchEntity struct {
	Num     int64 // what the store called it, 0 when the caller does not know
	ID      string
	Created int64 // kept from the first time
}

// Record is one reading in a batch.
type Record struct {
	Entity int // the index in Batch.Entities
	Seq    uint64
	Reading
}

// LatestRow is one latest value in a batch.
type LatestRow struct {
	Entity int // the index in Batch.Entities
	Latest
}

// LoggedChange is a change as the change log has it.
type LoggedChange struct {
	Seq       uint64
	Entity    string
	TS        int64
	Values    []Sample
	Committed int64
}
