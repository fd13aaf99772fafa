package alarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// Rule says when an alarm is raised for an entity and when it clears.
type Rule struct {
	Name string
	// Type, Entity and Where say to which entities the rule applies: those of a type and of the
	// types that extend it, a single one, those for which a condition about id, type and attributes
	// holds. All of these must hold; "" means no restriction.
	Type, Entity, Where string
	// Raise is the condition that raises an alarm. It may use keys and the attributes, id and type
	// of the entity. If Raise or Clear uses presence, updated, now or an age, the rule is about
	// what is known at each moment by the server's clock, not about the times of the readings.
	Raise string
	// Clear is the condition that clears it; "" means that Raise does not hold. While Raise holds
	// the alarm does not clear, whatever Clear says.
	Clear string
	// For is how long Raise must hold, and ClearFor how long Clear, by the time of the
	// readings, or by the server's clock, in whole milliseconds.
	For, ClearFor time.Duration
	Severity      Severity
	// Message is the text for people.
	Message string
	// Webhooks are the names of the webhooks that are notified of each alarm of the rule.
	Webhooks []string
}

// rule is a compiled Rule.
type rule struct {
	Installed
	raise, clear, where *filter.Filter // clear and where may be nil
	raiseFor, clearFor  int64
	keys                []int       // slots of the keys that the conditions read
	numbers             [][]float64 // by index in keys, the numbers with which the conditions compare the value
	leaves              bool        // the conditions read attributes as well
	types               bool        // the conditions or where use the type
	judges              bool        // the conditions use the type
	bit                 int         // see index
	exact               []int       // those of keys with whose value the conditions do more than compare it with numbers
	removed             bool
	ready               bool   // nothing of an earlier rule of the same name is left
	swept               string // while Pending, the last entity that was examined
	missed              bool   // while Pending, readings may have been missed, since the time since
	since               int64
	retyped             bool // while Pending, types have changed, so that entities of all types are looked at
	waits               bool // it is not ready, and is not evaluated for readings meanwhile

	live                   bool // it uses the clock or presence, see live.go
	presence               bool // the conditions use presence
	updated                int  // the slot of updated, 0 if the conditions do not use it
	raiseTurns, clearTurns *filter.Turns
	awaits                 map[string]*await // by entity
	refused                bool              // there was no room for some
	broken                 bool              // the stored rule cannot be compiled; it stays stored
}

// Installed is a rule as the service keeps it.
type Installed struct {
	Rule
	// Version increases with each change of the rule, and Updated is when that was.
	Version, Updated int64
	// Effective is since when the conditions have been as they are, in milliseconds since the
	// epoch.
	Effective int64
	// ETag is the version for conditions of writes.
	ETag string
	// Pending says that the rule has not yet been evaluated for all entities since then.
	Pending bool
}

var (
	errLooksElsewhere = errors.New("may look at keys, id, type, created, updated, attributes, desired, reported and presence")
	errOthers         = errors.New("must not depend on relations")
	errTime           = errors.New("must not depend on now, on an age or on relations")
	errUnforeseen     = errors.New("must do no more with now and with ages than to add, to subtract and to compare, as in age(temperature) > 10m")
	errSeen           = errors.New("must not look at presence.seen, of which each message is not told; age(updated) says how old the last reading is")
	errScope          = errors.New("may look at id, type, created, attributes, desired and reported only")
)

// Check returns an error if the rule is not valid. The error wraps [entity.ErrInvalid]; an error
// about a condition is a *ConditionError if it has a place in the text.
func (r *Rule) Check() error {
	_, err := compile(Installed{Rule: *r}, newSlots().of)
	return err
}

// CheckName returns an error if a rule or a webhook cannot have a name.
func CheckName(what, name string) error {
	if n := len(name); n == 0 || n > MaxNameBytes || !utf8.ValidString(name) {
		return fmt.Errorf("%s: %w: must have 1 to %d bytes of UTF-8, not %d", what, entity.ErrInvalid, MaxNameBytes, n)
	}
	if i := strings.IndexFunc(name, func(c rune) bool { return c == '/' || unicode.IsControl(c) }); i >= 0 {
		return fmt.Errorf("%s %q: %w: must not have a control character or a /", what, name, entity.ErrInvalid)
	}
	return nil
}

// compile checks a rule and compiles it to closures. slot returns the slot of a path.
func compile(in Installed, slot func(*filter.Path) int) (*rule, error) {
	r := &rule{Installed: in, raiseFor: in.For.Milliseconds(), clearFor: in.ClearFor.Milliseconds()}
	if err := in.checkPlain(); err != nil {
		return nil, err
	}
	var err error
	if r.raise, err = r.condition("raise", in.Raise, slot, errLooksElsewhere, filter.RootLatest, filter.RootUpdated, filter.RootPresence); err != nil {
		return nil, err
	}
	if len(r.raise.Paths()) == 0 {
		return nil, fmt.Errorf("raise: %w: must look at a value of the entity, as in temperature > 80", entity.ErrInvalid)
	}
	if strings.TrimSpace(in.Clear) != "" {
		if r.clear, err = r.condition("clear", in.Clear, slot, errLooksElsewhere, filter.RootLatest, filter.RootUpdated, filter.RootPresence); err != nil {
			return nil, err
		}
		r.clearTurns, _ = r.clear.Turns()
	}
	if strings.TrimSpace(in.Where) != "" {
		if r.where, err = r.condition("where", in.Where, slot, errScope); err != nil {
			return nil, err
		}
		r.types = looksAtType(r.where)
	}
	r.raiseTurns, _ = r.raise.Turns()
	r.judges = looksAtType(r.raise) || r.clear != nil && looksAtType(r.clear)
	r.types = r.types || r.judges
	if len(r.keys) > MaxRuleKeys {
		return nil, fmt.Errorf("raise: %w: the conditions read %d keys; at most %d are allowed", entity.ErrInvalid, len(r.keys), MaxRuleKeys)
	}
	r.compareOnly()
	return r, nil
}

// checkPlain checks all but the conditions.
func (r *Rule) checkPlain() error {
	if err := CheckName("name", r.Name); err != nil {
		return err
	}
	if r.Entity != "" {
		if err := entity.CheckID(r.Entity); err != nil {
			return fmt.Errorf("entity: %w", err)
		}
	}
	if len(r.Type) > entity.MaxTypeBytes {
		return fmt.Errorf("type: %w: must have at most %d bytes, not %d", entity.ErrInvalid, entity.MaxTypeBytes, len(r.Type))
	}
	if n := len(r.Message); n > MaxMessageBytes || !utf8.ValidString(r.Message) {
		return fmt.Errorf("message: %w: must have at most %d bytes of UTF-8, not %d", entity.ErrInvalid, MaxMessageBytes, n)
	}
	if r.Severity < Critical || r.Severity > Info {
		return fmt.Errorf("severity: %w: must be one of %s", entity.ErrInvalid, strings.Join(SeverityNames(), ", "))
	}
	for _, d := range []struct {
		what string
		d    time.Duration
	}{{"for", r.For}, {"clear_for", r.ClearFor}} {
		if d.d < 0 || d.d > MaxFor || d.d%time.Millisecond != 0 {
			return fmt.Errorf("%s: %w: must be from 0 to %v in whole milliseconds, not %v", d.what, entity.ErrInvalid, MaxFor, d.d)
		}
	}
	if n := len(r.Webhooks); n > MaxRuleWebhooks {
		return fmt.Errorf("webhooks: %w: must be at most %d, not %d", entity.ErrInvalid, MaxRuleWebhooks, n)
	}
	for _, name := range r.Webhooks {
		if err := CheckName("webhooks", name); err != nil {
			return err
		}
	}
	return nil
}

// condition compiles one condition, which may use the roots allowed to all conditions and some
// more.
func (r *rule) condition(in, text string, slot func(*filter.Path) int, other error, more ...filter.Root) (*filter.Filter, error) {
	if len(text) > MaxConditionBytes {
		return nil, fmt.Errorf("%s: %w: must have at most %d bytes, not %d", in, entity.ErrInvalid, MaxConditionBytes, len(text))
	}
	f, err := filter.Parse(text)
	if err != nil {
		if place, ok := errors.AsType[*filter.Error](err); ok {
			return nil, &ConditionError{in, place}
		}
		return nil, fmt.Errorf("%s: %w: %w", in, entity.ErrInvalid, err)
	}
	switch d := f.Depends(); {
	case len(more) == 0 && d != (filter.Depends{}):
		return nil, fmt.Errorf("%s: %w: %w", in, entity.ErrInvalid, errTime)
	case d.Relations || d.Related:
		return nil, fmt.Errorf("%s: %w: %w", in, entity.ErrInvalid, errOthers)
	case d.Clock:
		if _, ok := f.Turns(); !ok {
			return nil, fmt.Errorf("%s: %w: %w", in, entity.ErrInvalid, errUnforeseen)
		}
		r.live = true
	}
	for _, p := range f.Paths() {
		switch p.Root {
		case filter.RootID, filter.RootType, filter.RootCreated, filter.RootAttributes, filter.RootDesired, filter.RootReported:
		default:
			if !slices.Contains(more, p.Root) {
				return nil, fmt.Errorf("%s: %w: %w, not at %v", in, entity.ErrInvalid, other, *p)
			}
			if p.Root == filter.RootPresence && p.Name == filter.PresenceSeen {
				return nil, fmt.Errorf("%s: %w: %w", in, entity.ErrInvalid, errSeen)
			}
			r.presence = r.presence || p.Root == filter.RootPresence
			r.live = r.live || p.Root != filter.RootLatest
		}
	}
	return f.Bind(func(p filter.Path) int { return r.bind(&p, slot) }), nil
}

// bind assigns a path its slot, and records what the rule reads.
func (r *rule) bind(p *filter.Path, slot func(*filter.Path) int) int {
	switch p.Root {
	case filter.RootLatest:
		n := slot(p)
		if !slices.Contains(r.keys, n) {
			r.keys = append(r.keys, n)
		}
		return n
	case filter.RootAttributes, filter.RootDesired, filter.RootReported:
		r.leaves = true
		return slot(p)
	case filter.RootUpdated:
		r.updated = slot(p)
		return r.updated
	default:
		return 0
	}
}

func looksAtType(f *filter.Filter) bool {
	return slices.ContainsFunc(f.Paths(), func(p *filter.Path) bool { return p.Root == filter.RootType })
}

// compareOnly determines the numbers with which the conditions compare each key, and for which keys
// they do more than that.
func (r *rule) compareOnly() {
	r.numbers = make([][]float64, len(r.keys))
	for i, slot := range r.keys {
		only := true
		for _, f := range []*filter.Filter{r.raise, r.clear} {
			if f == nil {
				continue
			}
			for _, p := range f.Paths() {
				if p.Root == filter.RootLatest && p.Slot == slot {
					numbers, is := f.Thresholds(p)
					r.numbers[i], only = append(r.numbers[i], numbers...), only && is
				}
			}
		}
		if !only {
			r.exact = append(r.exact, slot)
		}
	}
}

// sameConditions reports whether two rules raise and clear the same alarms.
func (r *Rule) sameConditions(o *Rule) bool {
	return r.Type == o.Type && r.Entity == o.Entity && r.Where == o.Where && r.Raise == o.Raise && r.Clear == o.Clear &&
		r.For == o.For && r.ClearFor == o.ClearFor
}
