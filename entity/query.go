package entity

import "github.com/greenroom-go/greenroom/entity/value"

// Latest is the newest value of one key.
type Latest struct {
	Key   string
	TS    int64  // when it was measured, in milliseconds since the epoch
	Seq   uint64 // the entity's sequence of the reading that brought it
	Value value.Value
	// Origin says who computed the value; it is the zero Origin for a device.
	Origin Origin
}

// Snapshot is the state of an entity at one moment.
type Snapshot struct {
	ID string
	// Type is the id of the entity's type, "" for none.
	Type string
	// ETag is the version of all but the telemetry: it changes with each edit.
	ETag string
	// Created is when the entity was created, by its first reading or edit, by the runtime's clock,
	// in milliseconds since the epoch.
	Created int64
	// Updated is the newest TS of all its readings.
	Updated int64
	// Latest has one entry for each key, ordered by key.
	Latest []Latest
	// Attributes has all leaves, ordered by section and path.
	Attributes []StoredAttribute
	// Presence says whether its device is online.
	Presence Presence
	// Actor is the address of the entity's actor, "" if it has none.
	Actor string
}

// Page asks for entities in the order of their ids. The zero Page asks for the first page.
type Page struct {
	// After is the cursor from the previous page, "" for the first.
	After string
	// Limit is the most entities to return, up to MaxPageLimit. Defaults to 50.
	Limit int
	// Search keeps only the entities whose id contains it, ignoring case.
	Search string
	// Type keeps only the entities of this type or of a type that extends it.
	Type string
}

// Point is one value in the history of a key.
type Point struct {
	TS    int64 // milliseconds since the epoch
	Value value.Value
	// Seq distinguishes points of the same TS: it is the entity's sequence for a reading that came
	// without a time, and 0 for a reading with a time of its own.
	Seq uint64
}

// Place returns the point's place in the history.
func (p *Point) Place() Place { return Place{p.TS, p.Seq} }

// HistoryQuery asks for the values of one key of one entity over a range of
// time, oldest first unless Descending.
type HistoryQuery struct {
	ID, Key string
	// From and To are the range [From, To) in milliseconds since the epoch.
	// A To of 0 means no end.
	From, To int64
	// Limit is how many points to return at most, up to MaxHistoryLimit. Defaults to 1000.
	Limit      int
	Descending bool
	// Cursor is the cursor from the previous page, "" for the first. The other fields must be the
	// same as for that page.
	Cursor string
}

// ChangesQuery asks for committed changes.
type ChangesQuery struct {
	// Cursor is where to resume: after the change that carried it. "" starts with the first change
	// committed from now on.
	Cursor string
	// Entities keeps only the changes of these entities; empty means all.
	Entities []string
	// Edits asks for the changes of types, attributes and relations as well, and
	// for the ends of entities. Without it a stream has readings only.
	Edits bool
	// EditsOnly asks for only what Edits adds: readings are skipped, and take no room in the
	// subscription's buffer. Edits is then ignored.
	EditsOnly bool
	// Commands asks for the changes of commands as well.
	Commands bool
	// CommandsOnly asks for only the changes of commands and the ends of entities. Edits is then
	// ignored.
	CommandsOnly bool
	// Presence asks for the changes of presences as well.
	Presence bool
	// Computed keeps, of the readings, only those that a source such as a mapping has computed (see
	// Origin). The others take no room in the buffer.
	Computed bool
	// Buffer is how many changes the subscription holds for its reader before it gives up with
	// ErrLagged, if that is more than Config.StreamBuffer. They take at most MaxStreamBytes.
	Buffer int
}

// Change is one committed reading, edit or step of a command. Late readings are changes as well: a
// reader that keeps the latest values compares TS, and takes the later change if they are equal.
type Change struct {
	// Cursor continues after this change.
	Cursor string
	// Seq is the number of the change in the order of all commits.
	Seq    uint64
	Entity string
	TS     int64 // when it was measured, in milliseconds since the epoch
	// Values belongs to all readers; it must not be changed. Only a reading has any.
	Values []Sample
	// Origin says who computed the reading or the edit; it is the zero Origin if it was not
	// computed.
	Origin Origin
	// Edit is what was edited, nil for a reading. It belongs to all readers; it
	// must not be changed.
	Edit *Edit
	// Command is a command in its new state, nil for a reading and for an edit. It belongs to all
	// readers; it must not be changed.
	Command *Command
	// Presence is the new presence, nil for everything else. It belongs to all readers; it must not
	// be changed.
	Presence *Presence
	// Committed is when the change was made durable, in milliseconds since the epoch.
	Committed int64
	// Arrived says that TS is when the reading arrived, as Reading.Arrived does.
	Arrived bool
	// Created says that the reading created the entity. For an edit, see Edit.Created.
	Created bool
}

// Bytes returns about how much memory the change takes.
func (c *Change) Bytes() int { return changeBytes(c.Values, c.Edit, c.Command) }

func changeBytes(values []Sample, edit *Edit, command *Command) int {
	n := 200
	for i := range values {
		n += 64 + len(values[i].Key) + len(values[i].Value.Text())
	}
	if edit != nil {
		for i := range edit.Attributes {
			n += 100 + len(edit.Attributes[i].Path) + len(edit.Attributes[i].Value.Text())
		}
		for i := range edit.Relations {
			n += 200 + len(edit.Relations[i].Properties.Text())
		}
	}
	if command != nil {
		n += int(command.recordBytes())
	}
	return n
}
