package mapping

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// pagesReader calls page before each page of an entity's history that is read, and read after it.
type pagesReader struct {
	Reader
	id   string
	page func()
	read func(readings int)
}

func (r *pagesReader) Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	if id != r.id {
		return r.Reader.Points(ctx, id, key, from, to, limit, descending)
	}
	r.page()
	points, err := r.Reader.Points(ctx, id, key, from, to, limit, descending)
	r.read(len(points))
	return points, err
}

// besideLive calls load, which reads histories of "a", while a live change of another entity always waits. It returns
// how many readings were read, and the most between two of the changes. also is called with the number of each.
func (h *house) besideLive(load func(), also func(live int)) (all, most int) {
	h.t.Helper()
	before, _ := h.latest("f", "y")
	live, since, whole, applied := int(before.TS), 0, h.reader, ""
	swap := func(r func(f *follower) Reader) {
		if err := h.do(h.t.Context(), func(_ context.Context, f *follower) error { h.reader = r(f); return nil }); err != nil {
			h.t.Fatal(err)
		}
	}
	swap(func(f *follower) Reader {
		return &pagesReader{whole, "a", func() {
			if !f.loadsOne {
				return
			}
			if f.position != applied {
				applied, since = f.position, 0
				live++
				h.send("live", int64(live), sample("x", live))
				also(live)
				for len(f.feed.changes) == 0 && h.t.Context().Err() == nil { // until it waits
					_ = f.s.ctx.Err()
				}
			}
		}, func(readings int) {
			if f.loadsOne {
				all, since = all+readings, since+readings
				most = max(most, since)
			}
		}}
	})
	load()
	h.sync(2)
	swap(func(*follower) Reader { return whole })
	h.is("f", "y", int64(live), live)
	if n := live - int(before.TS); n < 4 {
		h.t.Errorf("%d changes came beside %d readings: the test shows nothing", n, all)
	}
	return all, most
}

const windows = "insert into e select sum(a.x) over last 3000 as y, avg(a.x) over 1h as z, count(a.x) over last 2500 as n"

// While a mapping is put in force, in the place of another one as well, or is loaded anew, values of others wait for
// one portion of what is read for it. It misses none of the readings that come meanwhile, and counts none twice.
func TestAMappingThatIsLoadedHoldsUpNoOther(t *testing.T) {
	const n = 3000
	h := build(t, t.TempDir(), houseOptions{})
	h.put("live", "insert into f select live.x as y")
	h.fill("a", n)
	newest := int64(n)
	also := func(live int) {
		newest++
		h.send("a", newest, sample("x", live))
		h.send("a", n/2+newest, sample("x", 2*live)) // late, or newer than all
		h.send("a", n-newest%7, sample("x", 3*live))
	}
	check := func(what string, load func()) {
		t.Helper()
		before := newest
		all, most := h.besideLive(load, also)
		if most >= loadReadings+loadPage {
			t.Errorf("%s: of %d readings %d were read while a change waited", what, all, most)
		}
		for _, key := range []string{"y", "z", "n"} {
			if got := h.points("e", key); len(got) < int(newest-before) {
				t.Errorf("%s: %d values of %s", what, len(got), key)
			}
		}
		if written, err := h.Recompute(t.Context(), "m", before+1, end); err != nil || written != 0 {
			t.Errorf("%s: %d values that are recomputed differ from those that were there, %v", what, written, err)
		}
	}
	check("put", func() { h.put("m", windows) })
	check("replaced", func() { h.put("m", strings.Replace(windows, "2500", "2600", 1)) })
	check("an entity is gone", func() {
		if err := h.rt.Delete(t.Context(), "a", ""); err != nil {
			t.Fatal(err)
		}
		if err := h.Sync(t.Context()); err != nil { // not h.sync: meanwhile readings are sent
			t.Fatal(err)
		}
		h.fill("a", n)
		h.put("m", windows)
	})
}

// Whatever happens between the portions of a load, also to the groups, the values are those of one at once.
func TestLoadedByPortionsAndAtOnceAreTheSame(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 14))
			m := newModel(t)
			l := follow(m, shapes...)
			clock, relations := int64(100), seed%2 == 0
			happen := func(n int) {
				for range n {
					m.do(draw(r, &clock, relations))
					if r.IntN(3) == 0 {
						l.step(1 + r.IntN(20))
					}
				}
			}
			happen(100)
			pauses := 0
			for _, again := range parseAll(t, shapes) {
				for l.cursor < l.head { // each is live before the next one
					l.step(100)
				}
				l.step(0)
				l.head = len(m.log)
				how := installing{restore: r.IntN(2) == 0, live: l.cursor == l.head, between: func(int) error {
					if pauses++; pauses < 400 {
						happen(r.IntN(3))
					}
					return nil
				}}
				outputs, _, err := l.engine.install(t.Context(), m, uint64(l.cursor), how, []Mapping{again})
				if err != nil {
					t.Fatal(err)
				}
				l.life++
				l.put(l.life, outputs)
				happen(10)
			}
			l.settle()
			checkRecomputed(t, m, shapes, relations)
			if pauses < 20 {
				t.Errorf("%d pauses: the test shows nothing", pauses)
			}
		})
	}
}
