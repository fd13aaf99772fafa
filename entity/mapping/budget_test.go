package mapping

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/heaptest"
)

// A window that could not keep all of its readings has no value rather than a wrong one, and takes no
// more than there is.
func TestAWindowWithoutRoomHasNoValueRatherThanAWrongOne(t *testing.T) {
	for _, fn := range funcs {
		for name, src := range map[string]Source{"last n": {Func: fn, LastN: 7}, "over": {Func: fn, Over: 10 * time.Millisecond}} {
			t.Run(string(fn)+" "+name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(14, 10))
				const most = 14 * slotSize
				room := &budget{most: most}
				var own, others *account
				var w *windowOf
				var all map[memberTime]reading
				var newest int64
				failed, right := 0, 0
				for step := range 1000 {
					switch step % 100 {
					case 0: // others take more or less
						own, others, newest = room.account(), room.account(), 0
						room.used = 0
						others.take(r.IntN(14) * slotSize)
						w, all = newWindowOf(&src, nil, own), map[memberTime]reading{}
					case 50:
						others.take(-others.used)
					case 75:
						w.trim(2 * slotSize)
					}
					rd := reading{"", int64(step + r.IntN(10)), anyValue(r)}
					w.put(0, rd.ts, rd.v)
					all[memberTime{0, rd.ts}] = rd
					newest = max(newest, rd.ts)
					if room.used > most || room.used != own.used+others.used {
						t.Fatalf("step %d: %d of %d bytes are taken", step, room.used, most)
					}
					got, err := w.value()
					if err != nil {
						failed++
						if !w.isShort() || !strings.Contains(err.Error(), "there was no room for the readings in the window") {
							t.Fatal(err)
						}
						continue
					}
					right++
					if want := plainly(fn, inWindow(all, &src, newest)); got != want {
						t.Fatalf("step %d: %v, want %v", step, got, want)
					}
				}
				if failed < 100 || right < 100 || room.dropped == 0 {
					t.Errorf("%d values and %d failures, %d dropped: the test shows nothing", right, failed, room.dropped)
				}
			})
		}
	}
}

// Texts count in windows that give one back, and are not kept by others.
func TestTextsInWindowsAreBounded(t *testing.T) {
	text := func(i int) value.Value { return value.String(strings.Repeat("x", 60_000) + fmt.Sprint(i)) }
	for fn, keeps := range map[Func]bool{First: true, Last: true, Count: false, Sum: false} {
		room := &budget{most: 8 << 20}
		w := newWindowOf(&Source{Func: fn, Over: time.Hour}, nil, room.account())
		for i := range 100 {
			w.put(0, int64(i), text(i))
		}
		_, err := w.value()
		if tooLarge := err != nil && strings.Contains(err.Error(), "more than 1048576 bytes of texts"); tooLarge != keeps || (err != nil) != keeps {
			t.Errorf("%s: %v", fn, err)
		}
		if beyond := room.used > MaxWindowBytes+100*slotSize; beyond || (room.used > 100*slotSize) != keeps {
			t.Errorf("%s takes %d bytes", fn, room.used)
		}
		w.put(0, time.Hour.Milliseconds()+99, text(0)) // now the only one in it
		if _, err := w.value(); err != nil {
			t.Errorf("%s: %v", fn, err)
		}
		if room.used > 60_001+leastSlots*slotSize {
			t.Errorf("%s takes %d bytes for one reading", fn, room.used)
		}
	}
}

// The readings of a source for which there is no room are looked up in the history.
func TestALineWithoutRoomKnowsThatItKnowsLess(t *testing.T) {
	room := &budget{most: 4*pointSize + 1000}
	l := &line{complete: true, room: room.account()}
	for i := range 10 {
		l.put(int64(i), value.Int(int64(i)))
	}
	l.put(5, value.String(strings.Repeat("x", 900)))
	l.put(10, value.String(strings.Repeat("x", 200)))
	for i := range l.points {
		if at := l.points[i].ts; l.at(at) != l.points[i].value || !l.covers(at) {
			t.Errorf("at %d: %v", at, l.at(at))
		}
	}
	if room.used > room.most || l.complete || l.covers(5) || l.size() != room.used || !l.covers(10) {
		t.Errorf("%d bytes, complete %v, %d points from %d", room.used, l.complete, len(l.points), l.points[0].ts)
	}
	l.put(11, value.String(strings.Repeat("x", 5000)))
	if room.used != 0 || l.covers(11) {
		t.Errorf("%d bytes after a reading for which there is no room", room.used)
	}
}

// A late reading from before what a line has let go would leave a gap behind it.
func TestALineWithoutRoomHasNoGaps(t *testing.T) {
	room := &budget{most: 20*pointSize + 2000}
	l := &line{complete: true, room: room.account()}
	for i := range 10 {
		l.put(int64(10*i), value.Int(int64(i)))
	}
	l.put(100, value.String(strings.Repeat("x", room.most-6*pointSize)))
	l.put(100, value.Int(10)) // there is room again
	l.put(5, value.Int(-1))   // late
	if l.covers(5) || l.covers(45) || !l.covers(95) {
		t.Errorf("of 10 readings every 10 it has %d, from %d: at 45 it has %v", len(l.points), l.points[0].ts, l.at(45))
	}
	l.put(95, value.Int(-2))
	if l.at(97) != value.Int(-2) {
		t.Errorf("at 97 it has %v", l.at(97))
	}
}

// What a late reading changes is computed although others have taken all there is: the values would stay
// as they were before it.
func TestALateReadingChangesTheHistoryAlsoWithoutRoom(t *testing.T) {
	const n = 100
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: (n + 20) * slotSize}})
	h.put("small", "insert into f select sum(b.x) over last 10 as y")
	for i := range int64(20) {
		if i != 15 {
			h.write("b", i, sample("x", 1))
		}
	}
	var readings []entity.Reading
	for i := range int64(n) {
		readings = append(readings, entity.Reading{TS: i, Values: []entity.Sample{sample("x", 1)}})
	}
	if err := h.rt.Write(t.Context(), "a", readings, 100_000); err != nil {
		t.Fatal(err)
	}
	h.put("large", "insert into e select sum(a.x) over last 100 as y")
	h.sync(1)
	h.is("e", "y", n-1, n)
	h.is("f", "y", 19, 10)
	h.write("b", 15, sample("x", 100))
	h.sync(2)
	h.is("f", "y", 19, 109)
	for _, p := range h.points("f", "y") {
		if p.TS == 16 && p.Value != value.Int(109) {
			t.Errorf("at 16 it has %v", p.Value)
		}
	}
}

// Not parallel: it measures the heap.
func TestWhatMappingsKeepTakesWhatIsEstimated(t *testing.T) {
	const windows = 20
	for _, fn := range []Func{Avg, Max, First} {
		within := false
		for range 3 { // what earlier tests have left may be freed meanwhile
			room := &budget{most: MaxValueBytes}
			before := heaptest.Live()
			var list []*windowOf
			for n := range windows {
				w := newWindowOf(&Source{Func: fn, LastN: 3000 + 350*n}, nil, room.account())
				for i := range 12_000 {
					w.put(0, int64(i), value.Int(int64(i*7919%1000)))
				}
				list = append(list, w)
			}
			took, estimated := heaptest.Live()-before, room.used
			runtime.KeepAlive(list)
			within = estimated >= took/2 && estimated <= 2*took
			t.Logf("%s: %d bytes in memory, estimated %d, ratio %.2f", fn, took, estimated, float64(estimated)/float64(took))
			if within {
				break
			}
		}
		if !within {
			t.Errorf("%s: the estimate is off by more than a factor of two", fn)
		}
	}
}

// What there is no room for fails, is counted and told, and comes back when there is room again.
func TestWhatThereIsNoRoomForIsToldAndComesBack(t *testing.T) {
	const n = 100
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: n * slotSize * 3 / 2}})
	fill := func(id string, from, to int) {
		var readings []entity.Reading
		for i := from; i < to; i++ {
			readings = append(readings, entity.Reading{TS: int64(i), Values: []entity.Sample{sample("x", 1)}})
		}
		if err := h.rt.Write(t.Context(), id, readings, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	fill("a", 1, n+1)
	fill("b", 1, n+1)
	h.put("first", "insert into e select sum(a.x) over last 100 as y")
	h.put("second", "insert into f select sum(b.x) over last 100 as y")
	h.sync(1)
	h.is("e", "y", n, n)
	failure := func(name string) (state, why string) {
		ex, err := h.Explain(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return ex.Fields[0].State, ex.Fields[0].Failure
	}
	if state, why := failure("second"); state != StateFailing || !strings.Contains(why, "there was no room for the readings in the window of sum") {
		t.Errorf("%s: %s", state, why)
	}
	if got, there := h.latest("f", "y"); there {
		t.Errorf("a window that could not keep all has the value %v", got)
	}
	fill("b", n+1, n+11) // live
	fill("a", n+1, n+11)
	h.sync(1)
	h.is("e", "y", n+10, n)
	stats := h.Stats()
	if _, there := h.latest("f", "y"); there || stats.Dropped == 0 || stats.Kept > n*slotSize*3/2 || stats.Kept < n*slotSize {
		t.Errorf("%+v", stats)
	}
	if err := h.Delete(t.Context(), "first", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	h.is("f", "y", n+10, n)
	if state, _ := failure("second"); state != StateActive {
		t.Errorf("the second is %s once there is room", state)
	}
	if err := h.Delete(t.Context(), "second", ""); err != nil {
		t.Fatal(err)
	}
	if kept := h.Stats().Kept; kept != 0 {
		t.Errorf("%d bytes are kept of nothing", kept)
	}
}

// Members that patterns and relations give to groups count as well.
func TestAGroupWithoutRoomHasNoValue(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: 10 * (joinedSize + useSize)}})
	for i := range 9 {
		h.write(fmt.Sprint("m", i), 1, sample("x", 1))
		h.relate("g", "has", fmt.Sprint("m", i), true)
	}
	h.put("pattern", "insert into e select sum(m.x) as y from like 'm%' as m")
	h.put("related", "insert into f select count(m.x) as y from g -> has as m")
	h.sync(1)
	h.is("e", "y", 1, 9)
	if got, there := h.latest("f", "y"); there {
		t.Errorf("a group that could not keep all members has the value %v", got)
	}
	h.write("mm0", 2, sample("x", 1))
	h.sync(1)
	h.is("e", "y", 2, 10)
	h.write("mm1", 3, sample("x", 1))
	h.write("m0", 3, sample("x", 1))
	h.sync(1)
	h.is("e", "y", 2, 10) // of the time when all were there
	if err := h.Delete(t.Context(), "pattern", ""); err != nil {
		t.Fatal(err)
	}
	h.sync(1)
	h.is("f", "y", 3, 9)
}

// A text for which there is no room leaves the value out that is computed from it, until a shorter one
// comes.
func TestATextWithoutRoomLeavesTheValueOut(t *testing.T) {
	h := build(t, t.TempDir(), houseOptions{mappings: Config{mostValues: 2000}})
	h.put("m", "insert into e select a.x ?? 'none' as y")
	h.write("a", 1, sample("x", "short"))
	h.write("a", 2, sample("x", strings.Repeat("x", 3000)))
	h.sync(1)
	h.is("e", "y", 1, "short")
	h.write("a", 3, sample("x", "again"))
	h.sync(1)
	h.is("e", "y", 3, "again")
	if h.Stats().Dropped == 0 {
		t.Error("nothing was dropped: the test shows nothing")
	}
}
