package entity

import "context"

// Store keeps entities, their latest values, their history and the change log.
//
// All methods are safe for concurrent use, except that Commit is called by one
// goroutine at a time. The conformance suite is package storetest; an
// implementation must pass it.
type Store interface {
	// Info describes the contents of the store. It does no I/O.
	Info() StoreInfo

	// Load returns an entity with its latest values, ordered by key, its attributes, ordered by
	// section and path, and its open commands, ordered by ID. It returns ErrNotFound if there is
	// none.
	Load(ctx context.Context, id string) (Stored, error)

	// Commit makes a batch durable. With an error, the store is as if nothing had been tried; or,
	// if the outcome is unknown, the same batch can be committed again and leads to the same state.
	// When Commit returns nil the batch survives a loss of power.
	//
	// It sets BatchEntity.Num of entities whose number the caller does not know. It does not retain
	// the batch.
	//
	// A relation to an entity that does not exist is skipped, since that entity has been deleted
	// meanwhile. A deleted entity loses its latest values, attributes, commands, relations in both
	// directions and history at once for every reader, no matter when the store frees the space; a
	// later entity with the same id inherits nothing.
	Commit(ctx context.Context, b *Batch) error

	// Entities returns entities as Load does, in the order of their ids (by
	// bytes).
	Entities(ctx context.Context, q ListQuery) ([]Stored, error)

	// Relations returns up to limit edges of the whole store, ordered by the
	// bytes of From, Type and To, after the one given (the zero Relation for the
	// first).
	Relations(ctx context.Context, after Relation, limit int) ([]Relation, error)

	// History returns up to limit points of a key of an entity with places from <= place < to, in
	// the order of their places. An unknown entity or key has none.
	History(ctx context.Context, id, key string, from, to Place, limit int, descending bool) ([]Point, error)

	// Scan calls f with all points of a key of an entity with from <= TS < to, in the order of
	// their places, in chunks of at most block.MaxRows. It stops at the first error of f, and
	// returns it wrapped. f may be called while the store holds a connection for reading, and must
	// not call the store.
	Scan(ctx context.Context, id, key string, from, to int64, f func(*Chunk) error) error

	// CountNumbers returns how many points of a key of an entity with
	// from <= TS < to are numbers.
	CountNumbers(ctx context.Context, id, key string, from, to int64) (int, error)

	// Changes returns up to limit changes with a sequence greater than after, in order, at least
	// one if there is one. It returns ErrCursorExpired if the change after+1 is no longer kept, or
	// after has not been reached yet.
	Changes(ctx context.Context, after uint64, limit int) ([]LoggedChange, error)

	// Commands returns up to q.Limit commands of an entity that match q, in descending order of ID,
	// or ErrNotFound if there is no such entity.
	Commands(ctx context.Context, id string, q CommandsQuery) ([]Command, error)

	// OpenCommands returns all entities with commands that have not ended, ordered by the bytes of
	// their ids.
	OpenCommands(ctx context.Context) ([]OpenCommands, error)

	// Online returns up to limit entities whose presence is online, after an id ("" for the
	// first), ordered by the bytes of their ids.
	Online(ctx context.Context, after string, limit int) ([]OnlineEntity, error)

	// SaveSeen sets Presence.Seen of entities if it is later than what is stored. It is not a
	// change, and need not survive a loss of power. Entities that do not exist are skipped. It may
	// be called while Commit runs.
	SaveSeen(ctx context.Context, list []SeenAt) error

	// Origins returns who computed the values of a key of an entity with from <= TS < to, in the
	// order of TS: at most limit of them.
	Origins(ctx context.Context, id, key string, from, to int64, limit int) ([]PointOrigin, error)

	// Trim removes the points of a key of an entity with TS < before from the history, at most
	// limit of them, and returns how many it removed: fewer than limit if no more are left. The
	// latest value stays.
	Trim(ctx context.Context, id, key string, before int64, limit int) (int, error)

	// Doc returns a document, or ErrNotFound. Docs returns the documents of a kind whose ids come
	// after the given one, ordered by the bytes of their ids: at most limit, and at most so many
	// that their bodies take DocsBytes together, but at least one if there are any.
	Doc(ctx context.Context, kind, id string) (Doc, error)
	Docs(ctx context.Context, kind, after string, limit int) ([]Doc, error)

	// PutDoc makes a document durable if the condition holds (see CheckCondition) and returns it
	// with its new Version, which is greater than any that the id has had, and Updated. DeleteDoc
	// removes one, and returns ErrNotFound if there is none. Both may be called while Commit runs.
	PutDoc(ctx context.Context, doc Doc, condition string) (Doc, error)
	DeleteDoc(ctx context.Context, kind, id, condition string) error

	// PutItems writes the items whose Body is not nil and removes the others: all of them or, with
	// an error, none. If a key occurs twice the later one counts. When PutItems returns nil, the
	// changes survive a loss of power. Items returns the items that match q; keys are any bytes.
	// Both may be called while Commit runs.
	PutItems(ctx context.Context, items []Item) error
	Items(ctx context.Context, q ItemsQuery) ([]Item, error)

	// Compact packs the history as tightly as it can between commits, and may take as long as
	// reading and writing all of it. The contents stay the same. A store that has nothing to do
	// returns nil.
	Compact(ctx context.Context) error

	// Usage returns what the store contains and how much space that takes. It reads all rows of the
	// history. Readings of the last seconds may be in the change log only.
	Usage(ctx context.Context) (Usage, error)

	// Close releases the store. No other method is called afterwards.
	Close() error
}

// StoreInfo describes the contents of a store.
type StoreInfo struct {
	// Identity is random and made with the store. A store that is restored from a backup gets a new
	// one.
	Identity string
	// Generations are ordered by First, and cover all changes that are kept and the one before
	// them. The last belongs to the next commit, unless that was before the store was opened. The
	// slice must not be changed.
	Generations []Generation
	// LastChange is the sequence of the newest change, 0 when there is none.
	LastChange uint64
	// FirstChange is the sequence of the oldest change that is kept,
	// LastChange+1 when none is.
	FirstChange uint64
	// Entities is how many entities there are.
	Entities int64
	// SealFailures is how often history could not be packed since the store was opened. That
	// history stays unpacked, and packing it is retried.
	SealFailures uint64
}

// ListQuery asks a store for a page of entities.
type ListQuery struct {
	After string // only ids greater than this
	Limit int
	// Search keeps the entities whose id contains it, ignoring case, Types those of one of these
	// types, and IDs those with these ids. Empty keeps all.
	Search string
	Types  []string
	IDs    []string
}

// Stored is an entity as the store has it.
type Stored struct {
	Num     int64  // the store's own number of the entity, never 0
	ID      string // the id of the entity
	Type    string // "" for none
	Created int64  // milliseconds since the epoch
	Updated int64  // the newest TS of its readings
	Seq     uint64 // the sequence of its last reading
	// Revision is the number of its last edit, 0 if there was none.
	Revision   uint64
	Latest     []Latest
	Attributes []StoredAttribute
	// Applied has the last Origin of each source that has computed readings of the entity, ordered
	// by source.
	Applied []Origin
	// Commands are the entity's commands that have not ended, ordered by ID.
	Commands []Command
	// Presence is the zero Presence where none was committed.
	Presence Presence
}

// bytes returns roughly how many bytes the entity occupies.
func (e *Stored) bytes() int64 {
	const each = 64
	n := len(e.ID) + len(e.Type) + each*(1+len(e.Latest)+len(e.Attributes)+4*len(e.Commands))
	for i := range e.Commands {
		n += e.Commands[i].bytes()
	}
	for i := range e.Latest {
		n += len(e.Latest[i].Value.Text())
	}
	for i := range e.Attributes {
		n += len(e.Attributes[i].Path) + len(e.Attributes[i].Value.Text())
	}
	return int64(n)
}

// StoredAttribute is a leaf as the store has it.
type StoredAttribute struct {
	Section Section
	Attribute
}

// PointOrigin tells who computed the value at one time.
type PointOrigin struct {
	TS int64
	Origin
}

// Batch is what one commit makes durable.
type Batch struct {
	// First is the sequence of the first record as a change; the others follow without a gap. It is
	// one more than the last sequence of the previous batch, and the same when a batch is retried.
	First uint64
	// Committed is the time of the commit, in milliseconds since the epoch.
	Committed int64
	// Entities lists each entity of the batch once.
	Entities []BatchEntity
	// Records are the changes in the order in which they were accepted: the change log and, of the
	// readings, the history. For the same entity, key and place the later one replaces the earlier,
	// in the batch and in the store. Edits of the same leaf or edge are made in order; of the
	// records of a command or a presence the last one counts. Of commands that have ended the store
	// keeps the newest MaxEndedCommands of an entity; it may keep a tenth more for a while.
	Records []Record
	// Latest is the change buffer: the newest value of each entity and key that changed, once each.
	// The store keeps its own value if that is newer by (TS, Seq). Latest says nothing that Records
	// do not, so a store may also work out the latest values later.
	Latest []LatestRow
}

// BatchEntity is an entity in a batch. Its latest values are in Batch.Latest.
type BatchEntity struct {
	Num     int64 // the store's number, 0 if the caller does not know it
	ID      string
	Created int64 // ignored if the entity exists
	// Edited says that Type and Revision are new; otherwise the store keeps what it has, and gives
	// neither to a new entity. Type differs from the one before only if an Edit of the batch is
	// Typed.
	Edited   bool
	Type     string
	Revision uint64
	// Deleted says that the entity's last record in the batch is its deletion. Everything before
	// that matters only for the change log.
	Deleted bool
}

// Record is one change in a batch: a reading, an edit, a step of a command, or a change of
// presence.
type Record struct {
	Entity int // the index in Batch.Entities
	Seq    uint64
	Reading
	// Origin says who computed the reading or the edit. The store remembers the greatest Seq of
	// each Source for the entity, and the origin of each value of a reading at its time.
	Origin Origin
	// Once is the Once.Token of its delivery, 0 for none.
	Once uint64
	// Created says that the reading created the entity. For an edit, see Edit.Created.
	Created bool
	// Edit is not nil for an edit and Command is not nil for a step of a command; Reading then has
	// only the time. Command is the whole command after the step.
	Edit    *Edit
	Command *Command
	// Presence is not nil if the presence has changed; Reading then has only the time. It is the
	// whole presence after the change.
	Presence *Presence
}

// Place returns where the values of a reading are in the history.
func (r *Record) Place() Place {
	if r.Arrived {
		return Place{r.TS, r.Seq}
	}
	return Place{TS: r.TS}
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
	Origin    Origin
	Edit      *Edit     // nil for all else
	Command   *Command  // the same
	Presence  *Presence // the same
	Committed int64
	// Arrived, Number, Once and Created are those of the Record.
	Arrived      bool
	Number, Once uint64
	Created      bool
}
