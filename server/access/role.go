package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/filter"
)

// Action is what somebody wants to do.
type Action uint8

const (
	// Read is to see an entity: its values, attributes, relations and history.
	Read Action = iota
	// Report is to say what an entity measures, and what it reports of itself.
	Report
	// Write is to make, change and remove entities. Over all entities it is also
	// to change the setup: types, mappings, saved queries, retention.
	Write
	// Manage is to say who may do what. It is always about everything.
	Manage
	// Receive is to get the commands of an entity over a connection, as its device. Who may
	// do everything else may not do this: who looks on must not take a command away.
	Receive

	actions = iota
)

// String returns what a principal that may do it can do.
func (a Action) String() string {
	return [...]string{"read", "report for", "write", "manage", "get the commands of"}[a]
}

// Role is a set of actions.
type Role string

const (
	// Viewer may read.
	Viewer Role = "viewer"
	// Device may read, report and receive. Without a filter it is about the one entity that
	// has the name of the principal.
	Device Role = "device"
	// Operator may read, report and write.
	Operator Role = "operator"
	// Admin may do everything, with everything, but Receive.
	Admin Role = "admin"
)

// Roles are all roles.
func Roles() []Role { return []Role{Admin, Operator, Viewer, Device} }

// allows reports whether a role has an action.
func (r Role) allows(a Action) bool {
	switch r {
	case Viewer:
		return a == Read
	case Device:
		return a == Read || a == Report || a == Receive
	case Operator:
		return a != Manage && a != Receive
	case Admin:
		return a != Receive
	default:
		return false
	}
}

// Grant is a role over entities.
type Grant struct {
	Role Role `json:"role"`
	// Filter says over which entities, in the language of package filter, by id, type
	// and attributes. The empty one is all entities, and for Device the one of the
	// principal's name.
	Filter string `json:"filter,omitempty"`
}

// MaxFilterBytes bounds the filters of all grants of a principal together.
const MaxFilterBytes = 4 << 10

// grant is a Grant, compiled.
type grant struct {
	role   Role
	text   string         // of the filter; "" for all
	filter *filter.Filter // nil for all
	own    string         // the one entity that it is about; "" for those of filter
	byID   bool           // filter looks at nothing but the id
}

// errGrantFilter says what the filter of a grant may look at. What a device can change
// by itself, or what changes by itself, must not widen a grant.
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
