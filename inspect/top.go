package inspect

import (
	"cmp"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	// looked bounds how many actors one request looks at.
	looked = 200_000
	// topShown is how many are shown of them.
	topShown = 100
	// rateOver is how long the rates of messages are measured.
	rateOver = time.Second
)

// survey is how many of the actors a page is about.
type survey struct {
	// How many actors were examined.
	Looked int `json:"looked"`
	// There are more actors than those examined.
	More bool `json:"more"`
}

// actors returns the actors of a system, as many as one request looks at.
func (s *survey) actors(sys *actor.System) iter.Seq[actor.Info] {
	return func(yield func(actor.Info) bool) {
		for i := range sys.Actors() {
			if s.More = s.Looked == looked; s.More {
				return
			}
			if s.Looked++; !yield(i) {
				return
			}
		}
	}
}

// Busy is one of the actors at the top of a measure.
type Busy struct {
	Actor
	// The messages that it handled in a second; only if the order is by rate.
	Rate float64 `json:"rate,omitempty"`
}

// topPage has the actors with the most of something, most first.
type topPage struct {
	By     string   `json:"by"`
	Orders []string `json:"-"`
	Actors []Busy   `json:"actors"`
	survey
}

// orders are the measures by which actors are ordered.
var orders = map[string]func(*Busy) float64{
	"children": func(b *Busy) float64 { return float64(b.Children) },
	"handled":  func(b *Busy) float64 { return float64(b.Handled) },
	"mailbox":  func(b *Busy) float64 { return float64(b.Mailbox) },
	"rate":     func(b *Busy) float64 { return b.Rate },
	"restarts": func(b *Busy) float64 { return float64(b.Restarts) },
}

// top looks at the actors, twice where the order is by rate.
func (in *inspector) top(r *http.Request) (any, error) {
	p := &topPage{By: cmp.Or(r.URL.Query().Get("by"), "mailbox"), Orders: slices.Sorted(maps.Keys(orders)), Actors: []Busy{}}
	measure := orders[p.By]
	if measure == nil {
		return nil, refusef(http.StatusBadRequest, "by must be one of %s, not %q", strings.Join(p.Orders, ", "), p.By)
	}
	var before map[string]uint64
	began := time.Now()
	if p.By == "rate" {
		before = make(map[string]uint64)
		for i := range new(survey).actors(in.sys) {
			before[i.PID] = i.Handled
		}
		select {
		case <-time.After(rateOver):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	for i := range p.actors(in.sys) {
		b := Busy{Actor: newActor(&i)}
		if handled, ok := before[i.PID]; ok {
			b.Rate = float64(i.Handled-handled) / time.Since(began).Seconds()
		}
		if measure(&b) > 0 {
			p.Actors = append(p.Actors, b)
		}
		if len(p.Actors) == 2*topShown {
			p.Actors = most(p.Actors, measure)
		}
	}
	p.Actors = most(p.Actors, measure)
	return p, nil
}

// most returns the first of the actors by a measure, of those with the same by their PIDs.
func most(list []Busy, measure func(*Busy) float64) []Busy {
	slices.SortFunc(list, func(a, b Busy) int {
		return cmp.Or(cmp.Compare(measure(&b), measure(&a)), cmp.Compare(a.PID, b.PID))
	})
	return list[:min(len(list), topShown)]
}

// Wait is an actor whose handler waits for the answer of another actor.
type Wait struct {
	// The chain of waiting actors, each waiting for the next one. The last one does not wait,
	// unless it is in the chain twice.
	Chain []actor.PID `json:"chain"`
	// The last actor of the chain waits for one before it.
	Cycle bool `json:"cycle"`
}

const (
	waitsShown = 200
	// chainMost bounds the length of a chain that is shown.
	chainMost = 32
)

// waitsPage has the longest chains first.
type waitsPage struct {
	Waits []Wait `json:"waits"`
	// How many handlers of the examined actors wait.
	Total int `json:"total"`
	survey
}

// waits follows who waits for whom. Chains begin with those for whom nobody waits, or anywhere in a
// cycle.
func (in *inspector) waits(*http.Request) (any, error) {
	p := &waitsPage{Waits: []Wait{}}
	next, awaited := make(map[actor.PID]actor.PID), make(map[actor.PID]bool)
	for i := range p.actors(in.sys) {
		if i.Waits.IsZero() {
			continue
		}
		if pid, err := actor.ParsePID(i.PID); err == nil {
			next[pid], awaited[i.Waits] = i.Waits, true
		}
	}
	p.Total = len(next)
	seen := make(map[actor.PID]bool)
	follow := func(from actor.PID) {
		w := Wait{Chain: []actor.PID{from}}
		for at, on := next[from]; on && len(w.Chain) < chainMost && !w.Cycle; at, on = next[at] {
			w.Cycle = slices.Contains(w.Chain, at)
			w.Chain = append(w.Chain, at)
			seen[at] = true
		}
		seen[from] = true
		p.Waits = append(p.Waits, w)
	}
	for pid := range next {
		if !awaited[pid] {
			follow(pid)
		}
	}
	for pid := range next {
		if !seen[pid] {
			follow(pid)
		}
	}
	slices.SortFunc(p.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(len(b.Chain), len(a.Chain)), cmp.Compare(a.Chain[0].String(), b.Chain[0].String()))
	})
	p.Waits = p.Waits[:min(len(p.Waits), waitsShown)]
	return p, nil
}
