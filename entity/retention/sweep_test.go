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
	for deadline := time.Now().Add(20 * time.Second); ; { // the changes are read in the background
		mustRound(t, r)
		n, _ := rows(t, r, "a", minute)
		if n == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the rows have %d values", n)
		}
	}
}
