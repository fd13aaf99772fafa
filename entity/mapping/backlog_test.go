package mapping

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// until waits until something holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
		if err := pause.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// longPast gives a.x many readings, of which a late one of b.y changes each sum.
func longPast(t *testing.T, h *house, n int) {
	t.Helper()
	var readings []entity.Reading
	for i := range n {
		readings = append(readings, entity.Reading{TS: int64(i + 10), Values: []entity.Sample{sample("x", i)}})
	}
	for len(readings) > 0 {
		some := min(len(readings), entity.MaxReadings)
		if err := h.rt.Write(t.Context(), "a", readings[:some], 100_000); err != nil {
			t.Fatal(err)
		}
		readings = readings[some:]
	}
	h.put("sum", "insert into s select a.x + b.y as sum")
}

// checkSums checks that each sum is there.
func (h *house) checkSums(n int) {
	h.t.Helper()
	sums := h.points("s", "sum")
	if len(sums) != n {
		h.t.Fatalf("%d sums, want %d", len(sums), n)
	}
	for i, p := range sums {
		if p.TS != int64(i+10) || p.Value != value.Int(int64(i+1000)) {
			h.t.Fatalf("the sum at %d is %v", p.TS, p.Value)
		}
	}
}

// A reading of long ago changes all that a mapping has computed since. What others compute
// of readings that come meanwhile does not wait for that.
func TestALateReadingHoldsUpNoOtherMapping(t *testing.T) {
	n := soaktest.Rounds(t, 10_000, 30_000)
	h := build(t, t.TempDir(), houseOptions{})
	longPast(t, h, n)
	h.put("double", "insert into d select c.v * 2 as w")
	h.sync(1)
	before := h.Stats().Again
	h.write("b", 1, sample("y", 1000))
	until(t, "the first sum", func() bool { return h.Stats().Again > before })
	for i := range 3 {
		began := time.Now()
		h.write("c", int64(i+1), sample("v", i))
		until(t, "the live value", func() bool { l, ok := h.latest("d", "w"); return ok && l.TS == int64(i+1) })
		t.Logf("%v after the live reading its value is there, and %d sums", time.Since(began), h.Stats().Again-before)
	}
	if done := h.Stats().Again - before; done >= uint64(n) { //nolint:gosec // positive
		t.Errorf("the live values came after all %d sums", done)
	}
	h.sync(1)
	h.checkSums(n)
}

// While late readings are computed, a live one waits for one slice of that at most, however many
// mappings have something to compute again.
func TestALiveReadingWaitsForOneSliceAtMost(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	longPast(t, h, 5000)
	for i := range 4 {
		h.put(fmt.Sprint("more", i), fmt.Sprintf("insert into s%d select a.x * b.y as product", i))
	}
	h.put("double", "insert into d select c.v * 2 as w")
	h.sync(1)
	live := 0
	err := h.do(t.Context(), func(_ context.Context, f *follower) error {
		for ts := range 20 {
			h.write("b", int64(100*ts+1), sample("y", ts)) // late
		}
		for len(f.backlog.rests) < 5 {
			if err := f.step(nil); err != nil {
				return err
			}
		}
		for len(f.backlog.rests) > 0 && live < 30 {
			began, slices := time.Now(), 0
			live++
			h.write("c", int64(live), sample("v", live))
			until(t, "the live change", func() bool { return len(f.feed.changes) > 0 })
			for applied := false; !applied; {
				changes, evaluations := h.Stats().Changes, f.engine.evaluations
				if err := f.step(nil); err != nil {
					return err
				}
				applied = h.Stats().Changes > changes
				switch done := f.engine.evaluations - evaluations; {
				case applied || done == 0:
				case done > sliceMost:
					t.Errorf("a slice has %d evaluations", done)
				default:
					slices++
				}
			}
			if slices > 1 {
				t.Errorf("the live reading %d waited for %d slices", live, slices)
			}
			t.Logf("%v and %d slices before the live reading %d", time.Since(began), slices, live)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if live < 3 {
		t.Errorf("%d live readings came beside the late ones: the test shows nothing", live)
	}
	h.sync(1)
	if l, ok := h.latest("d", "w"); !ok || l.Value != value.Int(int64(2*live)) {
		t.Errorf("the last live value is %v", l.Value)
	}
}

// However costly what a mapping computes is, a slice of it ends when its time is over, and goes on
// where it was: here each look at the clock takes a millisecond.
func TestASliceEndsByTime(t *testing.T) {
	const n = 200
	h := build(t, t.TempDir(), houseOptions{})
	longPast(t, h, n)
	h.sync(1)
	most, slices := uint64(0), 0
	err := h.do(t.Context(), func(_ context.Context, f *follower) error {
		now := time.Unix(0, 0)
		h.now = func() time.Time { now = now.Add(time.Millisecond); return now }
		defer func() { h.now = time.Now }()
		h.write("b", 1, sample("y", 1000))
		for len(f.backlog.rests) == 0 {
			if err := f.applyNext(); err != nil {
				return err
			}
		}
		for ; len(f.backlog.rests) > 0; slices++ {
			before := f.engine.evaluations
			if err := f.catchUp(); err != nil {
				return err
			}
			most = max(most, f.engine.evaluations-before)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if most > 2*uint64(sliceTime/time.Millisecond) || slices < n/25 {
		t.Errorf("%d evaluations in one of %d slices", most, slices)
	}
	h.sync(1)
	h.checkSums(n)
}

// sourcesOf is an expression over so many sources of a, of which only the first has a value.
func sourcesOf(n int) string {
	text := "a.x"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf(" + coalesce(a.k%d, 0)", i)
	}
	return text
}

// What has to be read before a slice can begin is none of its time: otherwise a slice over many sources
// would be over at once, and read everything again for each value. Here each page takes a millisecond,
// and so does each look at the clock.
func TestASliceOverManySourcesComputesMoreThanOneValue(t *testing.T) {
	const n, sources = 300, 30
	h := build(t, t.TempDir(), houseOptions{})
	longPast(t, h, n)
	h.put("wide", "insert into w select "+sourcesOf(sources)+" as y")
	h.sync(1)
	now := time.Unix(0, 0)
	slices, pages := 0, 0
	err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
		before := h.reader
		h.reader = &countedReader{before, func() { pages++; now = now.Add(time.Millisecond) }}
		h.now = func() time.Time { now = now.Add(time.Millisecond); return now }
		defer func() { h.now, h.reader = time.Now, before }()
		for left := (interval{0, end}); left.from < left.to; slices++ {
			next, _, _, err := f.recompute(ctx, "wide", 0, left, false)
			if err != nil {
				return err
			}
			left.from = next
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if slices > n/10 || pages > 3*sources*slices {
		t.Errorf("%d values took %d slices and %d pages", n, slices, pages)
	}
	h.sync(1)
	if got := len(h.points("w", "y")); got != n {
		t.Errorf("%d values, want %d", got, n)
	}
}

// countedReader calls a function before each page of a history.
type countedReader struct {
	Reader
	paged func()
}

func (r *countedReader) Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	r.paged()
	return r.Reader.Points(ctx, id, key, from, to, limit, descending)
}

// A late reading changes what is computed up to the next reading of its source, and nothing after that.
func TestALateReadingCostsWhatItTouches(t *testing.T) {
	const n, every = 2000, 100
	h := build(t, t.TempDir(), houseOptions{})
	for i := range n / every {
		h.write("b", int64(i*every), sample("y", 1000))
	}
	longPast(t, h, n)
	h.sync(1)
	if _, err := h.Recompute(t.Context(), "sum", 0, end); err != nil {
		t.Fatal(err)
	}
	evaluations := func(ts int64) uint64 {
		h.write("other", ts, sample("z", 1)) // with which they are published
		h.sync(1)
		return h.Stats().Evaluations
	}
	before := evaluations(1)
	h.write("b", n/2+every/2, sample("y", 2000)) // late
	h.sync(1)
	if done := evaluations(2) - before; done < every/2 || done > every {
		t.Errorf("%d evaluations, want about %d of %d", done, every/2, n)
	}
	for _, p := range h.points("s", "sum") {
		late := p.TS >= n/2+every/2 && p.TS < n/2+every
		if changed := p.Value.Int()-(p.TS-10) == 2000; changed != late {
			t.Errorf("the sum at %d is %v", p.TS, p.Value)
		}
	}
}

// What late readings have left to be computed again is not forgotten over a crash, when the
// changes that they came with have been gone through.
func TestWhatIsToBeComputedAgainSurvivesACrash(t *testing.T) {
	n := soaktest.Rounds(t, 10_000, 30_000)
	dir, options := t.TempDir(), houseOptions{mappings: Config{SaveEvery: time.Millisecond}}
	h := build(t, dir, options)
	longPast(t, h, n)
	h.sync(1)
	h.write("b", 1, sample("y", 1000))
	until(t, "the backlog in the store", func() bool {
		doc, err := h.rt.Doc(t.Context(), stateKind, placeID)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(doc.Body), `"mapping":"sum"`)
	})
	h.send("a", 1, sample("other", 1)) // something to commit
	h.crash()
	h = build(t, dir, options)
	if got := len(h.points("s", "sum")); got == n {
		t.Error("all was there before the crash: the test shows nothing")
	}
	h.sync(1)
	h.checkSums(n)
}

// Of the readings of one millisecond the last counts, also where they are more than a page.
func TestTheLastReadingOfAMillisecondCounts(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	var readings []entity.Reading
	for i := range 5000 {
		readings = append(readings, entity.Reading{Arrived: true, Values: []entity.Sample{sample("x", i)}})
	}
	if err := h.rt.Write(t.Context(), "a", readings, 100_000); err != nil {
		t.Fatal(err)
	}
	h.put("m", "insert into e select a.x * 2 as y")
	h.sync(1)
	if _, err := h.Recompute(t.Context(), "m", 0, end); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	last := make(map[int64]value.Value)
	for i, p := range h.points("a", "x") {
		last[p.TS] = value.Int(int64(2 * i))
	}
	got := make(map[int64]value.Value)
	for _, p := range h.points("e", "y") {
		got[p.TS] = p.Value
	}
	compareHistory(t, "e.y", got, last)
}

// applyNext applies the next changes of the feed, and those that wait behind them.
func (f *follower) applyNext() error { return f.apply(f.feed.drain(<-f.feed.changes)) }

// What waits in the feed is newer than what has been applied, and in the history already. The
// changes write what comes of it, and the slices do not.
func TestWhatASliceHasSeenAheadOfTheFeedIsNotWrittenTwice(t *testing.T) {
	const n = 100
	for name, compute := range map[string]func(context.Context, *follower) error{
		"late readings": func(_ context.Context, f *follower) error {
			for len(f.backlog.rests) > 0 {
				if err := f.catchUp(); err != nil {
					return err
				}
			}
			return nil
		},
		"recompute": func(ctx context.Context, f *follower) error {
			f.backlog.drop()
			_, _, _, err := f.recompute(ctx, "sum", 0, interval{0, end}, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, t.TempDir(), houseOptions{})
			longPast(t, h, n)
			h.sync(1)
			start := startOf(t, h)
			err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
				h.write("b", 1, sample("y", 1000))
				for len(f.backlog.rests) == 0 {
					if err := f.applyNext(); err != nil {
						return err
					}
				}
				for i := range n {
					h.write("a", int64(n+i+10), sample("x", n+i))
				}
				return compute(ctx, f)
			})
			if err != nil {
				t.Fatal(err)
			}
			h.sync(1)
			h.checkSums(2 * n)
			times := make(map[int64]int)
			for c := range changesFrom(t, h, start) {
				if c.Entity == "s" {
					times[c.TS]++
				}
			}
			for ts, written := range times {
				if written > 1 {
					t.Errorf("the sum at %d is written %d times", ts, written)
				}
			}
		})
	}
}

// A slice that has let others go first often enough waits for what is on its way, and does not
// write it a second time.
func TestASliceThatWaitsNoLongerStillCompares(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	h.write("b", 1, sample("y", 1000))
	h.put("sum", "insert into s select a.x + b.y as sum")
	h.sync(1)
	err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
		for ts := range int64(20) {
			h.write("a", ts+10, sample("x", int(ts)))
		}
		head, err := f.head(ctx)
		if err != nil {
			return err
		}
		h.store.stuck.Store(true)
		for f.position != head {
			if err := f.applyNext(); err != nil {
				return err
			}
		}
		go func() {
			<-h.store.failed
			h.store.stuck.Store(false)
		}()
		_, count, _, err := f.recompute(ctx, "sum", 0, interval{0, end}, false)
		if count != 0 {
			t.Errorf("%d values are written again", count)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	if n := len(h.points("s", "sum")); n != 20 {
		t.Errorf("%d sums, want 20", n)
	}
}

// The backlog of as many fields as there may be does not keep the place from being saved.
func TestABacklogOfManyFieldsIsSavedByMapping(t *testing.T) {
	for name, test := range map[string]struct {
		name   string
		missed bool
	}{
		"by mapping":    {"m", false},
		"not even that": {strings.Repeat("m", MaxNameBytes+500), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, t.TempDir(), houseOptions{})
			version := h.put("real", "insert into s select a.x + b.y as sum, a.x - b.y as difference").Version
			h.sync(1)
			err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
				key := restKey{Mapping: "real", Version: version, Field: 1}
				f.backlog.add(f.backlog.of(key), stretch{From: 77, Last: 99, Sources: 1})
				for i := range MaxMappings {
					for j := range 4 {
						key := restKey{Mapping: fmt.Sprint(test.name, i), Version: 1_700_000_000_000, Field: j}
						f.backlog.add(f.backlog.of(key), stretch{From: 1_700_000_000_000, Last: 1_700_000_000_000, Sources: 1})
					}
				}
				defer func() { f.backlog = backlog{} }()
				if err := f.save(ctx); err != nil {
					return err
				}
				if f.saved.Missed != test.missed {
					t.Errorf("missed is %v", f.saved.Missed)
				}
				again, err := h.begin(ctx)
				if err != nil {
					return err
				}
				again.feed.stop()
				if test.missed {
					if !again.backlog.hasMissed() {
						t.Error("not all is computed again")
					}
					return nil
				}
				for field := range 2 {
					key.Field = field
					r := again.backlog.byKey[key]
					if r == nil || r.stretches[0].From > 77 || r.stretches[0].Last < end-1 {
						t.Errorf("%+v came back of field %d", r, field)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestABacklogIsBoundedAndForgetsNothing(t *testing.T) {
	var b backlog
	r := b.of(restKey{Mapping: "m"})
	for i := range int64(3 * maxStretches) {
		from := i * 7919 % 100_003
		b.add(r, stretch{From: from, Last: from, Sources: 1 << (i % 3)})
	}
	if len(r.stretches) != maxStretches || b.all != maxStretches {
		t.Errorf("%d stretches, %d in all; want %d", len(r.stretches), b.all, maxStretches)
	}
	for i := range int64(3 * maxStretches) {
		from, found := i*7919%100_003, false
		for _, s := range r.stretches {
			found = found || s.From <= from && from <= s.Last && s.Sources&(1<<(i%3)) != 0
		}
		if !found {
			t.Fatalf("%d is lost", from)
		}
	}
	if b.reached(1) {
		t.Error("what was added first is done")
	}
	var again backlog
	again.restore(b.pieces())
	if len(again.rests) != 1 || len(again.rests[0].stretches) != maxStretches {
		t.Errorf("%+v came back", again.rests)
	}
}

// A storm of late readings, of which more are to be looked at than are remembered one by one,
// leaves what a computation of all at once does.
func TestAStormOfLateReadingsIsComputedAsAllAtOnce(t *testing.T) {
	for seed := range uint64(soaktest.Rounds(t, 1, 30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 14))
			h := build(t, t.TempDir(), houseOptions{})
			const past = 200_000
			write := func(id, key string, n int) {
				var readings []entity.Reading
				for range n {
					readings = append(readings, entity.Reading{TS: 1 + rng.Int64N(past), Values: []entity.Sample{sample(key, rng.IntN(100))}})
				}
				if err := h.rt.Write(t.Context(), id, readings, 1000); err != nil {
					t.Fatal(err)
				}
			}
			statements := []string{"m: insert into s select a.x + b.y as sum, max(a.x) over last 20 as most, sum(a.x) over 5s as recent"}
			write("a", "x", 1500)
			for _, m := range parseAll(t, statements) {
				h.put(m.Name, m.Statement.String())
			}
			if _, err := h.Recompute(t.Context(), parseAll(t, statements)[0].Name, 0, end); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				write("b", "y", 1+rng.IntN(200))
				write("a", "x", 1+rng.IntN(80))
			}
			h.sync(2)
			checkHouse(t, h, statements)
		})
	}
}
