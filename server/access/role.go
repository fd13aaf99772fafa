package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/filter"
)

// Action is something that a principal may be permitted to do. The zero Action is
// permitted to nobody.
type Action uint8

const (
	// Read permits reading an entity: its values, attributes, relations and history.
	Read Action = iota + 1
	// Report permits sending an entity's readings and its reported attributes.
	Report
	// Write permits creating, changing and deleting entities. For all entities, it also
	// permits changing types, mappings, saved queries and retention rules.
	Write
	// Manage permits changing principals and grants. It always applies to everything.
	Manage
	// Receive permits receiving an entity's commands over a connection, as its device. Not even
	// Admin includes it: an observer must not take a command from the device.
	Receive

	actions = iota + 1
)

// String returns the action as a verb.
func (a Action) String() string {
	return [...]string{"", "read", "report for", "write", "manage", "get the commands of"}[a]
}

// Role is a set of actions.
type Role string

const (
	// Viewer may read.
	Viewer Role = "viewer"
	// Device may read, report and receive. Without a filter it applies to the entity whose id is
	// the principal's name.
	Device Role = "device"
	// Operator may read, report and write.
	Operator Role = "operator"
	// Admin may do everything except Receive, with every entity.
	Admin Role = "admin"
)

// Roles lists all roles.
func Roles() []Role { return []Role{Admin, Operator, Viewer, Device} }

// allows reports whether a role includes an action.
func (r Role) allows(a Action) bool {
	switch r {
	case Viewer:
		return a == Read
	case Device:
		return a == Read || a == Report || a == Receive
	case Operator:
		return a == Read || a == Report || a == Write
	case Admin:
		return a != 0 && a != Receive
	default:
		return false
	}
}

// Grant gives a role for entities.
type Grant struct {
	Role Role `json:"role"`
	// Filter selects the entities by id, type and attributes, in the language of package
	// filter. The empty filter selects all entities, and for Device the one whose id is the
	// principal's name.
	Filter string `json:"filter,omitempty"`
}

// MaxFilterBytes is the most bytes that the filters of a principal's grants may have together.
const MaxFilterBytes = 4 << 10

// grant is a Grant, compiled.
type grant struct {
	role   Role
	text   string         // of the filter; "" for all
	filter *filter.Filter // nil for all
	own    string         // the one entity that it is about; "" for those of filter
	byID   bool           // filter looks at nothing but the id
}

// errGrantFilter says what a grant's filter may refer to. What a device can change, or what
// changes with time, must not widen a grant.
var errGrantFilter = errors.New(`the filter of a grant may look at id, type and attributes only, as in id like "hall-3-%" or attributes.building = "A"`)

// compile checks a grant of a principal.
func (g *Grant) compile(name string) (grant, error) {
	c := grant{role: g.Role, text: strings.TrimSpace(g.Filter)}
	switch {
	case !slices.Contains(Roles(), g.Role):
		return c, fmt.Errorf("%w: role must be admin, operator, viewer or device, not %.32q", ErrInvalid, g.Role)
	case g.Role == Admin && c.text != "":
		return c, fmt.Errorf("%w: an admin has no filter: who says what others may do may do everything", ErrInvalid)
	case g.Role == Device && c.text == "":
		c.own, c.text = name, `id = "`+name+`"`
	}
	if c.text == "" {
		return c, nil
	}
	var err error
	if c.filter, err = filter.Parse(c.text); err != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c.byID = true
	for _, p := range c.filter.Paths() {
		switch p.Root {
		case filter.RootID:
		case filter.RootType, filter.RootAttributes:
			c.byID = false
		default:
			return c, fmt.Errorf("%w: %w, not at %v", ErrInvalid, errGrantFilter, *p)
		}
	}
	if c.filter.Depends() != (filter.Depends{}) {
		return c, fmt.Errorf("%w: %w", ErrInvalid, errGrantFilter)
	}
	return c, nil
}
