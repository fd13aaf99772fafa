package alarm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// shape is a rule for the random tests, and the same once more in Go.
type shape struct {
	rule         Rule
	raise, clear func(v values) bool
}

// values are those of the keys a and b at one time, -1 for none.
type values struct{ a, b int }

var shapes = []shape{
	{
		Rule{Name: "plain", Raise: "a > 6"},
		func(v values) bool { return v.a > 6 }, nil,
	},
	{
		Rule{Name: "band", Raise: "a > 6", Clear: "a < 3"},
		func(v values) bool { return v.a > 6 }, func(v values) bool { return v.a >= 0 && v.a < 3 },
	},
	{
		Rule{Name: "slow", Raise: "a > 4", For: 7 * time.Second, ClearFor: 4 * time.Second},
		func(v values) bool { return v.a > 4 }, nil,
	},
	{
		Rule{Name: "both", Raise: "a > 5 and b > 5", Clear: "b < 4", ClearFor: 3 * time.Second},
		func(v values) bool { return v.a > 5 && v.b > 5 }, func(v values) bool { return v.b >= 0 && v.b < 4 },
	},
	{
		Rule{Name: "own", Raise: "a > attributes.limit", Clear: "a < 2"},
		func(v values) bool { return v.a > 6 }, func(v values) bool { return v.a >= 0 && v.a < 2 },
	},
	{
		Rule{Name: "either", Raise: "a > 8 or not exists(b)", For: 5 * time.Second},
		func(v values) bool { return v.a > 8 || v.b < 0 }, nil,
	},
}

// world is what was measured of an entity: at each second the values of the keys, -1 for
// none.
type world map[int]values

// at returns what was known at a second.
func (w world) at(s int) values {
	v := values{-1, -1}
	for i := range s + 1 {
		if x, ok := w[i]; ok {
			if x.a >= 0 {
				v.a = x.a
			}
			if x.b >= 0 {
				v.b = x.b
			}
		}
	}
	return v
}

// tell says what a shape makes of a world up to a second, going through it second by
// second.
func (x *shape) tell(w world, end int) []string {
	var list []string
	begun, since, raised := false, -1, false
	for s := range end + 1 {
		wait := int(x.rule.For / time.Second)
		if raised {
			wait = int(x.rule.ClearFor / time.Second)
		}
		turn := func() {
			if since < 0 || s-since < wait {
				return
			}
			if raised = !raised; raised {
				list = append(list, fmt.Sprintf("%s:%d/%d-", x.rule.Name, since, s))
			} else {
				list[len(list)-1] += fmt.Sprint(s)
			}
			since = -1
		}
		turn()
		_, measured := w[s]
		if begun = begun || measured; !begun {
			continue // nothing is known of it
		}
		v := w.at(s)
		holds := x.raise(v)
		if raised {
			holds = !x.raise(v) && (x.clear == nil || x.clear(v))
			wait = int(x.rule.ClearFor / time.Second)
		} else {
			wait = int(x.rule.For / time.Second)
		}
		if !holds {
			since = -1
		} else if since < 0 {
			since = s
		}
		turn()
	}
	return list
}

// telling is the story of a world by all shapes, as plant.story has it: ordered by rule.
func telling(w world, end int) string {
	var all []string
	sorted := append([]shape(nil), shapes...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].rule.Name < sorted[j].rule.Name })
	for i := range sorted {
		all = append(all, sorted[i].tell(w, end)...)
	}
	return strings.Join(all, " ")
}

const worldSeconds = 60

// makeWorld returns the readings of a world, in the order of their time.
func makeWorld(r *rand.Rand) []entity.Reading {
	var list []entity.Reading
	for s := range worldSeconds {
		if r.IntN(3) > 0 {
			continue
		}
		v := values{-1, -1}
		switch r.IntN(4) {
		case 0:
			v.b = r.IntN(10)
			list = append(list, reading(float64(s), "b", v.b))
		case 1: // in two payloads
			v.a, v.b = r.IntN(10), r.IntN(10)
			list = append(list, reading(float64(s), "a", v.a), reading(float64(s), "b", v.b))
		case 2:
			v.a, v.b = r.IntN(10), r.IntN(10)
			list = append(list, reading(float64(s), "a", v.a, "b", v.b))
		default:
			v.a = r.IntN(10)
			list = append(list, reading(float64(s), "a", v.a))
		}
	}
	return list
}

// worldOf is the world of readings, up to a second.
func worldOf(list []entity.Reading, end int) world {
	w := world{}
	for _, r := range list {
		s := int(r.TS-start) / 1000
		if s > end {
			continue
		}
		v, ok := w[s]
		if !ok {
			v = values{-1, -1}
		}
		for _, x := range r.Values {
			if x.Key == "a" {
				v.a = int(x.Value.Int())
			} else {
				v.b = int(x.Value.Int())
			}
		}
		w[s] = v
	}
	return w
}

// replace deletes an entity, and makes another one with its id.
func (p *plant) replace(id string) {
	p.t.Helper()
	if err := p.rt.Delete(p.t.Context(), id, ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
		p.t.Fatal(err)
	}
	if err := p.limit(id); err != nil {
		p.t.Fatal(err)
	}
}

// disorder swaps some of the readings: neighbors, or all of them.
func disorder(r *rand.Rand, list []entity.Reading) {
	switch r.IntN(3) {
	case 0:
	case 1:
		for i := range len(list) - 1 {
			if r.IntN(4) == 0 {
				j := min(len(list)-1, i+1+r.IntN(5))
				list[i], list[j] = list[j], list[i]
			}
		}
	default:
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
}

// mailer gives readings to a plant and knows which of them are durable.
type mailer struct {
	mu   sync.Mutex
	left map[string][]entity.Reading // not acknowledged, by entity
	wg   sync.WaitGroup
}

func (s *mailer) send(p *plant, id string, r entity.Reading) {
	s.wg.Add(1)
	err := p.rt.Ingest(p.t.Context(), id, []entity.Reading{r}, 0, func(err error) {
		defer s.wg.Done()
		if err != nil {
			s.keep(id, r)
		}
	})
	if err != nil {
		s.wg.Done()
		s.keep(id, r)
	}
}

func (s *mailer) keep(id string, r entity.Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[id] = append(s.left[id], r)
}

// again sends what was not acknowledged before a crash.
func (s *mailer) again(p *plant) {
	s.wg.Wait()
	left := s.left
	s.left = map[string][]entity.Reading{}
	for id, list := range left {
		for _, r := range list {
			s.send(p, id, r)
		}
	}
	s.wg.Wait()
}

// acknowledge acknowledges one of the open alarms, and notes it in seen if that is durable.
func (p *plant) acknowledge(r *rand.Rand, seen map[string]bool) {
	list, _, err := p.Alarms(p.t.Context(), Query{Open: true, Limit: MaxPage})
	if err != nil || len(list) == 0 {
		return
	}
	a := list[r.IntN(len(list))]
	if _, err := p.Acknowledge(p.t.Context(), a.ID, "ann", ""); err == nil {
		seen[a.ID] = true
	}
}

// limit sets the attribute that the rule own reads to what it always is.
func (p *plant) limit(id string) error {
	_, err := p.rt.Edit(p.t.Context(), id, entity.Edits{Patches: []entity.Patch{{
		Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(`{"limit":6}`),
	}}})
	return err
}

// checkBook compares what there is of alarms with itself.
func checkBook(t *testing.T, p *plant) {
	t.Helper()
	open := map[string]string{}
	var counted [severities]int64
	for q := (Query{Open: true, Limit: MaxPage}); ; {
		list, next, err := p.Alarms(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			key := a.Rule + " of " + a.Entity
			if open[key] != "" {
				t.Errorf("%s has two open alarms, %s and %s", key, open[key], a.ID)
			}
			open[key] = a.ID
			counted[a.Severity-1]++
		}
		if q.Before = next; next == "" {
			break
		}
	}
	if got := p.Stats().Open; got != counted {
		t.Errorf("%v open alarms are counted, and there are %v", got, counted)
	}
	last := uint64(0)
	for last < p.LastEvent() {
		events, err := p.Events(t.Context(), last, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			if ev.Seq != last+1 {
				t.Fatalf("event %d comes after %d", ev.Seq, last)
			}
			last = ev.Seq
			key := ev.Alarm.Rule + " of " + ev.Alarm.Entity
			if ev.Kind == Raised && ev.Alarm.Open() && open["event "+key] != "" && open["event "+key] != ev.Alarm.ID {
				t.Errorf("event %d: %s is raised while %s is open", ev.Seq, ev.Alarm.ID, open["event "+key])
			}
			switch {
			case ev.Alarm.Open():
				open["event "+key] = ev.Alarm.ID
			case open["event "+key] == ev.Alarm.ID:
				delete(open, "event "+key)
			}
		}
	}
}

func TestAnyOrderOfArrivalLeadsToTheSameAlarms(t *testing.T) {
	t.Parallel()
	for seed := range uint64(soaktest.Rounds(t, 2, 200)) {
		r := rand.New(rand.NewPCG(seed, 15))
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			clock := new(atomic.Int64)
			clock.Store(start)
			small := usualSteps()
			small.points, small.page, small.held = 3, 3, []int{1, 4, recordsHeld}[r.IntN(3)]
			small.ahead = []int64{0, 5000, small.ahead}[r.IntN(3)] // readings come up to a minute before their time
			small.mark = 3
			p := buildAt(t, t.TempDir(), clock, small)
			crashes := seed%3 == 1
			for _, x := range shapes {
				p.put(x.rule)
			}
			type one struct {
				id string
				r  entity.Reading
			}
			worlds := map[string]bool{}
			var all []one
			lists := map[string][]entity.Reading{}
			for i := range 6 {
				id := fmt.Sprintf("m%d", i)
				list := makeWorld(r)
				disorder(r, list)
				worlds[id], lists[id] = true, list
			}
			for len(lists) > 0 {
				for id, list := range lists {
					n := min(len(list), r.IntN(4))
					for _, x := range list[:n] {
						all = append(all, one{id, x})
					}
					if lists[id] = list[n:]; n == len(list) {
						delete(lists, id)
					}
				}
			}
			for id := range worlds {
				if err := p.limit(id); err != nil {
					t.Fatal(err)
				}
			}
			s := &mailer{left: map[string][]entity.Reading{}}
			seen := map[string]bool{}
			sent := map[string][]entity.Reading{}
			compare := func(now int) {
				t.Helper()
				for id := range worlds {
					w := worldOf(sent[id], now)
					if got, want := p.story(id), telling(w, now); got != want {
						t.Errorf("%s: at %d the alarms are\n%s, want\n%s\nof %v", id, now, got, want, w)
					}
				}
			}
			for i, x := range all {
				if crashes && i%40 == 39 {
					p.store.Left.Store(1 + int64(r.IntN(6)))
				}
				if r.IntN(50) == 0 && p.store.Left.Load() == 0 && !p.store.Dead.Load() {
					s.wg.Wait()
					p.replace(x.id)
					delete(sent, x.id)
				}
				s.send(p, x.id, x.r)
				sent[x.id] = append(sent[x.id], x.r)
				switch {
				case p.store.Dead.Load():
					p = p.restart()
					s.again(p)
				case !crashes && r.IntN(30) == 0:
					s.wg.Wait()
					p.sync()
					if now := clock.Load() - start; small.ahead == 0 {
						compare(int(now / 1000))
					}
				}
				if r.IntN(15) == 0 {
					p.acknowledge(r, seen)
				}
				if r.IntN(40) == 0 && p.store.Left.Load() == 0 && !p.store.Dead.Load() {
					if err := p.limit(x.id); err != nil {
						t.Fatal(err)
					}
				}
				p.clock.Store(start + int64(1000*worldSeconds*i/len(all)))
			}
			p.store.Left.Store(0)
			if err := p.Sync(t.Context()); err != nil || p.store.Dead.Load() {
				p = p.restart()
			}
			s.again(p)
			const end = worldSeconds + 30
			p.tick(end)
			compare(end)
			checkBook(t, p)
			for id := range seen {
				if a, err := p.Alarm(t.Context(), id); err != nil || a.Acknowledged == nil {
					t.Errorf("%s was acknowledged: %+v, %v", id, a, err)
				}
			}
			before := map[string]string{}
			for id := range worlds {
				before[id] = p.story(id)
			}
			p = p.restart()
			p.tick(end)
			for id, was := range before {
				if got := p.story(id); got != was {
					t.Errorf("%s: after a restart the alarms are\n%s, were\n%s", id, got, was)
				}
			}
		})
	}
}
