package mapping

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// fill writes n readings x=1 to an entity, one a millisecond from 1 on.
func (h *house) fill(id string, n int) {
	h.t.Helper()
	readings := make([]entity.Reading, n)
	for i := range readings {
		readings[i] = entity.Reading{TS: int64(i + 1), Values: []entity.Sample{sample("x", 1)}}
	}
	if err := h.rt.Write(h.t.Context(), id, readings, 100_000); err != nil {
		h.t.Fatal(err)
	}
}

// countingReader counts the entities whose history is read, and calls first when one is read for the first time.
type countingReader struct {
	Reader
	read  map[string]int
	first func(id string)
}

func (r *countingReader) Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	if r.read[id]++; r.read[id] == 1 && r.first != nil {
		r.first(id)
	}
	return r.Reader.Points(ctx, id, key, from, to, limit, descending)
}

// counted puts a countingReader in place.
func (h *house) counted(first func(f *follower, id string)) *countingReader {
	h.t.Helper()
	r := &countingReader{Reader: h.reader, read: make(map[string]int)}
	err := h.do(h.t.Context(), func(_ context.Context, f *follower) error {
		if first != nil {
			r.first = func(id string) { first(f, id) }
		}
		h.reader = r
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// What had room has it after a restart, whatever the names are.
func TestARestartGivesTheRoomToThoseThatHadIt(t *testing.T) {
	const n = 40
	dir, options := t.TempDir(), houseOptions{mappings: Config{mostValues: n * slotSize * 3 / 2}}
	h := build(t, dir, options)
	h.fill("a", n)
	h.put("b", "insert into e select sum(a.x) over last 40 as y")
	h.put("a", "insert into f select sum(a.x) over last 40 as y")
	h.put("c", "insert into g select sum(a.x) over last 40 as y")
	h.sync(1)
	for restart := range 3 {
		h.is("e", "y", int64(n+restart), n)
		for _, id := range []string{"f", "g"} {
			if v, there := h.latest(id, "y"); there {
				t.Fatalf("after %d restarts %s has the value %v", restart, id, v)
			}
		}
		h.close()
		h = build(t, dir, options)
		h.sync(1) // what comes while one is loaded anew is computed from the history
		h.write("a", int64(n+restart+1), sample("x", 1))
		h.sync(1)
	}
}

// A mapping for which there can never be room is not read again and again, and keeps nobody out.
func TestAMappingThatNeverFitsKeepsNoOtherOut(t *testing.T) {
	const n = 40
	dir, options := t.TempDir(), houseOptions{mappings: Config{mostValues: n * slotSize * 3 / 2}}
	h := build(t, dir, options)
	for _, id := range []string{"a", "b", "c"} {
		h.fill(id, 2*n)
	}
	h.put("c", "insert into g select sum(c.x) over last 40 as y")
	h.put("a", "insert into e select sum(a.x) over last 80 as y")
	if kept := h.Stats().Kept; kept != n*slotSize {
		t.Errorf("%d bytes are kept: some of what does not fit", kept)
	}
	h.put("b", "insert into f select sum(b.x) over last 40 as y")
	r := h.counted(nil)
	if err := h.Delete(t.Context(), "c", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	h.is("f", "y", 2*n, n)
	if v, there := h.latest("e", "y"); there {
		t.Errorf("what does not fit has the value %v", v)
	}
	if r.read["a"] != 1 {
		t.Errorf("its history was read %d times", r.read["a"])
	}
	for i := range 3 { // which leave less room than there was
		h.put(fmt.Sprint("d", i), fmt.Sprintf("insert into d%d select c.x as y", i))
	}
	h.sync(1)
	if r.read["a"] != 1 {
		t.Errorf("its history was read %d times, although there was no more room", r.read["a"])
	}
	h.close()
	h = build(t, dir, options)
	h.sync(1)
	h.write("b", 2*n+1, sample("x", 2))
	h.sync(1)
	h.is("f", "y", 2*n+1, n+1)
}

// Mappings that are loaded anew let changes pass after each of them.
func TestMappingsThatAreLoadedAnewHoldUpNoOther(t *testing.T) {
	const n, mappings = 40, 4
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: n * slotSize * mappings}})
	h.fill("large", n*mappings)
	h.put("large", fmt.Sprintf("insert into e select sum(large.x) over last %d as y", n*mappings))
	h.put("live", "insert into f select live.x as y")
	for i := range mappings - 1 {
		h.fill(fmt.Sprint("m", i), n)
		h.put(fmt.Sprint("m", i), fmt.Sprintf("insert into g%d select sum(m%d.x) over last %d as y", i, i, n))
	}
	h.sync(1)
	position, reads := "", 0
	h.counted(func(f *follower, id string) {
		if id[0] != 'm' {
			return
		}
		reads++
		if reads > 1 && f.position == position {
			t.Errorf("load %d began although a change waited", reads)
		}
		position = f.position
		h.write("live", int64(reads), sample("x", reads))
		for len(f.feed.changes) == 0 && t.Context().Err() == nil { // until it waits
			_ = f.s.ctx.Err()
		}
	})
	if err := h.Delete(t.Context(), "large", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(2)
	if reads != mappings-1 {
		t.Fatalf("%d mappings were loaded", reads)
	}
	for i := range mappings - 1 {
		h.is(fmt.Sprint("g", i), "y", n, n)
	}
}

// Which mappings have no room is saved when all that there is room for again are loaded, and not after each: ten
// thousand would write megabytes ten thousand times.
func TestMappingsThatAreLoadedAnewAreSavedOnce(t *testing.T) {
	const n, mappings = 5, 8
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: n * slotSize * mappings, SaveEvery: time.Hour}})
	h.fill("large", n*mappings)
	h.put("large", fmt.Sprintf("insert into e select sum(large.x) over last %d as y", n*mappings))
	for i := range mappings {
		h.fill(fmt.Sprint("m", i), n)
		h.put(fmt.Sprint("m", i), fmt.Sprintf("insert into g%d select sum(m%d.x) over last %d as y", i, i, n))
	}
	h.sync(1)
	reads, times, saved := 0, 0, ""
	h.counted(func(f *follower, id string) {
		if id[0] != 'm' {
			return
		}
		if now := string(f.short.stored); now != saved {
			saved, times = now, times+1
		}
		reads++
	})
	if err := h.Delete(t.Context(), "large", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	for i := range mappings {
		h.is(fmt.Sprint("g", i), "y", n, n)
	}
	if reads != mappings || times != 1 {
		t.Errorf("%d mappings were read, and %d documents were seen meanwhile", reads, times)
	}
}

// The last value of a group is missing only while it is the one for which there is no room.
func TestALongTextInAGroupIsForgottenWithTheNextOne(t *testing.T) {
	group := &roster{}
	a, b := group.add("a"), group.add("b")
	room := &budget{most: 1000}
	c := newLatestOf(&Source{Func: Last}, group, room.account())
	is := func(want any) { // nil for no room
		t.Helper()
		v, err := c.value()
		if want == nil {
			if err == nil || !c.isShort() {
				t.Fatalf("%v, want no value", v)
			}
		} else if err != nil || v != value.String(want.(string)) {
			t.Fatalf("%v, %v, want %v", v, err, want)
		}
	}
	long := value.String(strings.Repeat("x", 2000))
	c.put(a, 1, long)
	is(nil)
	c.put(a, 2, value.String("short"))
	is("short")
	c.put(b, 3, long)
	is(nil)
	c.put(a, 4, value.String("newer"))
	is("newer")
	if !c.isShort() {
		t.Error("nobody would look whether there is room for the other one")
	}
	c.leave(a)
	is(nil)
	c.put(a, 1, value.String("back"))
	c.leave(b)
	is("back")
	if c.isShort() || room.used != len("back") {
		t.Errorf("short: %v, %d bytes are taken", c.isShort(), room.used)
	}
}

// A group without room is counted once, and not with each reading of those who are missing.
func TestReadingsOfMissingMembersAreNotCounted(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: 2 * (joinedSize + useSize)}})
	h.put("m", "insert into e select sum(m.x) as y from like 'm%' as m")
	for i := range 5 {
		h.write(fmt.Sprint("m", i), 1, sample("x", 1))
	}
	h.sync(1)
	before := h.Stats()
	if before.Dropped == 0 || before.Kept != 0 {
		t.Fatalf("a group without room keeps %d bytes and has dropped %d members", before.Kept, before.Dropped)
	}
	for ts := range 10 {
		h.write("m4", int64(ts+2), sample("x", 1))
	}
	h.sync(1)
	if now := h.Stats(); now.Dropped != before.Dropped || now.Failures != before.Failures {
		t.Errorf("ten readings make %d dropped values %d, and %d failures %d", before.Dropped, now.Dropped, before.Failures, now.Failures)
	}
}
