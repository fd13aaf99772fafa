package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// indexed waits until a filter is answered by the index.
func (r *running) indexed(text string) {
	r.t.Helper()
	f, err := parseFilter(text)
	if err != nil {
		r.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		_, unlock, ok := r.finder.lookup(r.t.Context(), &selection{filter: f})
		if ok {
			unlock()
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("there is no index for %s", text)
		}
	}
}

// ids returns what a selection finds.
func (r *running) ids(text, typ string) (ids []string) {
	r.t.Helper()
	f, err := parseFilter(text)
	if err != nil {
		r.t.Fatal(err)
	}
	err = r.each(r.t.Context(), selection{filter: f, typ: typ}, func(v entity.View, matched bool) bool {
		if matched {
			ids = append(ids, v.ID())
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ids
}

func TestIndexFindsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(200, "POST", "/v1/types?format=native", typeJSONHeader, `[{"id":"Device"},{"id":"Meter","extends":["Device"]}]`)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s.finder.least = 0
	filters := []string{
		`p > 50`, `p between 20 and 60 and attributes.a.b = 3`, `exists attributes.a`, `not exists attributes.a.b`, `attributes.list contains 2`,
		`type is "Device"`, `type = "Meter" and p != 7`, `id like "e1%"`, `desired.on != reported.on`, `ts(p) < 1970-01-01T00:00:00.500Z`, `updated > 1970-01-01T00:00:00.9Z or p < 5`, ``,
	}
	change := func() {
		id := fmt.Sprintf("e%d", rng.IntN(40))
		path := "/v1/entities/" + id
		switch rng.IntN(8) {
		case 0:
			s.do("DELETE", path, "")
		case 1:
			s.do("PATCH", path+"/attributes/attributes", []string{`{"a":{"b":3}}`, `{"a":{"b":{"c":1}}}`, `{"a":5}`, `{"a":null}`, `{"a":{"b":null}}`, `{"list":[1,2]}`, `{"list":null}`}[rng.IntN(7)], "Content-Type", typeMergeHeader)
		case 2:
			s.do("PATCH", path, []string{`{"type":"Meter"}`, `{"type":"Device"}`, `{"type":null}`}[rng.IntN(3)], "Content-Type", typeMergeHeader)
		case 3:
			s.do("PATCH", path, []string{`{"desired":{"on":true}}`, `{"reported":{"on":true}}`, `{"reported":{"on":false}}`}[rng.IntN(3)], "Content-Type", typeMergeHeader)
		default:
			s.post(id, fmt.Sprintf(`{"ts":%d,"values":{"p":%d}}`, rng.IntN(1000), rng.IntN(100)))
		}
	}
	for range 60 {
		change()
	}
	s.ids(filters[0], "") // from here on columns are filled, while things change
	for round := range 12 {
		for range 15 {
			change()
		}
		for _, text := range filters {
			for _, typ := range []string{"", "Device"} {
				if round > 0 {
					s.indexed(text)
				}
				got := s.ids(text, typ)
				s.finder.least = math.MaxInt64
				want := s.ids(text, typ)
				s.finder.least = 0
				if !slices.Equal(got, want) {
					t.Fatalf("round %d: %q of %q: the index finds %v, the store has %v", round, text, typ, got, want)
				}
				_, body := s.send(200, "POST", "/v1/search", typeJSONHeader, fmt.Sprintf(`{"filter":%q,"type":%q,"limit":1,"count":true}`, text, typ))
				if !strings.Contains(body, fmt.Sprintf(`"total":%d`, len(want))) {
					t.Fatalf("round %d: %q of %q: counted %s, want %d", round, text, typ, body, len(want))
				}
			}
		}
	}
}

func TestIndexIsForgottenForANewPath(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.finder.least = 0
	values := make([]string, 2*finderColumns)
	for i := range values {
		values[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	s.post("a", "{"+strings.Join(values, ",")+"}")
	for i := range values {
		text := fmt.Sprintf("k%d = %d", i, i)
		s.indexed(text)
		same(t, text, s.ids(text, ""), "[a]")
	}
	s.finder.mu.RLock()
	defer s.finder.mu.RUnlock()
	if n := len(s.finder.table.columns); n > finderColumns {
		t.Errorf("%d columns", n)
	}
}

// A count has to look at all entities: it waits for the index to be made, and makes it
// with one look for all its columns.
func TestACountWaitsForTheIndex(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.finder.least = 0
	for i := range 30 {
		s.post(fmt.Sprintf("e%d", i), fmt.Sprintf(`{"p":%d,"q":%d}`, i, i%2))
	}
	_, body := s.do("POST", "/v1/search", `{"filter":"p >= 10 and q = 1","limit":1,"count":true}`, "Content-Type", "application/json")
	if !strings.Contains(body, `"total":10`) {
		t.Errorf("counted %s", body)
	}
	f, err := parseFilter(`p >= 10 and q = 1`)
	if err != nil {
		t.Fatal(err)
	}
	_, unlock, ok := s.finder.lookup(t.Context(), &selection{filter: f})
	if !ok {
		t.Fatal("there is no index after the count")
	}
	unlock()
}
