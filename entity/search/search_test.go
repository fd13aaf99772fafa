package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// place is a runtime with a finder on it.
type place struct {
	*Finder
	t *testing.T
}

// open opens a runtime with a finder on it.
func open(t *testing.T) *place {
	t.Helper()
	p := &place{New(entitytest.Open(t), slog.New(slog.DiscardHandler)), t}
	t.Cleanup(p.Close)
	return p
}

// post writes readings.
func (p *place) post(id, payload string) {
	p.t.Helper()
	entitytest.Post(p.t, p.rt, id, payload)
}

// edit edits an entity; a patch that does not fit what is there may fail.
func (p *place) edit(id string, edits entity.Edits) {
	p.t.Helper()
	if _, err := p.rt.Edit(p.t.Context(), id, edits); err != nil && !errors.Is(err, entity.ErrInvalid) {
		p.t.Fatalf("edit %s: %v", id, err)
	}
}

func (p *place) patch(id string, section entity.Section, body string) {
	p.t.Helper()
	p.edit(id, entity.Edits{Patches: []entity.Patch{{Section: section, Body: []byte(body)}}})
}

func (p *place) parse(text string) *filter.Filter {
	p.t.Helper()
	f, err := filter.Parse(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// indexed waits until a filter is answered by the index.
func (p *place) indexed(text string) {
	p.t.Helper()
	q := Query{Filter: p.parse(text)}
	for deadline := time.Now().Add(patience); ; {
		_, unlock, ok := p.index.lookup(p.t.Context(), &q)
		if ok {
			unlock()
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("there is no index for %s", text)
		}
		waiting, stop := context.WithTimeout(p.t.Context(), patience)
		p.index.await(waiting, &q)
		stop()
	}
}

// ids returns what a query finds.
func (p *place) ids(text, typ string) (ids []string) {
	p.t.Helper()
	err := p.Each(p.t.Context(), Query{Filter: p.parse(text), Type: typ}, func(v entity.View, matched bool) bool {
		if matched {
			ids = append(ids, v.ID())
		}
		return true
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return ids
}

// change makes a random change to one of forty entities.
func (p *place) change(rng *rand.Rand) {
	id := fmt.Sprintf("e%d", rng.IntN(40))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	switch rng.IntN(8) {
	case 0:
		if err := p.rt.Delete(p.t.Context(), id, ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
			p.t.Fatal(err)
		}
	case 1:
		p.patch(id, entity.Attributes, pick(`{"a":{"b":3}}`, `{"a":{"b":{"c":1}}}`, `{"a":5}`, `{"a":null}`, `{"a":{"b":null}}`, `{"list":[1,2]}`, `{"list":null}`))
	case 2:
		typ := pick("Meter", "Device", "")
		p.edit(id, entity.Edits{Type: &typ})
	case 3:
		if rng.IntN(3) == 0 {
			p.patch(id, entity.Desired, `{"on":true}`)
			return
		}
		p.patch(id, entity.Reported, pick(`{"on":true}`, `{"on":false}`))
	default:
		p.post(id, fmt.Sprintf(`{"ts":%d,"values":{"p":%d}}`, rng.IntN(1000), rng.IntN(100)))
	}
}

func TestIndexFindsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, typ := range []*model.Type{{ID: "Device"}, {ID: "Meter", Extends: []string{"Device"}}} {
		if _, err := p.rt.PutType(t.Context(), typ, ""); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	p.index.from = 0
	filters := []string{
		`p > 50`, `p between 20 and 60 and attributes.a.b = 3`, `exists attributes.a`, `not exists attributes.a.b`, `attributes.list contains 2`,
		`type is "Device"`, `type = "Meter" and p != 7`, `id like "e1%"`, `desired.on != reported.on`, `ts(p) < 1970-01-01T00:00:00.500Z`, `updated > 1970-01-01T00:00:00.9Z or p < 5`, ``,
	}
	for range 60 {
		p.change(rng)
	}
	p.ids(filters[0], "") // from here on columns are filled, while things change
	for round := range 12 {
		for range 15 {
			p.change(rng)
		}
		for _, text := range filters {
			for _, typ := range []string{"", "Device"} {
				if round > 0 {
					p.indexed(text)
				}
				p.compare(round, text, typ)
			}
		}
	}
}

// compare compares what the index finds and counts with what the store has.
func (p *place) compare(round int, text, typ string) {
	p.t.Helper()
	got := p.ids(text, typ)
	count, err := p.Count(p.t.Context(), Query{Filter: p.parse(text), Type: typ})
	p.index.from = math.MaxInt64
	want := p.ids(text, typ)
	p.index.from = 0
	if !slices.Equal(got, want) {
		p.t.Fatalf("round %d: %q of %q: the index finds %v, the store has %v", round, text, typ, got, want)
	}
	if err != nil || count != int64(len(want)) {
		p.t.Fatalf("round %d: %q of %q: counted %d, %v; want %d", round, text, typ, count, err, len(want))
	}
}

func TestIndexIsForgottenForANewPath(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.index.from = 0
	values := make([]string, 2*maxColumns)
	for i := range values {
		values[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	p.post("a", "{"+strings.Join(values, ",")+"}")
	for i := range values {
		text := fmt.Sprintf("k%d = %d", i, i)
		p.indexed(text)
		if ids := p.ids(text, ""); !slices.Equal(ids, []string{"a"}) {
			t.Errorf("%s finds %v, want a", text, ids)
		}
	}
	if n := p.Columns(); n > maxColumns {
		t.Errorf("%d columns", n)
	}
}

// A count has to look at all entities: it waits for the index to be made, and makes it
// with one pass for all its columns.
func TestACountWaitsForTheIndex(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.index.from = 0
	for i := range 30 {
		p.post(fmt.Sprintf("e%d", i), fmt.Sprintf(`{"p":%d,"q":%d}`, i, i%2))
	}
	q := Query{Filter: p.parse(`p >= 10 and q = 1`)}
	if n, err := p.Count(t.Context(), q); n != 10 || err != nil {
		t.Errorf("counted %d, %v; want 10", n, err)
	}
	_, unlock, ok := p.index.lookup(t.Context(), &q)
	if !ok {
		t.Fatal("there is no index after the count")
	}
	unlock()
}

// What clients see is the same whatever the store.
func TestSearchOnPostgres(t *testing.T) {
	t.Parallel()
	pgtest.Again(t, "TestIndexFindsWhatTheStoreHas", "TestIndexIsForgottenForANewPath", "TestACountWaitsForTheIndex")
}

// aheadStore stamps commits with a time that the machine's clock reaches in an hour: it was set back.
type aheadStore struct{ entity.Store }

func (s aheadStore) Commit(ctx context.Context, b *entity.Batch) error {
	b.Committed += time.Hour.Milliseconds()
	return s.Store.Commit(ctx, b)
}

// Whether the index has what was written is not a matter of the clock.
func TestTheIndexIsNotTakenForNewWhenTheClockIsSetBack(t *testing.T) {
	rt := entitytest.OpenOn(t, func(s entity.Store) entity.Store { return aheadStore{s} })
	p := &place{New(rt, slog.New(slog.DiscardHandler)), t}
	p.index.from = 0
	p.post("a", `{"v":1}`)
	p.indexed("v = 1")
	p.post("a", `{"v":2}`)
	p.indexed("v = 2")
	p.Close() // the index follows no longer
	p.post("a", `{"v":3}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if p.index.fresh(ctx) {
		t.Error("the index is taken to have a change that it has not seen")
	}
}
