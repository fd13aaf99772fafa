// Package storetest is the conformance suite for [entity.Store]: a store must pass Run and RunSealed.
package storetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Open opens the store whose data is at dir, a directory of the test's own that
// is empty the first time. It is called again with the same dir after Close, and
// then finds what was committed. A failure ends the test.
type Open func(t *testing.T, dir string) entity.Store

// tests are what a store must pass, beside history.
func tests() map[string]func(*testing.T, *kit) {
	return map[string]func(*testing.T, *kit){
		"NewStoreIsEmpty":                       newStoreIsEmpty,
		"LatestIsTheNewestByTimeAndSequence":    latestIsNewest,
		"BatchOutOfOrderIsRefusedAndLeavesNone": outOfOrderIsRefused,
		"NumbersAreGivenOnceAndKept":            numbersAreKept,
		"EntitiesArePagedAndSearched":           entitiesArePaged,
		"ChangesAreInOrderAndResume":            changesResume,
		"EndedContextCommitsNothing":            endedContext,
		"AttributesAreKeptLeafByLeaf":           attributesAreKept,
		"AnEntityIsLoadedAsOfOneCommit":         loadedOfOneCommit,
		"EntitiesAreFoundByType":                entitiesAreFoundByType,
		"RelationsAreKeptAndPaged":              relationsAreKept,
		"ComputedEditsKeepTheirOrigin":          computedEditsKeepTheirOrigin,
		"EditsAreInTheChangeLog":                editsAreInTheChangeLog,
		"DocumentsAreKeptWithVersions":          documentsAreKept,
		"DocumentsComeInPages":                  documentsComeInPages,
		"ItemsAreKeptInTheOrderOfTheirKeys":     itemsAreKept,
		"EachOpeningThatCommitsIsAGeneration":   openingsAreGenerations,
		"CommandsAreKeptWithAllTheyHave":        commandsAreKept,
		"CommandsAreAskedForByPages":            commandsAreAskedFor,
		"StepsOfACommandReplaceIt":              stepsOfACommandReplaceIt,
		"EndedCommandsAreBounded":               endedCommandsAreBounded,
		"CommandsGoWithTheirEntity":             commandsGoWithTheirEntity,
		"PresencesAreKept":                      presencesAreKept,
		"SeenIsSavedBesideTheChanges":           seenIsSaved,
		"PresencesGoWithTheirEntity":            presencesGoWithTheirEntity,
	}
}

// history are those whose answers must be the same when the history is sealed.
func history() map[string]func(*testing.T, *kit) {
	return map[string]func(*testing.T, *kit){
		"CommitIsFoundAgainAfterReopening":   commitIsFoundAgain,
		"EveryValueComesBackAsItWas":         valuesComeBack,
		"SameKeyAndTimeIsReplacedByTheLater": sameTimeIsReplaced,
		"SameBatchAgainEndsInTheSameState":   sameBatchAgain,
		"HistoryIsPagedBothWays":             historyIsPaged,
		"ScanFindsWhatHistoryFinds":          scanFindsWhatHistoryFinds,
		"CompactChangesNoAnswer":             compactChangesNoAnswer,
		"CountsTheNumbersOfASeries":          countsNumbers,
		"ManyRowsInOneBatch":                 manyRows,
		"DeletedEntityIsGone":                deletedEntityIsGone,
		"ComputedReadingsKeepTheirOrigin":    computedReadingsKeepTheirOrigin,
		"HistoryIsTrimmedInBits":             historyIsTrimmed,
		"ReadingsWithoutATimeAreKeptEach":    arrivedAreKeptEach,
	}
}

// Run runs the suite, each test with a store of its own. The second part of the suite is RunSealed.
func Run(t *testing.T, open Open) {
	for name, test := range tests() {
		t.Run(name, func(t *testing.T) { run(t, open, test, false) })
	}
	for name, test := range history() {
		t.Run(name, func(t *testing.T) { run(t, open, test, false) })
	}
}

// RunSealed runs the tests about history once more, with [entity.Store.Compact] before a store is opened again and
// after each other commit: parts of the history are sealed, in rows, and late rows over blocks.
func RunSealed(t *testing.T, open Open) {
	for name, test := range history() {
		t.Run(name, func(t *testing.T) { run(t, open, test, true) })
	}
}

func run(t *testing.T, open Open, test func(*testing.T, *kit), seals bool) {
	dir := t.TempDir()
	k := &kit{t: t, dir: dir, open: open, store: open(t, dir), seals: seals}
	k.next = k.store.Info().LastChange + 1
	t.Cleanup(func() {
		if err := k.store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	test(t, k)
}

// kit is a store with the bookkeeping that the runtime does.
type kit struct {
	t     *testing.T
	dir   string
	open  Open
	store entity.Store
	next  uint64

	seals   bool // see RunSealed
	commits int
	deleted bool // an entity, of which something may be left
}

// compact seals all that can be, and checks that it is.
func (k *kit) compact() {
	k.t.Helper()
	if err := k.store.Compact(k.t.Context()); err != nil {
		k.t.Fatalf("compact: %v", err)
	}
	u, err := k.store.Usage(k.t.Context())
	if err != nil || !k.deleted && u.Sealed != u.Values || (u.Sealed == 0) != (u.Blocks == 0) || (u.Sealed == 0) != (u.SealedBytes == 0) {
		k.t.Fatalf("compact has left %+v, %v", u, err)
	}
}

// values returns how many values of the history are in the tables, sealed and not.
func (k *kit) values() (sealed, open int64) {
	k.t.Helper()
	u, err := k.store.Usage(k.t.Context())
	if err != nil {
		k.t.Fatalf("usage: %v", err)
	}
	return u.Sealed, u.Values - u.Sealed
}

func (k *kit) reopen() {
	k.t.Helper()
	if k.seals {
		k.compact()
	}
	before := k.store.Info()
	if err := k.store.Close(); err != nil {
		k.t.Fatalf("close: %v", err)
	}
	k.store = k.open(k.t, k.dir)
	after := k.store.Info()
	checkGenerations(k.t, before, after)
	after.Generations = before.Generations
	if !reflect.DeepEqual(after, before) {
		k.t.Fatalf("reopened: info is %+v, was %+v", after, before)
	}
}

// checkGenerations checks that a store that was opened again has the generations of its
// changes, and begins another one with its next change.
func checkGenerations(t *testing.T, before, after entity.StoreInfo) {
	t.Helper()
	want := before.Generations
	if n := len(want); n > 0 && want[n-1].First > before.LastChange { // it has no change
		want = want[:n-1]
	}
	n := len(after.Generations)
	if n == 0 || !slices.Equal(after.Generations[:n-1], want[max(0, len(want)-n+1):]) {
		t.Fatalf("reopened: the generations are %+v, were %+v", after.Generations, before.Generations)
	}
	mine, first := after.Generations[n-1], after.Generations[0].First
	if mine.First != after.LastChange+1 || first >= after.FirstChange {
		t.Errorf("reopened: the generations %+v do not cover the changes from %d to %d", after.Generations, after.FirstChange-1, after.LastChange+1)
	}
	if slices.ContainsFunc(before.Generations, func(g entity.Generation) bool { return g.ID == mine.ID }) || mine.ID == "" {
		t.Errorf("reopened: the generation %+v is not a new one", mine)
	}
}

// given is one reading to commit, with its sequence.
type given struct {
	id     string
	seq    uint64
	ts     int64
	values []entity.Sample
	late   bool // keep it out of the change buffer
}

// batch makes a batch of readings.
func (k *kit) batch(readings ...given) *entity.Batch {
	b := &entity.Batch{First: k.next, Committed: 1_700_000_000_000 + int64(k.next)}
	places := map[string]int{}
	for _, g := range readings {
		place, ok := places[g.id]
		if !ok {
			place = len(b.Entities)
			places[g.id] = place
			b.Entities = append(b.Entities, entity.BatchEntity{ID: g.id, Created: 1000})
		}
		b.Records = append(b.Records, entity.Record{Entity: place, Seq: g.seq, Reading: entity.Reading{TS: g.ts, Values: g.values}})
		for _, s := range g.values {
			if g.late {
				continue
			}
			row := entity.LatestRow{Entity: place, Latest: entity.Latest{Key: s.Key, TS: g.ts, Seq: g.seq, Value: s.Value}}
			at := slices.IndexFunc(b.Latest, func(l entity.LatestRow) bool { return l.Entity == place && l.Key == s.Key })
			if at < 0 {
				b.Latest = append(b.Latest, row)
			} else if l := b.Latest[at]; g.ts > l.TS || g.ts == l.TS && g.seq >= l.Seq {
				b.Latest[at] = row
			}
		}
	}
	return b
}

func (k *kit) commit(b *entity.Batch) {
	k.t.Helper()
	if err := k.store.Commit(k.t.Context(), b); err != nil {
		k.t.Fatalf("commit: %v", err)
	}
	k.next = b.First + uint64(len(b.Records))
	k.deleted = k.deleted || slices.ContainsFunc(b.Entities, func(e entity.BatchEntity) bool { return e.Deleted })
	if k.commits++; k.seals && k.commits%2 == 1 {
		k.compact()
	}
}

func (k *kit) load(id string) entity.Stored {
	k.t.Helper()
	e, err := k.store.Load(k.t.Context(), id)
	if err != nil {
		k.t.Fatalf("load %q: %v", id, err)
	}
	return e
}

func (k *kit) history(id, key string, from, to int64, limit int, descending bool) []entity.Point {
	k.t.Helper()
	first, end := entity.AllOf(from, to)
	points, err := k.store.History(k.t.Context(), id, key, first, end, limit, descending)
	if err != nil {
		k.t.Fatalf("history of %q %q: %v", id, key, err)
	}
	return points
}

const forever = entity.MaxTS + 1

func one(key string, v value.Value) []entity.Sample { return []entity.Sample{{Key: key, Value: v}} }

func newStoreIsEmpty(t *testing.T, k *kit) {
	info := k.store.Info()
	if info.Identity == "" || info.LastChange != 0 || info.FirstChange != 1 || info.Entities != 0 {
		t.Errorf("info of a new store: %+v", info)
	}
	if _, err := k.store.Load(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("load: %v, want ErrNotFound", err)
	}
	if list, err := k.store.Entities(t.Context(), entity.ListQuery{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("entities: %v, %v", list, err)
	}
	if points := k.history("a", "t", 0, forever, 10, false); len(points) != 0 {
		t.Errorf("history: %v", points)
	}
	if n, err := k.store.CountNumbers(t.Context(), "a", "t", 0, forever); err != nil || n != 0 {
		t.Errorf("count: %d, %v", n, err)
	}
	if changes, err := k.store.Changes(t.Context(), 0, 10); err != nil || len(changes) != 0 {
		t.Errorf("changes: %v, %v", changes, err)
	}
	if _, err := k.store.Changes(t.Context(), 1, 10); !errors.Is(err, entity.ErrCursorExpired) {
		t.Errorf("changes after one that never was: %v, want ErrCursorExpired", err)
	}
	k.reopen()
}

func openingsAreGenerations(t *testing.T, k *kit) {
	for i := range uint64(3) {
		k.commit(k.batch(given{id: "a", seq: 2*i + 1, ts: 1, values: one("t", value.Int(1))}))
		k.commit(k.batch(given{id: "a", seq: 2*i + 2, ts: 2, values: one("t", value.Int(1))}))
		k.reopen()
		k.reopen() // one without a commit leaves nothing
	}
	var firsts []uint64
	for _, g := range k.store.Info().Generations {
		firsts = append(firsts, g.First)
	}
	if !slices.Equal(firsts, []uint64{0, 1, 3, 5, 7}) {
		t.Errorf("the generations begin with the changes %d", firsts)
	}
}

func commitIsFoundAgain(t *testing.T, k *kit) {
	k.commit(k.batch(
		given{id: "a", seq: 1, ts: 5000, values: []entity.Sample{{Key: "t", Value: value.Float(1.5)}, {Key: "h", Value: value.Int(40)}}},
		given{id: "b", seq: 1, ts: 6000, values: one("t", value.Float(2.5))},
	))
	k.commit(k.batch(given{id: "a", seq: 2, ts: 7000, values: one("t", value.Float(3.5))}))
	for range 2 {
		a := k.load("a")
		want := []entity.Latest{{Key: "h", TS: 5000, Seq: 1, Value: value.Int(40)}, {Key: "t", TS: 7000, Seq: 2, Value: value.Float(3.5)}}
		if a.ID != "a" || a.Num == 0 || a.Created != 1000 || a.Updated != 7000 || a.Seq != 2 || !slices.EqualFunc(a.Latest, want, sameLatest) {
			t.Errorf("loaded %+v", a)
		}
		if b := k.load("b"); b.Num == a.Num || b.Seq != 1 || b.Updated != 6000 || len(b.Latest) != 1 {
			t.Errorf("loaded %+v", b)
		}
		points := k.history("a", "t", 0, forever, 10, false)
		if !slices.EqualFunc(points, []entity.Point{{TS: 5000, Value: value.Float(1.5)}, {TS: 7000, Value: value.Float(3.5)}}, samePoint) {
			t.Errorf("history %v", points)
		}
		if info := k.store.Info(); info.LastChange != 3 || info.FirstChange != 1 || info.Entities != 2 {
			t.Errorf("info %+v", info)
		}
		k.reopen()
	}
}

func sameLatest(a, b entity.Latest) bool {
	return a.Key == b.Key && a.TS == b.TS && a.Seq == b.Seq && a.Value == b.Value
}

func samePoint(a, b entity.Point) bool { return a.TS == b.TS && a.Value == b.Value }

func sameSample(a, b entity.Sample) bool { return a.Key == b.Key && a.Value == b.Value }

func valuesComeBack(t *testing.T, k *kit) {
	var values []entity.Sample
	for i, v := range []value.Value{
		value.Float(0), value.Float(math.Copysign(0, -1)), value.Float(21), value.Float(0.1), value.Float(math.MaxFloat64), value.Float(5e-324),
		value.Int(0), value.Int(-1), value.Int(math.MaxInt64), value.Int(math.MinInt64), value.Bool(true), value.Bool(false),
		value.String(""), value.String("plain"), value.String("12"), value.String("1.5e3"), value.String("nul\x00inside"), value.String("é😀\u2028"), value.String(strings.Repeat("x", entity.MaxTextBytes)),
		entity.ParseJSON([]byte(`{"a":[1,null,{"b":"c"}]}`)), entity.ParseJSON([]byte(`[]`)),
	} {
		values = append(values, entity.Sample{Key: fmt.Sprintf("key %02d 'quoted' é", i), Value: v})
	}
	id := "id 'quoted' \"twice\" % _ é"
	k.commit(k.batch(given{id: id, seq: 1, ts: entity.MaxTS, values: values}))
	k.commit(k.batch(given{id: id, seq: 2, ts: 0, values: values, late: true}))
	for range 2 {
		e := k.load(id)
		changes, err := k.store.Changes(t.Context(), 0, 10)
		if err != nil || len(changes) != 2 || len(e.Latest) != len(values) {
			t.Fatalf("%d changes, %v; %d latest values, want %d", len(changes), err, len(e.Latest), len(values))
		}
		for i, s := range values {
			if l := e.Latest[i]; l.Key != s.Key || l.Value != s.Value || l.Value.Kind() != s.Value.Kind() {
				t.Errorf("latest: %q is %.40v, want %.40v", l.Key, l.Value, s.Value)
			}
			points := k.history(id, s.Key, 0, forever, 10, false)
			if len(points) != 2 || points[0].TS != 0 || points[1].TS != entity.MaxTS || points[0].Value != s.Value || points[1].Value != s.Value {
				t.Errorf("history of %q: %.80v", s.Key, points)
			}
		}
		for _, c := range changes {
			if c.Entity != id || !slices.EqualFunc(c.Values, values, sameSample) {
				t.Errorf("change %d of %q differs", c.Seq, c.Entity)
			}
		}
		k.reopen()
	}
}

func latestIsNewest(t *testing.T, k *kit) {
	k.commit(k.batch(given{id: "a", seq: 5, ts: 5000, values: one("t", value.Int(1))}))
	for _, tt := range []struct {
		seq  uint64
		ts   int64
		want int64
	}{
		{6, 4999, 1}, // late
		{4, 5000, 1}, // the same time, an earlier sequence
		{7, 5000, 7}, // the same time, a later sequence
		{8, 5001, 8}, // newer
		{9, 0, 8},    // late
	} {
		k.commit(k.batch(given{id: "a", seq: tt.seq, ts: tt.ts, values: one("t", value.Int(int64(tt.seq)))}))
		if got := k.load("a").Latest[0].Value; got.Int() != tt.want {
			t.Errorf("after (%d, %d): latest is %v, want %d", tt.ts, tt.seq, got, tt.want)
		}
	}
	if n := len(k.history("a", "t", 0, forever, 10, false)); n != 4 {
		t.Errorf("the history has %d points, want 4: late readings as well", n)
	}
}

func sameTimeIsReplaced(t *testing.T, k *kit) {
	k.commit(k.batch(
		given{id: "a", seq: 1, ts: 5000, values: one("t", value.Int(1))},
		given{id: "a", seq: 2, ts: 5000, values: one("t", value.String("two"))},
		given{id: "b", seq: 1, ts: 5000, values: one("t", value.Int(9))},
	))
	want := []entity.Point{{TS: 5000, Value: value.String("two")}}
	if got := k.history("a", "t", 0, forever, 10, false); !slices.EqualFunc(got, want, samePoint) {
		t.Errorf("within a batch: %v, want %v", got, want)
	}
	k.commit(k.batch(given{id: "a", seq: 3, ts: 5000, values: one("t", value.Bool(true))}))
	want[0].Value = value.Bool(true)
	if got := k.history("a", "t", 0, forever, 10, false); !slices.EqualFunc(got, want, samePoint) {
		t.Errorf("in the next batch: %v, want %v", got, want)
	}
	if got := k.history("b", "t", 0, forever, 10, false); len(got) != 1 || got[0].Value.Int() != 9 {
		t.Errorf("another entity changed: %v", got)
	}
}

// sameBatchAgain is the retry of a commit whose outcome was not known: what
// happened to a store that was reopened without having been told.
func sameBatchAgain(t *testing.T, k *kit) {
	b := k.batch(given{id: "a", seq: 1, ts: 5000, values: one("t", value.Int(1))}, given{id: "a", seq: 2, ts: 6000, values: one("t", value.Int(2))})
	k.commit(b)
	if err := k.store.Commit(t.Context(), b); err == nil {
		if changes, err := k.store.Changes(t.Context(), 0, 10); err != nil || len(changes) != 2 {
			t.Errorf("the same batch twice left %d changes, %v", len(changes), err)
		}
	}
	if got := k.history("a", "t", 0, forever, 10, false); len(got) != 2 {
		t.Errorf("history %v", got)
	}
	if info := k.store.Info(); info.LastChange != 2 || info.Entities != 1 {
		t.Errorf("info %+v", info)
	}
}

func outOfOrderIsRefused(t *testing.T, k *kit) {
	k.commit(k.batch(given{id: "a", seq: 1, ts: 5000, values: one("t", value.Int(1))}))
	b := k.batch(given{id: "new", seq: 2, ts: 6000, values: one("new key", value.Int(2))})
	b.First += 5
	if err := k.store.Commit(t.Context(), b); err == nil {
		t.Error("a batch that leaves a gap in the changes was accepted")
	}
	if _, err := k.store.Load(t.Context(), "new"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("the refused batch left its entity: %v", err)
	}
	k.commit(k.batch(given{id: "new", seq: 2, ts: 6000, values: one("new key", value.Int(2))}))
	if got := k.load("new").Latest; len(got) != 1 || got[0].Key != "new key" {
		t.Errorf("after the refused one: %v", got)
	}
}

func numbersAreKept(t *testing.T, k *kit) {
	b := k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))}, given{id: "b", seq: 1, ts: 1, values: one("t", value.Int(1))})
	k.commit(b)
	a, bb := b.Entities[0].Num, b.Entities[1].Num
	if a == 0 || bb == 0 || a == bb {
		t.Fatalf("numbers %d and %d", a, bb)
	}
	k.reopen()
	b = k.batch(given{id: "b", seq: 2, ts: 2, values: one("t", value.Int(2))}, given{id: "a", seq: 2, ts: 2, values: one("t", value.Int(2))}, given{id: "c", seq: 1, ts: 1, values: one("t", value.Int(1))})
	b.Entities[1].Num = a // one known to the caller, one not, one new
	k.commit(b)
	if b.Entities[0].Num != bb || b.Entities[1].Num != a || b.Entities[2].Num == 0 || b.Entities[2].Num == a || b.Entities[2].Num == bb {
		t.Errorf("numbers %+v, want %d, %d and a new one", b.Entities, bb, a)
	}
	if got := k.load("a"); got.Num != a || got.Seq != 2 {
		t.Errorf("loaded %+v", got)
	}
	if n := k.store.Info().Entities; n != 3 {
		t.Errorf("%d entities, want 3", n)
	}
}

func entitiesArePaged(t *testing.T, k *kit) {
	ids := []string{"B", "Room 1", "Zähler", "a", "b", "room 2", "x%y", "x_y", "ÄRGER", "ärger"}
	var readings []given
	for _, id := range ids {
		readings = append(readings, given{id: id, seq: 1, ts: 7, values: []entity.Sample{{Key: "t", Value: value.String(id)}, {Key: "h", Value: value.Int(1)}}})
	}
	k.commit(k.batch(readings...))
	slices.Sort(ids) // by bytes
	var got []string
	for after := ""; ; {
		page, err := k.store.Entities(t.Context(), entity.ListQuery{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got = append(got, e.ID)
			if len(e.Latest) != 2 || e.Latest[0].Key != "h" || e.Latest[1].Value.Text() != e.ID || e.Updated != 7 || e.Created != 1000 || e.Num == 0 {
				t.Errorf("entity %+v", e)
			}
		}
		after = got[len(got)-1]
	}
	if !slices.Equal(got, ids) {
		t.Errorf("pages have %q, want %q", got, ids)
	}
	for search, want := range map[string][]string{
		"room": {"Room 1", "room 2"}, "OOM": {"Room 1", "room 2"}, "%": {"x%y"}, "_": {"x_y"}, "ÄR": {"ÄRGER", "ärger"}, "zähl": {"Zähler"}, "nothing": nil,
	} {
		page, err := k.store.Entities(t.Context(), entity.ListQuery{Limit: 10, Search: search})
		var found []string
		for _, e := range page {
			found = append(found, e.ID)
		}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("search %q: %q, %v, want %q", search, found, err, want)
		}
	}
}

func historyIsPaged(t *testing.T, k *kit) {
	const hour = 3_600_000
	times := []int64{0, 1, hour - 1, hour, hour + 1, 5 * hour, 5*hour + 10, 400_000 * hour}
	for i, ts := range times {
		k.commit(k.batch(given{id: "a", seq: uint64(i + 1), ts: ts, values: one("t", value.Int(ts))}, given{id: "b", seq: uint64(i + 1), ts: ts + 3, values: one("t", value.Int(-1))}))
	}
	for _, r := range [][2]int64{{0, forever}, {1, hour}, {hour, hour + 1}, {hour, 5*hour + 10}, {2 * hour, 5 * hour}, {0, 0}, {400_000 * hour, forever}} {
		var want []int64
		for _, ts := range times {
			if ts >= r[0] && ts < r[1] {
				want = append(want, ts)
			}
		}
		for _, limit := range []int{1, 3, 100} {
			n := min(limit, len(want))
			up := k.history("a", "t", r[0], r[1], limit, false)
			down := k.history("a", "t", r[0], r[1], limit, true)
			if len(up) != n || len(down) != n {
				t.Fatalf("range %v limit %d: %d up and %d down, want %d", r, limit, len(up), len(down), n)
			}
			for i := range n {
				if up[i].TS != want[i] || up[i].Value.Int() != want[i] || down[i].TS != want[len(want)-1-i] {
					t.Errorf("range %v limit %d: up %v, down %v, want of %v", r, limit, up, down, want)
				}
			}
		}
	}
	if got := k.history("a", "no such key", 0, forever, 10, false); len(got) != 0 {
		t.Errorf("unknown key: %v", got)
	}
	if got := k.history("no such entity", "t", 0, forever, 10, false); len(got) != 0 {
		t.Errorf("unknown entity: %v", got)
	}
}

func countsNumbers(t *testing.T, k *kit) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const start, n = 1_451_649_600_000, 2000
	var numbers []int64 // their times
	var readings []given
	ts := int64(start)
	for i := range n {
		ts += 1 + rnd.Int64N(60_000)
		v := value.Float(rnd.NormFloat64() * 1000)
		switch i % 5 {
		case 1:
			v = value.Int(rnd.Int64N(1000) - 500)
		case 2:
			v = []value.Value{value.Bool(true), value.String("12"), entity.ParseJSON([]byte("[3]"))}[rnd.IntN(3)]
		}
		if _, ok := v.Number(); ok {
			numbers = append(numbers, ts)
		}
		readings = append(readings, given{id: "a", seq: uint64(i + 1), ts: ts, values: one("t", v)}, given{id: "b", seq: uint64(i + 1), ts: ts, values: one("t", value.Int(1<<40))})
	}
	k.commit(k.batch(readings...))
	for _, r := range [][2]int64{{0, forever}, {start + 12_345_678, start + 34_567_890}, {start, start}, {numbers[7], numbers[9]}, {numbers[7] + 1, numbers[9] + 1}} {
		want := 0
		for _, ts := range numbers {
			if ts >= r[0] && ts < r[1] {
				want++
			}
		}
		if got, err := k.store.CountNumbers(t.Context(), "a", "t", r[0], r[1]); err != nil || got != want {
			t.Errorf("range %v: %d, %v; want %d", r, got, err, want)
		}
	}
}

func changesResume(t *testing.T, k *kit) {
	var want []given
	for c := range 20 {
		var readings []given
		for i := range c%4 + 1 {
			id := fmt.Sprintf("e%d", i%3)
			readings = append(readings, given{id: id, seq: uint64(len(want) + 1), ts: int64(1000*c - i + 10), late: i > 2, values: []entity.Sample{{Key: "t", Value: value.Int(int64(len(want)))}, {Key: id, Value: value.Bool(true)}}})
			want = append(want, readings[len(readings)-1])
		}
		k.commit(k.batch(readings...))
	}
	for range 2 {
		for _, limit := range []int{1, 3, 1000} {
			var got []entity.LoggedChange
			for after := uint64(0); after < uint64(len(want)); after = got[len(got)-1].Seq {
				page, err := k.store.Changes(t.Context(), after, limit)
				if err != nil || len(page) == 0 || len(page) > limit {
					t.Fatalf("changes after %d limit %d: %d, %v", after, limit, len(page), err)
				}
				got = append(got, page...)
			}
			if len(got) != len(want) {
				t.Fatalf("limit %d: %d changes, want %d", limit, len(got), len(want))
			}
			for i, c := range got {
				w := want[i]
				if c.Seq != uint64(i+1) || c.Entity != w.id || c.TS != w.ts || !slices.EqualFunc(c.Values, w.values, sameSample) || c.Committed < 1_700_000_000_000 {
					t.Fatalf("change %d is %+v, want %+v", i+1, c, w)
				}
			}
		}
		if got, err := k.store.Changes(t.Context(), uint64(len(want)), 10); err != nil || len(got) != 0 {
			t.Errorf("changes after the last: %v, %v", got, err)
		}
		if _, err := k.store.Changes(t.Context(), uint64(len(want))+1, 10); !errors.Is(err, entity.ErrCursorExpired) {
			t.Errorf("changes after one to come: %v, want ErrCursorExpired", err)
		}
		k.reopen()
	}
}

func manyRows(t *testing.T, k *kit) {
	const entities, readings = 7, 431 // no multiple of any size of statement
	var list []given
	for i := range entities * readings {
		list = append(list, given{
			id: fmt.Sprintf("e%d", i%entities), seq: uint64(i/entities + 1), ts: int64(i/entities) * 100_000,
			values: []entity.Sample{{Key: "a", Value: value.Int(int64(i))}, {Key: "b", Value: value.Float(float64(i) / 3)}},
		})
	}
	k.commit(k.batch(list...))
	for e := range entities {
		id := fmt.Sprintf("e%d", e)
		for _, key := range []string{"a", "b"} {
			points := k.history(id, key, 0, forever, readings+1, false)
			if len(points) != readings {
				t.Fatalf("%s %s: %d points, want %d", id, key, len(points), readings)
			}
			for i, p := range points {
				f, _ := p.Value.Number()
				n := i*entities + e
				if key == "a" && int(f) != n || key == "b" && f != float64(n)/3 {
					t.Fatalf("%s %s point %d is %v, want of %d", id, key, i, p.Value, n)
				}
			}
		}
		if got := k.load(id); got.Seq != readings || len(got.Latest) != 2 {
			t.Errorf("loaded %+v", got)
		}
	}
}
