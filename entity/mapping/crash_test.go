package mapping

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/soaktest"
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
		recomputed := map[string]map[int64]value.Value{}
		err := fresh.Recompute(t.Context(), h.reader, mapped.Name, 0, end, func(v Value) error {
			if recomputed[v.Key] == nil {
				recomputed[v.Key] = map[int64]value.Value{}
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
			live := map[int64]value.Value{}
			for _, p := range h.points(mapped.Statement.Into, f.As) {
				live[p.TS] = p.Value
			}
			compareHistory(t, mapped.Name+"."+f.As, live, recomputed[f.As])
		}
	}
	for _, o := range outputs {
		for _, r := range o.Readings {
			for _, s := range r.Values {
				if got, _ := h.latest(o.Into, s.Key); got.Value != s.Value {
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
	type made struct {
		id string
		by entity.Origin
		ts int64
	}
	seen := map[made]bool{}
	for c := range changesFrom(t, h, cursor) {
		m := made{c.Entity, c.Origin, c.TS}
		if !c.Origin.IsZero() && seen[m] {
			t.Fatalf("%+v is there twice", m)
		}
		seen[m] = true
	}
}

// changesFrom returns the changes from a cursor up to now.
func changesFrom(t *testing.T, h *house, cursor string) iter.Seq[entity.Change] {
	return func(yield func(entity.Change) bool) {
		t.Helper()
		sub, err := h.rt.Changes(t.Context(), entity.ChangesQuery{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		h.write("last", 1, sample("x", 1))
		for {
			c, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.Entity == "last" || !yield(c) {
				return
			}
		}
	}
}

func TestAfterACrashOfTheStoreNothingIsMissingOrThereTwice(t *testing.T) {
	for seed := range uint64(soaktest.Rounds(t, 2, 20)) {
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
	list := []string{"m: insert into e select a.x * 2 as y", "n: insert into f select sum(m.x) as y from like 'a%' as m"}
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

// twice is a mapping whose every source reading has one value.
const twice = "insert into b select a.n * 2 as twice"

// sendTwice sends n readings with rising times to the source of twice.
func (h *house) sendTwice(from, n int) {
	h.t.Helper()
	for i := from; i < from+n; i++ {
		h.send("a", int64(i), sample("n", i))
	}
}

// checkTwice wants a value of twice for each reading of its source.
func (h *house) checkTwice(when string) {
	h.t.Helper()
	source := h.points("a", "n")
	there := map[int64]value.Value{}
	for _, p := range h.points("b", "twice") {
		there[p.TS] = p.Value
	}
	missing := 0
	for _, p := range source {
		if there[p.TS] != value.Int(2*p.TS) {
			missing++
		}
	}
	if missing > 0 || len(there) != len(source) {
		h.t.Fatalf("%s: of %d readings %d have no value or another one, there are %d", when, len(source), missing, len(there))
	}
	if st := h.Stats(); st.Refused != 0 {
		h.t.Errorf("%s: %d values were refused", when, st.Refused)
	}
}

// The mappings stop and the runtime goes on, as far as the store can tell the
// difference from a kill: what was read last has no values yet. What is written
// again then must be kept, in whatever year the clock believes to be, and when it
// goes back between the runs.
func TestTheLastBatchBeforeAKillHasItsValuesAfterIt(t *testing.T) {
	const day = 86_400_000
	for name, clock := range map[string]func(run int64) int64{
		"1970":             func(run int64) int64 { return 1 + run },
		"2026":             func(run int64) int64 { return 1<<23 | 1_795_000_000_000 + run*day },
		"2026, an odd one": func(run int64) int64 { return 1_795_000_000_000&^(1<<23) + run*day },
		"2100":             func(run int64) int64 { return 4_102_444_800_000 + run*day },
		"it goes back":     func(run int64) int64 { return 1_795_000_000_000 - run*day },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := build(t, dir, houseOptions{clock: clock(0)})
			h.put("m", twice)
			h.sendTwice(0, 600)
			h.sync(1)
			for run := range int64(3) {
				h.Service.cancel()
				h.Service.wg.Wait()
				h.sendTwice(600+200*int(run), 200)
				h.sent.Wait()
				h.close()
				h = build(t, dir, houseOptions{clock: clock(run + 1)})
				h.sync(1)
				h.checkTwice(fmt.Sprint("start ", run+1))
			}
		})
	}
}

func TestAKillAtFullSpeedLeavesNoReadingWithoutItsValue(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	dir := t.TempDir()
	h := build(t, dir, houseOptions{mappings: Config{SaveEvery: 20 * time.Millisecond}})
	h.put("m", twice)
	cursor := startOf(t, h)
	n := 0
	for round := range 6 {
		for range 2 + r.IntN(12) {
			h.sendTwice(n, 200)
			n += 200
		}
		h.crash()
		h = build(t, dir, houseOptions{mappings: Config{SaveEvery: 20 * time.Millisecond}})
		h.sync(1)
		h.checkTwice(fmt.Sprint("after kill ", round+1))
	}
	checkOnce(t, h, cursor)
}

func TestATargetThatFailsForAMomentGetsWhatItHasMissed(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{mappings: Config{RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}})
	h.put("m", twice)
	h.write("a", 0, sample("other", 0))
	h.store.loads.Store(1) // of the target: what comes with it is refused, what comes after it is not
	var readings []entity.Reading
	for i := range int64(12) {
		readings = append(readings, entity.Reading{TS: i, Values: []entity.Sample{sample("n", int(i))}})
	}
	if err := h.rt.Write(t.Context(), "a", readings, 100); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	h.checkTwice("after a load that failed")
	if h.Stats().Restarts == 0 {
		t.Error("nothing has failed: the test shows nothing")
	}
}

func TestNumbersGoUpOverBlocksAndRuns(t *testing.T) {
	dir := t.TempDir()
	last := uint64(0)
	for run := range 3 {
		h := build(t, dir, houseOptions{})
		err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
			for range numberBlock + 10 {
				n, err := f.s.number(ctx)
				if err != nil || n <= last {
					return fmt.Errorf("run %d: %d after %d: %w", run, n, last, err)
				}
				last = n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.send("a", 1, sample("x", 0)) // something to commit
		h.crash()
	}
	if last > 20*numberBlock {
		t.Errorf("%d numbers are used up", last)
	}
}
