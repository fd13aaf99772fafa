package series

import (
	"fmt"
	"slices"
)

// Rule says how long the values of a key are kept, as they came and as rollups: raw for 7 days,
// rows of 5 minutes for 90 days, rows of an hour forever. It is plain data; as JSON it is
// {"type":"meter","key":"power","raw":"7d",
// "tiers":[{"step":"5m","keep":"90d"},{"step":"1h","percentiles":true}]}.
type Rule struct {
	// Type and Key say what the rule covers: the keys of this name of entities of this type. ""
	// stands for any.
	Type string `json:"type,omitempty"`
	Key  string `json:"key,omitempty"`
	// Raw is how long the values themselves are kept after their time; 0 means forever.
	Raw Span `json:"raw,omitempty"`
	// Grace is how long after its end a row is made: late values that come before that cost nothing
	// more. It defaults to 0.
	Grace Span `json:"grace,omitempty"`
	// Tiers are the rollups, from short to long steps. Each is made from the one before it, the
	// first from the values.
	Tiers []Tier `json:"tiers,omitempty"`
}

// Tier is one rollup of a rule.
type Tier struct {
	// Step is the length of a row, whose edges are multiples of it since 1970 in UTC. The step of a
	// later tier is a multiple of the one before.
	Step Span `json:"step"`
	// Keep is how long a row is kept after its end; 0 means forever. A later tier must be kept at
	// least as long as the one before.
	Keep Span `json:"keep,omitempty"`
	// Percentiles says that rows have percentiles, which takes some hundred bytes a row. A tier
	// with percentiles needs them in the tier before it, too.
	Percentiles bool `json:"percentiles,omitempty"`
}

// Limits of rules.
const (
	// MaxTiers bounds the tiers of a rule.
	MaxTiers = 8
	// MaxSpan bounds each span of a rule: 1000 years.
	MaxSpan Span = 365_250 * dayMillis
)

// Check returns an error if the rule is not valid. It wraps ErrInvalid.
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

// Policy has the rules of a system.
type Policy []Rule

// Check returns an error if one of the rules is not valid, or if two cover the same. It wraps
// ErrInvalid.
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

// For returns the rule for a key of an entity, given the entity's type and those it extends, the
// nearest first. Rules that name the key take precedence over those that do not; among these, the
// one for the nearest type does. If no rule matches, For returns the zero Rule: kept forever.
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
