package mapping

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// checkHouse compares what is in the store with what is computed at once from
// the histories in it.
func checkHouse(t *testing.T, h *house, mappings []string) {
	t.Helper()
	fresh := NewEngine()
	outputs, err := fresh.Install(t.Context(), h.reader, 0, parseAll(t, mappings)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, mapped := range parseAll(t, mappings) {
		recomputed := map[string]map[int64]entity.Value{}
		err := fresh.Recompute(t.Context(), h.reader, mapped.Name, 0, end, func(v Value) error {
			if recomputed[v.Key] == nil {
				recomputed[v.Key] = map[int64]entity.Value{}
			}
			recomputed[v.Key][v.TS] = v.Value
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range mapped.Statement.Select {
			f := &mapped.Statement.Select[i]
			if f.fanIn() {
				continue
			}
			live := map[int64]entity.Value{}
			for _, p := range h.points(mapped.Statement.Into, f.As) {
				live[p.TS] = p.Value
			}
			compareHistory(t, mapped.Name+"."+f.As, live, recomputed[f.As])
		}
	}
	for _, o := range outputs {
		for _, r := range o.Readings {
			for _, s := range r.Values {
				if got, _ := h.latest(o.Into, s.Key); !got.Value.Equal(s.Value) {
					t.Errorf("%s.%s: live %v at %d, recomputed %v at %d", o.Mapping, s.Key, got.Value, got.TS, s.Value, r.TS)
				}
			}
		}
	}
}

// checkOnce goes through all changes: nothing that a mapping made of a change is
// there twice.
func checkOnce(t *testing.T, h *house, cursor string) {
	t.Helper()
	sub, err := h.rt.Changes(t.Context(), entity.ChangesQuery{Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	h.write("last", 1, sample("x", 1))
	type made struct {
		id string
		by entity.Origin
		ts int64
	}
	seen := map[made]bool{}
	for {
		c, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Entity == "last" {
			return
		}
		m := made{c.Entity, c.Origin, c.TS}
		if !c.Origin.IsZero() && seen[m] {
			t.Fatalf("%+v is there twice", m)
		}
		seen[m] = true
	}
}

func TestAfterACrashOfTheStoreNothingIsMissingOrThereTwice(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 5))
			dir := t.TempDir()
			options := houseOptions{mappings: Config{SaveEvery: 5 * time.Millisecond}}
			h := build(t, dir, options)
			cursor := startOf(t, h)
			h.write("hub", 1, sample("z", 1))
			for i := range 6 {
				h.write(fmt.Sprintf("m%d", i), 1, sample("x", i))
			}
			for _, mapped := range parseAll(t, shapes) {
				h.put(mapped.Name, mapped.Statement.String())
			}
			clock, edges := int64(100), map[string]bool{}
			crashes := 0
			for range 10 {
				for range 150 {
					d := draw(r, &clock, seed%2 == 0)
					if d.member == "" {
						h.send(d.id, d.ts, d.values...)
						continue
					}
					edges[d.member] = !edges[d.member]
					h.relate("hub", "has", d.member, edges[d.member])
				}
				switch r.IntN(3) {
				case 0: // in the middle of it
					h.send("a0", 1, sample("x", 0)) // something to commit
					h.crash()
					h = build(t, dir, options)
					crashes++
				case 1:
					h.sync(1)
				}
			}
			h.sync(4) // the longest chain is shorter
			checkHouse(t, h, shapes)
			checkOnce(t, h, cursor)
			if st := h.Stats(); st.Failures > 0 || crashes == 0 {
				t.Errorf("%d crashes, %+v", crashes, st)
			}
		})
	}
}

// startOf returns the cursor of now.
func startOf(t *testing.T, h *house) string {
	t.Helper()
	sub, err := h.rt.Changes(t.Context(), entity.ChangesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	return sub.Cursor()
}

func TestAStoreThatFailsForATimeLosesNothing(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{
		mappings: Config{SaveEvery: time.Millisecond, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond},
		runtime:  entity.Config{RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond},
	})
	list := []string{"m: insert into e select a.x * 2 as y", "n: insert into f select sum(m.x) as y from like 'a*' as m"}
	for _, mapped := range parseAll(t, list) {
		h.put(mapped.Name, mapped.Statement.String())
	}
	var all sync.WaitGroup
	for i := range 2000 {
		h.store.dead.Store(i/100%3 == 1)
		all.Add(1)
		if err := h.rt.Ingest(t.Context(), "a", []entity.Reading{{TS: int64(i + 1), Values: []entity.Sample{sample("x", i)}}}, 10, func(error) { all.Done() }); err != nil {
			t.Fatal(err)
		}
	}
	h.store.dead.Store(false)
	all.Wait()
	h.sync(2)
	checkHouse(t, h, list)
}
