package filter

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// View is an entity as a filter sees it. Its methods are called while a filter
// is matched, on the same goroutine; they must not block for long, and a match
// allocates nothing if they do not.
type View interface {
	// Lookup returns the value at a path and whether there is one. A path of a document that leads
	// to an object has a value, too: value.JSON("{}") will do. The path belongs to the filter and
	// must not be changed.
	Lookup(p *Path) (value.Value, bool)

	// Time returns when the value at a path was measured or set, in milliseconds since the epoch,
	// and whether that is known. It is called for latest values and for the leaves of documents.
	Time(p *Path) (int64, bool)

	// Is reports whether the entity's type is or extends the type with this id.
	Is(typeID string) bool

	// Related reports whether the entity has a relation of r's Type and Direction to an entity that
	// has r's ID, if that is not "", and for which r.Match is true. It stops when e.Err is not nil.
	Related(r *Relation, e *Env) bool
}

// Direction says which end of a relation an entity is.
type Direction uint8

// The directions.
const (
	To   Direction = 0 // the relation goes from the entity to the other one
	From Direction = 1 // the relation goes from the other one to the entity
)

// String returns "to" or "from".
func (d Direction) String() string {
	if d == From {
		return "from"
	}
	return "to"
}

// Relation is a condition about the relations of an entity.
type Relation struct {
	// Type is the type of the relation, "" for any.
	Type string
	// Direction is the entity's end of it.
	Direction Direction
	// ID is the id that the other entity must have, "" for any.
	ID string

	match condition // nil if the fields above say everything about the other entity
}

// Decided reports whether Match is true for every entity, so that a [View] need not get the other
// one.
func (r *Relation) Decided() bool { return r.match == nil }

// Match reports whether the entity at the other end matches the condition. It does not check Type,
// Direction and ID. Properties of the relation are looked up in other, as paths with
// [RootRelation]. If Decided, other may be nil.
//
// Each call counts as a visit: when e has none left, Match returns false.
func (r *Relation) Match(other View, e *Env) bool {
	if !e.visit() {
		return false
	}
	return r.match == nil || r.match(other, e)
}

// Env is what matches depend on besides the entity. It must not be used concurrently. Use one for
// as many matches as should see the same time and share a budget. The zero Env has the time 0 and
// the default budget.
type Env struct {
	// Now is the time that now and age mean, in milliseconds since the epoch.
	Now int64
	// MaxVisits is how many related entities all matches with this Env may examine together; 0
	// means DefaultVisits.
	MaxVisits int

	visits  int
	failure error // the first of the computation that is under way
}

// fail notes why a computation has no value, and returns none.
func (e *Env) fail(err error) value.Value {
	if e.failure == nil {
		e.failure = err
	}
	return value.Value{}
}

// Err returns nil, or an error that wraps ErrVisits if the budget was used up.
func (e *Env) Err() error {
	if e.visits <= e.budget() {
		return nil
	}
	return fmt.Errorf("%w: more than %d; ask for less at once, or name the related entity by its id", ErrVisits, e.budget())
}

func (e *Env) budget() int {
	if e.MaxVisits > 0 {
		return e.MaxVisits
	}
	return DefaultVisits
}

func (e *Env) visit() bool {
	if e.visits <= e.budget() {
		e.visits++
	}
	return e.visits <= e.budget()
}
