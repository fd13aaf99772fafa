package eventbus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Forwarder takes events of a bus to other ones, such as those of other nodes: package cluster has one. Its
// methods are called on the goroutines of publishers and subscribers, several at a time, with no lock held.
// They must be quick and must not wait.
type Forwarder interface {
	// Forward is given each event that is published to the bus, once, if the Forwarder's patterns stand for its
	// topic: before the subscriptions get it, and so in the order of each publisher. It may keep the event,
	// which nobody changes. After the subscriptions have got the event, Publish fails with the error.
	Forward(ctx context.Context, c Forwarded) error
	// Changed says that [Forwarding.Patterns] may have changed.
	Changed()
}

// Forwarded is an event between two buses.
type Forwarded struct {
	Topic string // a pattern if All is set
	Event any
	All   bool // it is from [PublishAll]
}

// Forwarding is a bus as its [Forwarder] sees it. [Bus.Forward] makes one. It is safe for concurrent use.
type Forwarding struct {
	bus       *Bus
	forwarder Forwarder
	patterns  []string // immutable
}

// Forward passes the events whose topics the patterns stand for to a [Forwarder], until [Forwarding.End]. An event
// of [PublishAll] is one of those if one pattern stands for all its topics. Two Forwarders of a bus must not have a
// topic in common, so that nothing comes twice.
//
// It fails with [ErrTopic] for an invalid pattern, with [ErrClosed], and if another Forwarder has some of the
// topics.
func (b *Bus) Forward(c Forwarder, patterns ...string) (*Forwarding, error) {
	for _, p := range patterns {
		if err := CheckPattern(p); err != nil {
			return nil, fmt.Errorf("forward events: %w", err)
		}
	}
	forwarding := &Forwarding{bus: b, forwarder: c, patterns: slices.Clone(patterns)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return nil, fmt.Errorf("forward events: %w", ErrClosed)
	}
	others := b.forwarded()
	for _, other := range others {
		for _, theirs := range other.patterns {
			for _, p := range patterns {
				if _, ok := intersect(p, theirs); ok {
					return nil, fmt.Errorf("forward events: pattern %q has topics in common with %q, which another forwarder of the bus has", p, theirs)
				}
			}
		}
	}
	all := append(slices.Clone(others), forwarding)
	b.forwardings.Store(&all)
	return forwarding, nil
}

// End ends it: what is published from now on is not forwarded. Further calls do nothing.
func (c *Forwarding) End() {
	c.bus.mu.Lock()
	defer c.bus.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(c.bus.forwarded()), func(other *Forwarding) bool { return other == c })
	c.bus.forwardings.Store(&left)
}

// Patterns returns what subscriptions of the bus stand for, as far as the Forwarder's patterns do as well:
// patterns, each once and in order. It looks at all patterns of the bus.
func (c *Forwarding) Patterns() []string {
	c.bus.mu.Lock()
	all := slices.Collect(maps.Keys(c.bus.patterns))
	c.bus.mu.Unlock()
	var list []string
	for _, p := range all {
		for _, own := range c.patterns {
			if both, ok := intersect(p, own); ok {
				list = append(list, both)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Deliver gives an event from elsewhere to the subscriptions of the bus. It is neither retained nor forwarded
// on, and does not wait: a subscription whose full buffer has the policy Block does not get it. An event that
// is not for the Forwarder's patterns is dropped. The errors are those of [Publish] and [PublishAll].
func (c *Forwarding) Deliver(ctx context.Context, e Forwarded) error {
	checked, find := CheckTopic, c.bus.trie.root.match
	if e.All {
		checked, find = CheckPattern, c.bus.trie.root.overlap
	}
	if err := checked(e.Topic); err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	if c.bus.closed.Load() {
		return fmt.Errorf("deliver %s: %w", e.Topic, ErrClosed)
	}
	if !c.takes(e.Topic) {
		return nil
	}
	return c.bus.deliver(ctx, find(e.Topic, nil), delivery{topic: e.Topic, event: e.Event, hurried: true})
}

// takes reports whether one of the patterns stands for a topic, or for all those of a pattern.
func (c *Forwarding) takes(topic string) bool {
	return slices.ContainsFunc(c.patterns, func(p string) bool { return covers(p, topic) })
}

// forwarded returns the forwardings of the bus. The slice does not change.
func (b *Bus) forwarded() []*Forwarding {
	if all := b.forwardings.Load(); all != nil {
		return *all
	}
	return nil
}

// forward gives an event to the forwarder that takes its topic.
func (b *Bus) forward(ctx context.Context, e Forwarded) error {
	for _, c := range b.forwarded() {
		if !c.takes(e.Topic) {
			continue
		}
		if err := c.forwarder.Forward(ctx, e); err != nil {
			return fmt.Errorf("publish %s: %w", e.Topic, err)
		}
	}
	return nil
}

// changed says so to the forwarders.
func (b *Bus) changed() {
	for _, c := range b.forwarded() {
		c.forwarder.Changed()
	}
}

// intersect returns the pattern for the topics that two patterns stand for, and reports whether there are any.
func intersect(p, q string) (both string, ok bool) {
	var tokens []string
	for {
		pToken, pRest, pMore := cut(p)
		qToken, qRest, qMore := cut(q)
		switch {
		case pToken == ">" && !pMore:
			return strings.Join(append(tokens, q), "."), true
		case qToken == ">" && !qMore:
			return strings.Join(append(tokens, p), "."), true
		case pToken == "*":
			tokens = append(tokens, qToken)
		case qToken == "*", pToken == qToken:
			tokens = append(tokens, pToken)
		default:
			return "", false
		}
		if pMore != qMore {
			return "", false
		}
		if !pMore {
			return strings.Join(tokens, "."), true
		}
		p, q = pRest, qRest
	}
}
