package mapping

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

// house is a runtime with mappings on a real store in a directory of its own.
type house struct {
	*Service
	t     testing.TB
	dir   string
	sys   *actor.System
	rt    *entity.Runtime
	store *mortalStore
	ended bool
	sent  sync.WaitGroup // what send has sent and is not settled
}

// mortalStore is a store that can die: from then on nothing becomes durable.
type mortalStore struct {
	entity.Store
	dead   atomic.Bool
	stuck  atomic.Bool // only readings do not become durable
	mute   atomic.Bool // only documents do not
	full   atomic.Bool // there is no room for documents
	failed chan struct{}

	loads atomic.Int64 // how many loads of an entity fail from now on
	clock atomic.Int64 // what the documents of the service have as their version, 0 for what the store says
}

func (s *mortalStore) Load(ctx context.Context, id string) (entity.Stored, error) {
	if s.loads.Add(-1) >= 0 {
		return entity.Stored{}, errDead
	}
	return s.Store.Load(ctx, id)
}

var errDead = errors.New("the disk is gone")

func (s *mortalStore) Commit(ctx context.Context, b *entity.Batch) error {
	if s.dead.Load() || s.stuck.Load() {
		select {
		case s.failed <- struct{}{}:
		default:
		}
		return errDead
	}
	return s.Store.Commit(ctx, b)
}

func (s *mortalStore) PutDoc(ctx context.Context, doc entity.Doc, condition string) (entity.Doc, error) {
	if s.dead.Load() || s.mute.Load() {
		return entity.Doc{}, errDead
	}
	if s.full.Load() {
		return entity.Doc{}, entity.ErrFull
	}
	doc, err := s.Store.PutDoc(ctx, doc, condition)
	if clock := s.clock.Load(); clock != 0 && doc.Kind == stateKind {
		doc.Version = clock
	}
	return doc, err
}

type houseOptions struct {
	runtime  entity.Config
	mappings Config
	store    sqlite.Options
	clock    int64 // see mortalStore
	full     bool  // see mortalStore
}

// build opens a house in dir, which is closed at the end of the test.
func build(t testing.TB, dir string, o houseOptions) *house {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, o.store)
	for until := time.Now().Add(patience); errors.Is(err, sqlite.ErrInUse) && time.Now().Before(until); {
		// A crash beside a slow disk leaves while the last commit is under way.
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		disk, err = sqlite.Open(t.Context(), dir, o.store)
	}
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	h := &house{t: t, dir: dir, store: &mortalStore{Store: disk, failed: make(chan struct{}, 1)}, sys: actor.NewSystem("test", actor.WithLogger(quiet))}
	h.store.clock.Store(o.clock)
	h.store.full.Store(o.full)
	if h.rt, err = entity.Open(t.Context(), h.sys, h.store, o.runtime); err != nil {
		t.Fatal(err)
	}
	if o.mappings.Logger == nil {
		o.mappings.Logger = quiet
	}
	if h.Service, err = Open(t.Context(), h.rt, o.mappings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close() })
	return h
}

// close ends the house in good order.
func (h *house) close() {
	h.t.Helper()
	if h.ended {
		return
	}
	h.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Service.Close(ctx); err != nil {
		h.t.Errorf("close the mappings: %v", err)
	}
	if err := h.rt.Close(ctx); err != nil && !h.store.dead.Load() {
		h.t.Errorf("close the runtime: %v", err)
	}
	if _, err := h.sys.Shutdown(ctx); err != nil {
		h.t.Errorf("shut down: %v", err)
	}
}

// crash ends the house as a loss of power would: what is not committed is gone.
func (h *house) crash() {
	h.t.Helper()
	h.store.stuck.Store(true) // what is computed is on its way, and the place is saved
	<-h.store.failed
	short, done := context.WithTimeout(h.t.Context(), time.Second)
	defer done()
	err := h.do(short, func(ctx context.Context, f *follower) error { return f.save(ctx) })
	if err != nil && short.Err() == nil { // otherwise it waits for the disk itself
		h.t.Error(err)
	}
	h.store.dead.Store(true)
	h.ended = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.Service.cancel()
	if err := h.rt.Close(ctx); err == nil {
		h.t.Error("the crash has lost nothing")
	}
	h.Service.wg.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := h.sys.Shutdown(ctx); err != nil {
		h.t.Errorf("shut down: %v", err)
	}
}

func (h *house) put(name, statement string) Installed {
	h.t.Helper()
	in, err := h.Put(h.t.Context(), name, mustParse(h.t, statement), "")
	if err != nil {
		h.t.Fatalf("put %q: %v", name, err)
	}
	return in
}

func (h *house) write(id string, ts int64, values ...entity.Sample) {
	h.t.Helper()
	if err := h.rt.Write(h.t.Context(), id, []entity.Reading{{TS: ts, Values: values}}, 50); err != nil {
		h.t.Fatalf("write to %q: %v", id, err)
	}
}

// send ingests a reading without waiting for it.
func (h *house) send(id string, ts int64, values ...entity.Sample) {
	h.t.Helper()
	h.sent.Add(1)
	err := h.rt.Ingest(h.t.Context(), id, []entity.Reading{{TS: ts, Values: values}}, 10, func(error) { h.sent.Done() })
	if err != nil {
		h.t.Fatal(err)
	}
}

// sync waits until n steps of mappings have come to rest.
func (h *house) sync(steps int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	h.sent.Wait()
	for range steps {
		if err := h.Sync(ctx); err != nil {
			h.t.Fatalf("sync: %v", err)
		}
	}
}

func (h *house) latest(id, key string) (entity.Latest, bool) {
	h.t.Helper()
	e, err := h.rt.Entity(h.t.Context(), id)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		h.t.Fatal(err)
	}
	for _, l := range e.Latest {
		if l.Key == key {
			return l, true
		}
	}
	return entity.Latest{}, false
}

func (h *house) is(id, key string, ts int64, v any) entity.Latest {
	h.t.Helper()
	got, ok := h.latest(id, key)
	if want := sample(key, v).Value; !ok || got.Value != want || got.TS != ts {
		h.t.Errorf("%s.%s = %v (%v) at %d, want %v (%v) at %d", id, key, got.Value, got.Value.Kind(), got.TS, want, want.Kind(), ts)
	}
	return got
}

// points is the history of a key.
func (h *house) points(id, key string) []entity.Point {
	h.t.Helper()
	points, err := h.reader.Points(h.t.Context(), id, key, 0, end, 1_000_000, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return points
}

func (h *house) relate(from, typ, to string, put bool) {
	h.t.Helper()
	edges := []entity.Relation{{From: from, Type: typ, To: to}}
	edits := entity.Edits{Relate: edges}
	if !put {
		edits = entity.Edits{Unrelate: edges}
	}
	if _, err := h.rt.Edit(h.t.Context(), from, edits); err != nil {
		h.t.Fatalf("relate %s to %s: %v", from, to, err)
	}
}

func TestAMappingIsKeptAndVersioned(t *testing.T) {
	dir := t.TempDir()
	h := build(t, dir, houseOptions{})
	h.write("a", 10, sample("x", 1))
	first := h.put("m", "insert into e select a.x + 1 as y")
	h.sync(1)
	if l := h.is("e", "y", 10, 2); !strings.HasPrefix(l.Origin.Source, fmt.Sprintf("mapping:m@%d", first.Version)) {
		t.Errorf("the value is from %+v", l.Origin)
	}
	if _, err := h.Put(t.Context(), "m", first.Statement, "other"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("put with another ETag: %v", err)
	}
	second, err := h.Put(t.Context(), "m", mustParse(t, "insert into e select a.x * 10 as y"), first.ETag)
	if err != nil || second.Version <= first.Version {
		t.Fatalf("replaced: version %d after %d, %v", second.Version, first.Version, err)
	}
	h.sync(1)
	h.is("e", "y", 10, 10)
	h.write("a", 20, sample("x", 2))
	h.sync(1)
	l := h.is("e", "y", 20, 20)
	if want := fmt.Sprintf("mapping:m@%d", second.Version); l.Origin.Source != want || l.Origin.Seq == 0 {
		t.Errorf("the value is from %+v, want %s and the number of the change", l.Origin, want)
	}
	h.close()

	h = build(t, dir, houseOptions{})
	list, err := h.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "m" || list[0].Version != second.Version || list[0].Problem != "" {
		t.Fatalf("after a restart there is %+v, %v", list, err)
	}
	if got := list[0].Statement.String(); got != "insert into e select a.x * 10 as y" {
		t.Errorf("it says %s", got)
	}
	h.write("a", 30, sample("x", 3))
	h.sync(1)
	h.is("e", "y", 30, 30)
	if err := h.Delete(t.Context(), "m", "other"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("delete with another ETag: %v", err)
	}
	if err := h.Delete(t.Context(), "m", second.ETag); err != nil {
		t.Error(err)
	}
	if err := h.Delete(t.Context(), "m", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
	if _, err := h.Get(t.Context(), "m"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got what is deleted: %v", err)
	}
	h.write("a", 40, sample("x", 4))
	h.sync(1)
	h.is("e", "y", 30, 30)
}

func TestWhatCannotBeInForceIsRefusedAndNotKept(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	h.put("a", "insert into ea select eb.x as x")
	for name, c := range map[string]struct {
		statement string
		want      error
	}{
		"b":   {"insert into eb select ea.x as x", ErrCycle},
		"c":   {"insert into ea select ec.x as x", ErrTaken},
		"d d": {"insert into ed select ea.x as x", entity.ErrInvalid},
	} {
		if err := h.Check(t.Context(), name, mustParse(t, c.statement)); !errors.Is(err, c.want) {
			t.Errorf("check %q: %v, want %v", name, err, c.want)
		}
		if _, err := h.Put(t.Context(), name, mustParse(t, c.statement), ""); !errors.Is(err, c.want) {
			t.Errorf("put %q: %v, want %v", name, err, c.want)
		}
	}
	if err := h.Check(t.Context(), "b", mustParse(t, "insert into eb select ec.x as x")); err != nil {
		t.Errorf("check of one that could be put: %v", err)
	}
	if list, err := h.List(t.Context()); len(list) != 1 || err != nil {
		t.Errorf("there are %v, %v", list, err)
	}
}

func TestMetersFloorsAndBuilding(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	const floors, meters = 5, 20
	for f := range floors {
		for m := range meters {
			h.write(fmt.Sprintf("meter-%d-%d", f, m), 1, sample("power", 0))
			h.relate(fmt.Sprintf("floor-%d", f), "contains", fmt.Sprintf("meter-%d-%d", f, m), true)
		}
		h.put(fmt.Sprintf("floor-%d", f), fmt.Sprintf(`insert into "floor-%d" select sum(m.power) as power, max(m.power) as top from "floor-%d" -> contains as m`, f, f))
	}
	h.put("building", `insert into building select sum(f.power) as power, max(f.top) as top from like 'floor-_' as f`)
	total := 0
	r := rand.New(rand.NewPCG(1, 1))
	state := map[string]int{}
	for i := range 1000 {
		id, power := fmt.Sprintf("meter-%d-%d", r.IntN(floors), r.IntN(meters)), r.IntN(1000)
		total += power - state[id]
		state[id] = power
		h.send(id, int64(i+2), sample("power", power))
	}
	top := 0
	for _, power := range state {
		top = max(top, power)
	}
	h.sync(3)
	h.is("building", "power", 1001, total)
	h.is("building", "top", 1001, top)
	if st := h.Stats(); st.Outputs > 2100 || st.Outputs == 0 || st.Failures != 0 || st.Mappings != floors+1 {
		t.Errorf("%+v", st)
	}
}

func TestRelationsAreFollowedLive(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	h.write("m1", 1, sample("x", 1))
	h.write("m2", 2, sample("x", 20))
	h.put("m", "insert into hub select coalesce(sum(m.x), 0) as x from hub -> has as m")
	h.relate("hub", "has", "m1", true)
	h.sync(1)
	h.is("hub", "x", 1, 1)
	h.relate("hub", "has", "m2", true)
	h.sync(1)
	h.is("hub", "x", 2, 21)
	h.relate("hub", "has", "m1", false)
	h.sync(1)
	h.is("hub", "x", 2, 20)
	if err := h.rt.Delete(t.Context(), "m2", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	h.is("hub", "x", 2, 0)
}

func TestAttributesAreFollowedLive(t *testing.T) {
	dir := t.TempDir()
	h := build(t, dir, houseOptions{})
	set := func(id, patch string) {
		t.Helper()
		if _, err := h.rt.Edit(t.Context(), id, entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(patch)}}}); err != nil {
			t.Fatal(err)
		}
	}
	set("floor", `{"size":{"area":10}}`)
	h.put("m", "insert into floor select sum(m.power) / floor@attributes.size.area as density, m1.power * m1@attributes.factor as scaled from like 'm_' as m")
	h.write("m1", 5, sample("power", 30))
	h.sync(1)
	h.is("floor", "density", 5, 3.0)
	set("m1", `{"factor":2}`)
	set("floor", `{"size":{"area":20}}`)
	h.sync(1)
	h.is("floor", "density", 5, 1.5)
	h.is("floor", "scaled", 5, 60)
	set("floor", `{"size":null}`)
	h.close()
	h = build(t, dir, houseOptions{})
	h.write("m1", 6, sample("power", 7))
	h.sync(1)
	h.is("floor", "density", 5, 1.5)
	h.is("floor", "scaled", 6, 14)
}

func TestExplainTellsWhereAValueComesFrom(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	h.put("sum", "insert into e select sum(m.x) / count(m.x) as mean, r.t + 1 as t, 1 / z.x as inverse from like 'm%' as m, room as r")
	h.put("next", "insert into f select e.mean * 2 as mean")
	h.write("m1", 1, sample("x", 1))
	h.write("m2", 2, sample("x", 2))
	h.write("z", 3, sample("x", 0))
	h.sync(2)
	ex, err := h.Explain(t.Context(), "sum")
	if err != nil || len(ex.Fields) != 3 {
		t.Fatalf("%+v, %v", ex, err)
	}
	mean, waiting, failing := ex.Fields[0], ex.Fields[1], ex.Fields[2]
	if mean.State != StateActive || mean.Value != value.Float(1.5) || mean.TS != 2 || len(mean.Sources) != 2 ||
		mean.Sources[0].Members != 2 || mean.Sources[0].Some[1] != "m2" || mean.Sources[0].Value != value.Int(3) {
		t.Errorf("mean: %+v", mean)
	}
	if waiting.State != StateWaiting || waiting.Sources[0].Source != "r.t" || waiting.Sources[0].TS != 0 {
		t.Errorf("t: %+v", waiting)
	}
	if failing.State != StateFailing || failing.Failure != "division by zero" || failing.FailureTS != 3 {
		t.Errorf("inverse: %+v", failing)
	}
	if ex, err = h.Explain(t.Context(), "next"); err != nil || ex.Fields[0].Sources[0].Mappings[0] != "sum" || ex.Fields[0].Rank <= mean.Rank {
		t.Errorf("next: %+v, %v", ex, err)
	}
	if _, err := h.Explain(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("explained what is not there: %v", err)
	}
	if st := h.Stats(); st.Failures != 1 || len(st.Failing) != 1 || st.Failing[0].Mapping != "sum" {
		t.Errorf("%+v", st)
	}
}

func TestAMappingGetsAPastByRecompute(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	var readings []entity.Reading
	for i := range 9000 {
		readings = append(readings, entity.Reading{TS: int64(i + 1), Values: []entity.Sample{sample("x", i)}})
	}
	if err := h.rt.Write(t.Context(), "a", readings, 100_000); err != nil {
		t.Fatal(err)
	}
	h.put("m", "insert into e select a.x * 2 as y, max(a.x) over last 3 - min(a.x) over last 3 as spread")
	h.sync(1)
	if got := len(h.points("e", "y")); got != 1 {
		t.Errorf("at first there are %d values, want the one of now", got)
	}
	n, err := h.Recompute(t.Context(), "m", 0, end)
	if err != nil || n != 2*9000-2 {
		t.Errorf("recomputed %d values, %v", n, err)
	}
	h.sync(1)
	y, spread := h.points("e", "y"), h.points("e", "spread")
	if len(y) != 9000 || len(spread) != 9000 {
		t.Fatalf("%d and %d values", len(y), len(spread))
	}
	for i := range y {
		if y[i].Value != value.Int(int64(2*i)) || spread[i].Value != value.Int(int64(min(i, 2))) {
			t.Fatalf("at %d: %v and %v", y[i].TS, y[i].Value, spread[i].Value)
		}
	}
	if n, err := h.Recompute(t.Context(), "m", 0, end); n != 0 || err != nil {
		t.Errorf("the second time %d values differ, %v", n, err)
	}
	if n, err := h.Recompute(t.Context(), "none", 0, end); !errors.Is(err, ErrNotFound) {
		t.Errorf("recomputed %d of what is not there: %v", n, err)
	}
}

func TestAReaderThatFellBehindMissesNothing(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{runtime: entity.Config{StreamBuffer: 8}})
	h.put("m", "insert into e select a.x * 2 as y")
	release := make(chan struct{})
	held := make(chan error, 1)
	go func() {
		held <- h.do(context.Background(), func(context.Context, *follower) error { // the engine does not come to the changes
			<-release
			return nil
		})
	}()
	const n = 2 * feedBuffer
	for i := range n {
		h.send("a", int64(i+1), sample("x", i))
	}
	h.sent.Wait()
	close(release)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	y := h.points("e", "y")
	if len(y) != n {
		t.Fatalf("%d values, want %d", len(y), n)
	}
	for i := range y {
		if y[i].Value != value.Int(int64(2*i)) {
			t.Fatalf("at %d there is %v", y[i].TS, y[i].Value)
		}
	}
	if h.Stats().Lagged == 0 {
		t.Error("it never fell behind: the test shows nothing")
	}
}

func TestStoredPatternsOfOlderVersionsAreRead(t *testing.T) {
	dir := t.TempDir()
	h := build(t, dir, houseOptions{})
	body, err := json.Marshal(map[string]string{"statement": "insert into f select sum(m.x) as y from like 'a_*-?' as m"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.rt.PutDoc(t.Context(), docKind, "old", body, ""); err != nil {
		t.Fatal(err)
	}
	h.close()
	h = build(t, dir, houseOptions{})
	in, err := h.Get(t.Context(), "old")
	if err != nil || in.Problem != "" || in.Statement.String() != `insert into f select sum(m.x) as y from like "a\\_%-_" as m` {
		t.Fatalf("read as %v with the problem %q, %v", in.Statement, in.Problem, err)
	}
	h.write("a_1-b", 1, sample("x", 1))
	h.write("ab1-b", 2, sample("x", 10))
	h.sync(2)
	h.is("f", "y", 1, 1)
}

func TestChangesThatAreGoneAreRecomputed(t *testing.T) {
	dir := t.TempDir()
	small := sqlite.Options{ChangeLogBytes: 64 << 10}
	h := build(t, dir, houseOptions{store: small})
	h.put("m", "insert into e select a.x * 2 as y")
	h.put("n", "insert into f select sum(m.x) as y from like 'a%' as m")
	h.write("a", 1, sample("x", 1))
	h.sync(2)
	h.Service.cancel() // the mappings stop and the runtime goes on
	h.Service.wg.Wait()
	for i := range 200 {
		readings := make([]entity.Reading, 50)
		for j := range readings {
			readings[j] = entity.Reading{TS: int64(2 + 50*i + j), Values: []entity.Sample{sample("x", 50*i+j)}}
		}
		if err := h.rt.Write(t.Context(), "a", readings, 5000); err != nil {
			t.Fatal(err)
		}
	}
	h.close()
	h = build(t, dir, houseOptions{store: small})
	if h.Stats().Missed != 1 {
		t.Fatalf("it missed nothing: the test shows nothing: %+v", h.Stats())
	}
	for { // the history is computed between other work
		h.sync(1)
		var left int
		if err := h.do(t.Context(), func(ctx context.Context, f *follower) error {
			left = len(f.backlog.rests)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
	}
	h.sync(1)
	if got := len(h.points("e", "y")); got != 10_001 {
		t.Errorf("%d values, want 10 001", got)
	}
	h.is("e", "y", 10_001, 2*9999)
	h.is("f", "y", 10_001, 9999)
	h.close()
	if h = build(t, dir, houseOptions{store: small}); h.Stats().Missed != 0 {
		t.Error("it is recomputed at each start")
	}
}

func TestATargetThatRefusesIsCountedAndToldOnceAndTheOthersGoOn(t *testing.T) {
	var log bytes.Buffer
	h := build(t, t.TempDir(), houseOptions{mappings: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	keys := make([]entity.Sample, 0, 1000)
	for i := range entity.MaxEntityKeys {
		keys = append(keys, sample(fmt.Sprint("k", i), i))
		if len(keys) == 1000 || i == entity.MaxEntityKeys-1 {
			h.write("full", 1, keys...)
			keys = make([]entity.Sample, 0, 1000)
		}
	}
	h.put("m", "insert into full select a.x as onetoomany")
	h.put("n", "insert into e select a.x as y")
	h.write("a", 5, sample("x", 1))
	h.sync(1)
	h.is("e", "y", 5, 1)
	ex, err := h.Explain(t.Context(), "m")
	if err != nil || ex.Refusals != 1 || !strings.Contains(ex.Refusal, "too many keys") {
		t.Errorf("%+v, %v", ex, err)
	}
	h.write("a", 6, sample("x", 1))
	h.sync(1)
	if st := h.Stats(); st.Refused != 2 || st.Restarts != 0 {
		t.Errorf("%+v", st)
	}
	h.close()
	if n := strings.Count(log.String(), "does not take"); n != 1 || !strings.Contains(log.String(), "mapping=m") {
		t.Errorf("it is told %d times:\n%s", n, &log)
	}
}

func TestAMappingThatCannotBeReadIsListedWithItsProblem(t *testing.T) {
	dir := t.TempDir()
	h := build(t, dir, houseOptions{})
	h.put("m", "insert into e select a.x as y")
	for name, body := range map[string]string{"bad": `{"statement":"insert into"}`, "worse": `{`, "taken": `{"statement":"insert into e select b.x as y"}`} {
		if _, err := h.rt.PutDoc(t.Context(), docKind, name, []byte(body), ""); err != nil {
			t.Fatal(err)
		}
	}
	h.close()
	h = build(t, dir, houseOptions{})
	list, err := h.List(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, in := range list {
		if (in.Problem == "") != (in.Name == "m") {
			t.Errorf("%s: problem %q", in.Name, in.Problem)
		}
	}
	h.write("a", 1, sample("x", 1))
	h.sync(1)
	h.is("e", "y", 1, 1)
	if _, err := h.Explain(t.Context(), "worse"); err != nil {
		t.Errorf("explain: %v", err)
	}
	h.put("bad", "insert into g select a.x as y") // mended
	h.sync(1)
	h.is("g", "y", 1, 1)
}

func TestCallsEndWithTheirContextAndWithTheService(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	h.close()
	if _, err := h.List(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := h.Sync(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
}

func TestAServiceThatTheRuntimeFailsBeginsAnew(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{mappings: Config{SaveEvery: time.Millisecond, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond}})
	h.put("m", "insert into e select a.x * 2 as y")
	h.put("n", "insert into f select sum(m.x) as y from like 'a%' as m")
	h.store.mute.Store(true) // the place cannot be saved
	n := 0
	for began := time.Now(); h.Stats().Restarts < 3; n++ {
		h.write("a", int64(n+1), sample("x", n))
		if time.Since(began) > patience {
			t.Fatal("it never begins anew")
		}
	}
	h.store.mute.Store(false)
	h.write("a", int64(n+1), sample("x", n))
	h.sync(1)
	h.is("f", "y", int64(n+1), n)
	y := h.points("e", "y")
	if len(y) != n+1 {
		t.Fatalf("%d values, want %d", len(y), n+1)
	}
	for i := range y {
		if y[i].Value != value.Int(int64(2*i)) {
			t.Fatalf("at %d there is %v", y[i].TS, y[i].Value)
		}
	}
}

// humidityRatio is the mapping of testdata/occupancy/README.md: the ASHRAE saturation
// pressure over water, and 101 325 Pa.
const humidityRatio = `insert into room select
	0.62198 * (room.Humidity / 100 * exp(-5.8002206e3 / (room.Temperature + 273.15) + 1.3914993
		- 4.8640239e-2 * (room.Temperature + 273.15) + 4.1764768e-5 * (room.Temperature + 273.15) ** 2
		- 1.4452093e-8 * (room.Temperature + 273.15) ** 3 + 6.5459673 * log(room.Temperature + 273.15)))
	/ (101325 - room.Humidity / 100 * exp(-5.8002206e3 / (room.Temperature + 273.15) + 1.3914993
		- 4.8640239e-2 * (room.Temperature + 273.15) + 4.1764768e-5 * (room.Temperature + 273.15) ** 2
		- 1.4452093e-8 * (room.Temperature + 273.15) ** 3 + 6.5459673 * log(room.Temperature + 273.15))) as ratio`

// dataRow is a line of the data file.
type dataRow struct {
	ts                                    int64
	temperature, humidity, light, co2, hr float64
}

// readData returns the rows of the recording, whose README names its source.
func readData(t testing.TB) (rows []dataRow) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "occupancy", "occupancy-training.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records[1:] {
		when, err := time.Parse(time.DateTime, rec[0])
		if err != nil {
			t.Fatal(err)
		}
		var v [5]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(rec[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		rows = append(rows, dataRow{when.UnixMilli(), v[0], v[1], v[2], v[3], v[4]})
	}
	return rows
}

// worstRatio compares what the mapping has computed with the column.
func worstRatio(t *testing.T, h *house, id string, rows []dataRow) float64 {
	t.Helper()
	got := map[int64]float64{}
	for _, p := range h.points(id, "ratio") {
		got[p.TS] = p.Value.Float()
	}
	if len(got) != len(rows) {
		t.Fatalf("%d values for %d rows", len(got), len(rows))
	}
	worst := 0.0
	for _, row := range rows {
		worst = max(worst, math.Abs(got[row.ts]-row.hr)/row.hr)
	}
	return worst
}

// The long form is all of the data.
func TestTheHumidityRatioOfTheDataIsComputed(t *testing.T) {
	rows := readData(t)
	rows = rows[:soaktest.Rounds(t, 2000, len(rows))]
	h := build(t, t.TempDir(), houseOptions{})
	h.put("ratio", humidityRatio)
	// The same of five sensors, whose readings come shuffled.
	apart := strings.NewReplacer("into room", "into apart", "room.Humidity", `"sensor-h".value`, "room.Temperature", `"sensor-t".value`).Replace(humidityRatio)
	h.put("apart", apart)
	type one struct {
		id string
		ts int64
		v  float64
	}
	var shuffled []one
	for _, row := range rows {
		h.send("room", row.ts, sample("Temperature", row.temperature), sample("Humidity", row.humidity))
		shuffled = append(shuffled, one{"sensor-t", row.ts, row.temperature}, one{"sensor-h", row.ts, row.humidity})
	}
	r := rand.New(rand.NewPCG(8, 143))
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, o := range shuffled {
		h.send(o.id, o.ts, sample("value", o.v))
	}
	h.sync(1)
	// testdata/occupancy/README.md: the formula reproduces the column to a relative 2e-5.
	for _, id := range []string{"room", "apart"} {
		if worst := worstRatio(t, h, id, rows); worst > 2e-5 {
			t.Errorf("%s: the mapping must be off by at most a relative 2e-5, not %.2g", id, worst)
		} else {
			t.Logf("%s: %d values, off by a relative %.2g at most", id, len(rows), worst)
		}
	}
	if st := h.Stats(); st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}

// On a full disk mappings can be looked at, and run once there is room.
func TestMappingsOpenOnAFullDisk(t *testing.T) {
	dir, options := t.TempDir(), houseOptions{mappings: Config{RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}}
	h := build(t, dir, options)
	h.write("a", 10, sample("x", 1))
	h.put("m", "insert into e select a.x + 1 as y")
	h.sync(1)
	if err := h.Service.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.write("a", 15, sample("x", 2)) // of which something is to be written at the start
	h.close()
	options.full = true
	h = build(t, dir, options)
	if list, err := h.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d mappings, %v", len(list), err)
	}
	if _, err := h.Explain(t.Context(), "m"); err != nil {
		t.Error(err)
	}
	if _, err := h.Put(t.Context(), "other", mustParse(t, "insert into o select a.x as y"), ""); !errors.Is(err, entity.ErrFull) {
		t.Errorf("put on a full disk: %v, want ErrFull", err)
	}
	h.store.full.Store(false)
	h.write("a", 20, sample("x", 5))
	until(t, "the value after the disk has room", func() bool { l, ok := h.latest("e", "y"); return ok && l.TS == 20 })
	h.is("e", "y", 20, 6)
}

func TestPuttingTheSameStatementAgainChangesNothing(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{})
	h.write("a", 1, sample("x", 1))
	first := h.put("m", "insert into e select a.x + 1 as y")
	if again := h.put("m", "insert  into e select a.x + 1 as y"); again.Version != first.Version || again.ETag != first.ETag {
		t.Errorf("version %d after %d", again.Version, first.Version)
	}
	if _, err := h.Put(t.Context(), "m", first.Statement, "other"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("with another ETag: %v", err)
	}
	if other := h.put("m", "insert into e select a.x + 2 as y"); other.Version <= first.Version {
		t.Errorf("another statement has the version %d after %d", other.Version, first.Version)
	}
	h.sync(1)
	h.is("e", "y", 1, 3)
}

func TestWhoWaitsForAllThatIsCommittedWaitsBesideCommands(t *testing.T) {
	t.Parallel()
	h := build(t, t.TempDir(), houseOptions{})
	if _, err := h.rt.Edit(t.Context(), "pump", entity.Edits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.rt.Command(t.Context(), "pump", entity.NewCommand{Name: "open"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := h.Sync(ctx); err != nil {
		t.Error(err)
	}
}
