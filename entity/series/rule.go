package series

import (
	"fmt"
	"slices"
)

// Rule says how long the values of a key are kept, as they came and as rollups:
// raw for 7 days, rows of 5 minutes for 90 days, rows of an hour for ever. It is
// plain data; as JSON it is {"type":"meter","key":"power","raw":"7d","tiers":
// [{"step":"5m","keep":"90d"},{"step":"1h","percentiles":true}]}.
type Rule struct {
	// Type and Key say what the rule is about: the keys of this name of entities
	// of this type. "" is any.
	Type string `json:"type,omitempty"`
	Key  string `json:"key,omitempty"`
	// Raw is how long the values themselves are kept after their time; 0 is for
	// ever.
	Raw Span `json:"raw,omitempty"`
	// Grace is how long after its end a row is made: late values that come before
	// that cost nothing more. Defaults to 0.
	Grace Span `json:"grace,omitempty"`
	// Tiers are the rollups, each made of the one before, the first of the
	// values: from short to long steps.
	Tiers []Tier `json:"tiers,omitempty"`
}

// Tier is one rollup of a rule.
type Tier struct {
	// Step is the length of a row, whose edges are multiples of it since 1970 in
	// UTC. That of a later tier is a multiple of that of the one before.
	Step Span `json:"step"`
	// Keep is how long a row is kept after its end; 0 is for ever. A later tier
	// is kept as long as the one before or longer.
	Keep Span `json:"keep,omitempty"`
	// Percentiles says that rows can tell percentiles, for some hundred bytes a
	// row. A tier that does needs one before it that does.
	Percentiles bool `json:"percentiles,omitempty"`
}

// Limits of rules.
const (
	// MaxTiers bounds the tiers of a rule.
	MaxTiers = 8
	// MaxSpan bounds each span of a rule: 1000 years.
	MaxSpan Span = 365_250 * dayMillis
)

// Check tells what is wrong with the rule. The error wraps ErrInvalid.
func (r *Rule) Check() error {
	switch {
	case r.Raw < 0 || r.Raw > MaxSpan || r.Grace < 0 || r.Grace > MaxSpan:
		return r.invalid("raw and grace must be from 0 to %v, not %v and %v", MaxSpan, r.Raw, r.Grace)
	case len(r.Tiers) > MaxTiers:
		return r.invalid("%d tiers; at most %d are allowed", len(r.Tiers), MaxTiers)
	case r.Raw == 0 && len(r.Tiers) == 0 && r.Grace != 0:
		return r.invalid("a grace without tiers")
	}
	before := Tier{Step: 1, Keep: r.Raw, Percentiles: true}
	for i, t := range r.Tiers {
		switch {
		case t.Step < 1 || t.Step > MaxSpan || t.Keep < 0 || t.Keep > MaxSpan:
			return r.invalid("tier %d: step must be from 1ms to %v and keep from 0 to %v, not %v and %v", i, MaxSpan, MaxSpan, t.Step, t.Keep)
		case t.Step%before.Step != 0 || i > 0 && t.Step == before.Step:
			return r.invalid("tier %d: the step %v is not a multiple of the one before, %v", i, t.Step, before.Step)
		case t.Keep != 0 && (before.Keep == 0 || t.Keep < before.Keep):
			return r.invalid("tier %d: it is kept for %v, less long than what is finer, %v", i, t.Keep, forever(before.Keep))
		case before.Keep != 0 && before.Keep < t.Step+r.Grace:
			return r.invalid("tier %d: what it is made of is kept for %v, less than its step of %v and the grace of %v", i, before.Keep, t.Step, r.Grace)
		case t.Percentiles && !before.Percentiles:
			return r.invalid("tier %d: it has percentiles and the tier before has none", i)
		}
		before = t
	}
	return nil
}

func (r *Rule) invalid(format string, args ...any) error {
	return fmt.Errorf("retention of %s: %w: %s", r.name(), ErrInvalid, fmt.Sprintf(format, args...))
}

// name is what the rule is about, for messages.
func (r *Rule) name() string {
	name := r.Key
	if name == "" {
		name = "every key"
	}
	if r.Type != "" {
		name += " of " + r.Type
	}
	return name
}

func forever(s Span) string {
	if s == 0 {
		return "ever"
	}
	return s.String()
}

// Policy is the rules of a system.
type Policy []Rule

// Check tells what is wrong with one of the rules, or that two are about the
// same. The error wraps ErrInvalid.
func (p Policy) Check() error {
	for i := range p {
		if err := p[i].Check(); err != nil {
			return err
		}
		if slices.ContainsFunc(p[:i], func(r Rule) bool { return r.Type == p[i].Type && r.Key == p[i].Key }) {
			return p[i].invalid("there are two rules")
		}
	}
	return nil
}

// For returns the rule for a key of an entity, given the entity's type and those
// it extends, the nearest first. A rule that names the key comes before one that
// does not, and among those the one of the nearest type. Without any it is the
// zero Rule: kept for ever.
func (p Policy) For(types []string, key string) Rule {
	best, found := Rule{}, len(types)*2+4
	for _, r := range p {
		if r.Key != "" && r.Key != key {
			continue
		}
		rank := len(types)
		if r.Type != "" {
			rank = slices.Index(types, r.Type)
		}
		if rank < 0 {
			continue
		}
		if r.Key == "" {
			rank += len(types) + 1
		}
		if rank < found {
			best, found = r, rank
		}
	}
	return best
}
