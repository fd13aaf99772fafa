package eventbus

import (
	"fmt"
	"slices"
	"sync"
)

// retained keeps the last event of the topics that the bus retains.
//
// Its events are numbered in the order in which they were kept. A subscription gets
// what is kept at the moment at which it becomes known, and the number of that moment; what reaches it later with
// a smaller number it has already, or something newer in its place. All else has been published later than
// what it gets at first: so nothing overtakes.
type retained struct {
	patterns []string // immutable

	mu     sync.Mutex          // Bus.mu may be acquired while holding it
	number uint64              // of the last one kept
	last   map[string]delivery // by topic
}

// Retain makes the bus keep the last event of each topic that one of the patterns
// matches; ">" matches all topics. A new subscription at once gets the retained events
// of its topics and type, in the order in which they were published. This takes the
// memory of one event for each topic ever used: see [Forget]. Retain panics if a pattern
// is invalid.
func Retain(patterns ...string) Option {
	for _, p := range patterns {
		if err := CheckPattern(p); err != nil {
			panic(fmt.Sprintf("eventbus: Retain: %v", err))
		}
	}
	return func(b *Bus) { b.retained.patterns = append(b.retained.patterns, patterns...) }
}

// Last returns the retained event of a topic. It returns false if there is none, or if
// it has another type.
func Last[Ev any](b *Bus, topic string) (Ev, bool) {
	b.retained.mu.Lock()
	defer b.retained.mu.Unlock()
	event, ok := b.retained.last[topic].event.(Ev)
	return event, ok
}

// Forget drops the retained event of a topic and reports whether there was one.
// Subscribers that have got the event are not notified.
func Forget(b *Bus, topic string) bool {
	b.retained.mu.Lock()
	defer b.retained.mu.Unlock()
	_, ok := b.retained.last[topic]
	delete(b.retained.last, topic)
	return ok
}

// keep retains an event if its topic is to be retained, and returns its number, else 0.
func (r *retained) keep(topic string, event any) (number uint64) {
	if !slices.ContainsFunc(r.patterns, func(p string) bool { return Match(p, topic) }) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[string]delivery)
	}
	r.number++
	r.last[topic] = delivery{topic: topic, event: event, number: r.number}
	return r.number
}

// enter makes a subscription known, as [Bus.enter] does, and returns what is kept for it, in no order, and the
// number of that moment.
func (r *retained) enter(s *Subscription) (kept []delivery, number uint64, isNew bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if isNew, err = s.bus.enter(s); err != nil {
		return nil, 0, false, err
	}
	for topic, d := range r.last {
		if Match(s.pattern, topic) {
			kept = append(kept, d)
		}
	}
	return kept, r.number, isNew, nil
}

func (r *retained) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.last)
}
