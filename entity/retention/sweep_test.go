package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/series"
)

const minute, hour, day = 60_000, 3_600_000, 24 * 3_600_000

// noon is when the tests of this file take place.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// retainer returns one whose rounds the test calls.
func retainer(t *testing.T, rt *entity.Runtime) *Retainer {
	t.Helper()
	r := New(rt, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return noon }
	t.Cleanup(r.Close)
	return r
}

func mustRound(t *testing.T, r *Retainer) {
	t.Helper()
	r.round()
	if text := r.Status().Error; text != "" {
		t.Fatal(text)
	}
}

func putRule(t *testing.T, r *Retainer, rule series.Rule) {
	t.Helper()
	if _, err := r.PutRule(t.Context(), "r", &rule, ""); err != nil {
		t.Fatal(err)
	}
}

// post writes a value of the key t.
func post(t *testing.T, rt *entity.Runtime, id string, ts int64, v int) {
	t.Helper()
	entitytest.Post(t, rt, id, fmt.Sprintf(`{"ts":%d,"values":{"t":%d}}`, ts, v))
}

// rows returns how many values the rows of a step have, and the time they cover.
func rows(t *testing.T, r *Retainer, id string, step series.Span) (n int64, covered series.Range) {
	t.Helper()
	k, err := r.Series(t.Context(), id, "t")
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range r.Rows(t.Context(), k, step, series.Range{From: 0, To: entity.MaxTS}) {
		if err != nil {
			t.Fatal(err)
		}
		n += row.Summary.Count
	}
	return n, k.Kept.Tier(step).Range
}

func documents(t *testing.T, rt *entity.Runtime) (n int) {
	t.Helper()
	for _, kind := range []string{kindSeries, kindRollup} {
		docs, err := rt.Docs(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		n += len(docs)
	}
	return n
}

// What is left of an entity that was deleted while nobody followed the changes goes with the next
// round, also without a rule.
func TestRowsOfDeletedEntitiesGoEvenWhereTheirDeletionIsNotInTheLog(t *testing.T) {
	t.Parallel()
	for _, ruled := range []bool{true, false} {
		t.Run(fmt.Sprint("with a rule ", ruled), func(t *testing.T) {
			t.Parallel()
			rt := entitytest.Open(t)
			r := retainer(t, rt)
			putRule(t, r, series.Rule{Key: "t", Tiers: []series.Tier{{Step: minute}}})
			post(t, rt, "a", noon.UnixMilli()-hour, 1)
			mustRound(t, r)
			r.Close()
			if n := documents(t, rt); n != 2 {
				t.Fatalf("%d documents; want those of a series and a chunk", n)
			}
			if err := rt.Delete(t.Context(), "a", ""); err != nil {
				t.Fatal(err)
			}
			if _, err := rt.PutDoc(t.Context(), kindState, statePlace, []byte("other-1"), ""); err != nil { // a place of which there is nothing
				t.Fatal(err)
			}
			r = retainer(t, rt)
			if !ruled {
				if err := r.DeleteRule(t.Context(), "r", ""); err != nil {
					t.Fatal(err)
				}
			}
			mustRound(t, r)
			if n := documents(t, rt); n != 0 {
				t.Errorf("%d documents are left", n)
			}
		})
	}
}

// Rows that no rule makes any more would hide late values. They go where there are the values, and
// stay where there are not.
func TestRowsWithoutARuleStayOnlyWhereTheValuesAreGone(t *testing.T) {
	t.Parallel()
	rt := entitytest.Open(t)
	r := retainer(t, rt)
	rule := series.Rule{Key: "t", Raw: 2 * day, Tiers: []series.Tier{{Step: minute}, {Step: hour}}}
	putRule(t, r, rule)
	for d := range int64(5) {
		for i := range int64(10) {
			post(t, rt, "a", noon.UnixMilli()-d*day-2*hour+i*minute, 1)
		}
	}
	mustRound(t, r)
	if n, _ := rows(t, r, "a", minute); n != 50 {
		t.Fatalf("the rows have %d values", n)
	}
	rule.Tiers = rule.Tiers[1:]
	putRule(t, r, rule)
	for range 2 { // the second time there is nothing to do
		mustRound(t, r)
		if n, covered := rows(t, r, "a", minute); n != 30 || covered.To != noon.UnixMilli()-2*day {
			t.Errorf("the rows of a minute have %d values of %v", n, covered)
		}
		if n, _ := rows(t, r, "a", hour); n != 50 {
			t.Errorf("the rows of an hour have %d values", n)
		}
	}
	if err := r.DeleteRule(t.Context(), "r", ""); err != nil {
		t.Fatal(err)
	}
	mustRound(t, r)
	for _, step := range []series.Span{minute, hour} {
		if n, covered := rows(t, r, "a", step); n != 30 || covered.To != noon.UnixMilli()-2*day {
			t.Errorf("without a rule the rows of %v have %d values of %v", step, n, covered)
		}
	}
	// All is as before when the rule is back, with what came late meanwhile.
	post(t, rt, "a", noon.UnixMilli()-day, 1)
	rule.Tiers = []series.Tier{{Step: minute}, {Step: hour}}
	putRule(t, r, rule)
	mustRound(t, r)
	for _, step := range []series.Span{minute, hour} {
		if n, _ := rows(t, r, "a", step); n != 51 {
			t.Errorf("with the rule again the rows of %v have %d values", step, n)
		}
	}
}

// failingState is a store in which nobody can note up to where the changes were read, but for the
// first time: as if the process ended before.
type failingState struct {
	entity.Store
	notes atomic.Int64
}

func (s *failingState) PutDoc(ctx context.Context, doc entity.Doc, condition string) (entity.Doc, error) {
	if doc.Kind == kindState && s.notes.Add(1) == 2 {
		return doc, errors.New("it ended")
	}
	return s.Store.PutDoc(ctx, doc, condition)
}

func TestWhatCameAfterAFirstRoundThatDidNotEndIsLate(t *testing.T) {
	t.Parallel()
	rt := entitytest.OpenOn(t, func(s entity.Store) entity.Store { return &failingState{Store: s} })
	r := retainer(t, rt)
	putRule(t, r, series.Rule{Key: "t", Tiers: []series.Tier{{Step: minute}}})
	post(t, rt, "a", noon.UnixMilli()-hour, 1)
	r.round()
	if r.Status().Error == "" {
		t.Fatal("the round has ended well; this tests nothing")
	}
	r.Close()
	post(t, rt, "a", noon.UnixMilli()-hour+1, 1)
	r = retainer(t, rt)
	until(t, r, "what came after the first round is not in the rows", func() bool {
		n, _ := rows(t, r, "a", minute)
		return n == 2
	})
}

// Where the step is so long that all rows are in chunk 0, those stay whose values are gone.
func TestLongRowsStayWithoutARuleWhereTheValuesAreGone(t *testing.T) {
	t.Parallel()
	for _, step := range []series.Span{60 * day, 90 * day, 365 * day} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			rt := entitytest.Open(t)
			r := retainer(t, rt)
			putRule(t, r, series.Rule{Key: "t", Raw: 730 * day, Tiers: []series.Tier{{Step: step}}})
			post(t, rt, "a", noon.UnixMilli()-1800*day, 1)
			post(t, rt, "a", noon.UnixMilli()-400*day, 1)
			mustRound(t, r)
			mustRound(t, r)
			if n, _ := rows(t, r, "a", step); n != 2 || r.Status().Removed != 1 {
				t.Fatalf("the rows have %d values, %+v; want 2 and one of them removed", n, r.Status())
			}
			if err := r.DeleteRule(t.Context(), "r", ""); err != nil {
				t.Fatal(err)
			}
			mustRound(t, r)
			if n, covered := rows(t, r, "a", step); n != 1 || covered.To == 0 {
				t.Errorf("the rows have %d values of %v; want the one that is gone", n, covered)
			}
		})
	}
}

// stoppedStore is a store in which no chunk can be deleted while it is stopped: as if the process
// ended before.
type stoppedStore struct {
	entity.Store
	stopped atomic.Bool
	listed  atomic.Int64 // how often all that is kept was listed
}

func (s *stoppedStore) DeleteDoc(ctx context.Context, kind, id, condition string) error {
	if kind == kindRollup && s.stopped.Load() {
		return errors.New("it ended")
	}
	return s.Store.DeleteDoc(ctx, kind, id, condition)
}

func (s *stoppedStore) Docs(ctx context.Context, kind, after string, limit int) ([]entity.Doc, error) {
	if kind == kindSeries && after == "" {
		s.listed.Add(1)
	}
	return s.Store.Docs(ctx, kind, after, limit)
}

func TestChunksThatARoundLeftWhichDidNotEndGo(t *testing.T) {
	t.Parallel()
	for _, raw := range []series.Span{0, 2 * day} {
		t.Run("values of "+raw.String(), func(t *testing.T) {
			t.Parallel()
			store := &stoppedStore{}
			rt := entitytest.OpenOn(t, func(s entity.Store) entity.Store { store.Store = s; return store })
			r := retainer(t, rt)
			putRule(t, r, series.Rule{Key: "t", Raw: raw, Tiers: []series.Tier{{Step: minute}}})
			post(t, rt, "a", noon.UnixMilli()-4*day, 1)
			post(t, rt, "a", noon.UnixMilli()-hour, 1)
			mustRound(t, r)
			if n := documents(t, rt); n != 3 {
				t.Fatalf("%d documents; want those of a series and two chunks", n)
			}
			if err := r.DeleteRule(t.Context(), "r", ""); err != nil {
				t.Fatal(err)
			}
			store.stopped.Store(true)
			r.round()
			if r.Status().Error == "" {
				t.Fatal("the round has ended well; this tests nothing")
			}
			r.Close()
			store.stopped.Store(false)
			r = retainer(t, rt)
			mustRound(t, r)
			want := 1
			if raw != 0 {
				want = 2 // with the chunk of the value that is gone
			}
			if n := documents(t, rt); n != want {
				t.Errorf("%d documents are left, want %d", n, want)
			}
		})
	}
}

// patience is how long a test waits for what must come, on a machine that has other things to do.
const patience = 2 * time.Minute

// until has rounds until something is so: the changes are read in the background.
func until(t *testing.T, r *Retainer, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); mustRound(t, r) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// The place that is stored must not fall behind what the log keeps while there are neither readings
// nor edits.
func TestThePlaceOfLatenessFollowsAllChanges(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*testing.T, *entity.Runtime){
		"presence": func(t *testing.T, rt *entity.Runtime) { t.Cleanup(rt.Connect("a")) },
		"command": func(t *testing.T, rt *entity.Runtime) {
			if _, err := rt.Command(t.Context(), "a", entity.NewCommand{Name: "open"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rt := entitytest.Open(t)
			r := retainer(t, rt)
			putRule(t, r, series.Rule{Key: "t", Tiers: []series.Tier{{Step: minute}}})
			post(t, rt, "a", noon.UnixMilli(), 1)
			all, err := rt.Follow(t.Context(), entity.ChangesQuery{Edits: true, Commands: true, Presence: true})
			if err != nil {
				t.Fatal(err)
			}
			defer all.Close()
			mustRound(t, r)
			change(t, rt)
			c, err := all.Next(t.Context())
			if err != nil || c.Presence == nil && c.Command == nil {
				t.Fatalf("the change is %+v, %v", c, err)
			}
			until(t, r, "the place is not that of the change", func() bool {
				doc, err := rt.Doc(t.Context(), kindState, statePlace)
				if err != nil {
					t.Fatal(err)
				}
				return string(doc.Body) == c.Cursor
			})
		})
	}
}

// Without a rule no row is made, and no value is late.
func TestWithoutARuleLateValuesAreNotRecorded(t *testing.T) {
	t.Parallel()
	rt := entitytest.Open(t)
	r := retainer(t, rt)
	putRule(t, r, series.Rule{Key: "t", Tiers: []series.Tier{{Step: minute}}})
	mustRound(t, r)
	if err := r.DeleteRule(t.Context(), "r", ""); err != nil {
		t.Fatal(err)
	}
	mustRound(t, r)
	all, err := rt.Follow(t.Context(), entity.ChangesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	post(t, rt, "a", noon.UnixMilli()-hour, 1)
	c, err := all.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until(t, r, "the value was not read", func() bool {
		r.late.mu.Lock()
		defer r.late.mu.Unlock()
		if n := len(r.late.noted.series); n != 0 {
			t.Fatalf("%d series are recorded as late", n)
		}
		return r.late.cursor == c.Cursor
	})
}

// What a provisioned fleet has of types does not make a round read all that is kept.
func TestEntitiesWithNewTypesAreSweptByTheirKeys(t *testing.T) {
	t.Parallel()
	store := &stoppedStore{}
	rt := entitytest.OpenOn(t, func(s entity.Store) entity.Store { store.Store = s; return store })
	for _, id := range []string{"pump", "fan"} {
		typ, err := model.Parse(fmt.Appendf(nil, `{"id":%q}`, id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.PutType(t.Context(), typ, ""); err != nil {
			t.Fatal(err)
		}
	}
	setType := func(id, typ string) {
		t.Helper()
		if _, err := rt.Edit(t.Context(), id, entity.Edits{Type: &typ}); err != nil {
			t.Fatal(err)
		}
	}
	r := retainer(t, rt)
	putRule(t, r, series.Rule{Type: "pump", Key: "t", Tiers: []series.Tier{{Step: minute}}})
	setType("a", "pump")
	post(t, rt, "a", noon.UnixMilli()-hour, 1)
	mustRound(t, r)
	if n := documents(t, rt); n != 2 {
		t.Fatalf("%d documents; want those of a series and a chunk", n)
	}
	listed := store.listed.Load()
	setType("b", "pump") // made with its type
	setType("a", "fan")
	kept := func() int {
		k, err := r.store.load(t.Context(), "a", "t")
		if err != nil {
			t.Fatal(err)
		}
		return len(k.Kept.Tiers) + len(k.chunks)
	}
	until(t, r, "the rows of the old type are left", func() bool { return kept() == 0 })
	if n := store.listed.Load() - listed; n != 0 {
		t.Errorf("all that is kept was listed %d times", n)
	}
}
