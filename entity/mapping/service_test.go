package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

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
