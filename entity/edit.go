package entity

import "github.com/greenroom-go/greenroom/entity/value"

// Edit is a change of an entity except its telemetry: of its type, its attributes and its
// relations, or its end. It is one change in the log.
type Edit struct {
	// Revision is the entity's number for the edit, one more than that of the previous edit.
	Revision uint64
	// Created says that the edit made the entity.
	Created bool
	// Deleted says that the entity was deleted with everything it had. No other field is set.
	Deleted bool
	// Typed says that Type was set.
	Typed bool
	Type  string
	// Attributes are the leaves that were set or removed, in the order of section
	// and path.
	Attributes []AttributeEdit
	// Relations are the edges from the entity that were put or removed.
	Relations []RelationEdit
}

// AttributeEdit sets or removes one leaf. The zero Value removes it.
type AttributeEdit struct {
	Section Section
	Attribute
}

// Removed reports whether the leaf is gone.
func (e AttributeEdit) Removed() bool { return e.Value.Kind() == 0 }

// RelationEdit puts or removes one edge.
type RelationEdit struct {
	Relation
	Removed bool
}

// Relation is a typed, directed edge between two entities.
type Relation struct {
	From, To string // ids of entities
	Type     string
	// Properties is a JSON object, or the zero Value for none.
	Properties value.Value
}

// Direction selects edges, as seen from an entity.
type Direction uint8

// The directions.
const (
	Out  Direction = 1        // edges from the entity
	In   Direction = 2        // edges to it
	Both           = Out | In // all of them
)

// String returns out, in or both.
func (d Direction) String() string {
	switch d {
	case Out:
		return "out"
	case In:
		return "in"
	case Both:
		return "both"
	default:
		return "none"
	}
}
