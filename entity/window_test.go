package entity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// windowUser acquires for several sources at once, and notes in which order they are let in.
type windowUser struct {
	t   *testing.T
	w   *window
	mu  sync.Mutex
	got []string    // who was let in, guarded by mu
	in  []*delivery // what they have, guarded by mu
	wg  sync.WaitGroup
}

// want has a source ask for bytes, and returns when it has them or waits.
func (u *windowUser) want(by string, bytes int64) {
	u.t.Helper()
	u.ask(u.t.Context(), by, bytes, false)
}

func (u *windowUser) ask(ctx context.Context, by string, bytes int64, patient bool) {
	u.wg.Go(func() {
		s, err := u.w.acquire(ctx, sourceOf(by, "room-1"), bytes, patient)
		u.mu.Lock()
		defer u.mu.Unlock()
		if err != nil {
			by = fmt.Sprintf("%s: %v", by, err)
		} else {
			u.in = append(u.in, &delivery{source: s, cost: bytes})
		}
		u.got = append(u.got, by)
	})
	synctest.Wait()
}

// order returns who was let in since the last call.
func (u *windowUser) order() (got []string) {
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	got, u.got = u.got, nil
	return got
}

// commit gives back the oldest, as a commit of these would.
func (u *windowUser) commit(n int) {
	u.mu.Lock()
	done := slices.Clone(u.in[:n])
	u.in = u.in[n:]
	u.mu.Unlock()
	u.w.releaseAll(done)
}

// drain gives back all, one by one, and checks that nothing is left.
func (u *windowUser) drain() {
	u.t.Helper()
	for synctest.Wait(); len(u.in) > 0; synctest.Wait() {
		u.commit(1)
	}
	u.wg.Wait()
	if w := u.w; w.used != 0 || len(w.sources) != 0 || w.turns.Len() != 0 || w.waiting != 0 || w.wanted != 0 {
		u.t.Errorf("an empty window has %d bytes in use, %d sources, %d turns, %d that wait for %d bytes", w.used, len(w.sources), w.turns.Len(), w.waiting, w.wanted)
	}
}

func (u *windowUser) expect(want ...string) {
	u.t.Helper()
	if got := u.order(); !slices.Equal(got, want) {
		u.t.Errorf("let in: %v, want %v", got, want)
	}
}

// expectTogether is expect for those who go on at the same moment, in any order.
func (u *windowUser) expectTogether(want ...string) {
	u.t.Helper()
	got := u.order()
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		u.t.Errorf("let in: %v, want %v", got, want)
	}
}

func TestASourceHasNoMoreThanItsShareInTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &windowUser{t: t, w: &window{size: 1000, share: 100}}
		for range 5 {
			u.want("flood", 40)
		}
		u.expect("flood", "flood")
		u.want("other", 40) // room for all, and three that wait
		u.expect("other")
		u.want("flood", 10) // there would be room in the share, but not before its turn
		u.expect()
		u.commit(1)
		u.expect("flood")
		u.drain()
	})
}

func TestThoseWhoWaitForTheWindowAreLetInInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &windowUser{t: t, w: &window{size: 300, share: 100}}
		for range 4 {
			for _, by := range []string{"a", "b", "c"} {
				u.want(by, 50)
			}
		}
		u.expect("a", "b", "c", "a", "b", "c")
		u.want("other", 50) // behind six that wait
		u.expect()
		u.commit(1)
		u.expect("other")
		for _, by := range []string{"a", "b", "c", "a", "b", "c"} {
			u.commit(1)
			u.expect(by)
		}
		u.drain()
	})
}

func TestWithoutANameEachEntityHasAShare(t *testing.T) {
	if a, b := sourceOf("", "room-1"), sourceOf("", "room-2"); a == b {
		t.Error("two entities are one source")
	}
	if a, b := sourceOf("gateway", "room-1"), sourceOf("gateway", "room-2"); a != b {
		t.Error("what one principal sends to two entities are two sources")
	}
}

func TestTheRuntimeItselfHasTheWholeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &window{size: 1000, share: 10}
		var list []*delivery
		for range 10 {
			s, err := w.acquire(t.Context(), sourceKey{}, 100, true)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, &delivery{source: s, cost: 100})
		}
		w.releaseAll(list)
		if w.used != 0 {
			t.Errorf("%d bytes are in use", w.used)
		}
	})
}

// TestWhoGivesUpWaitingLetsInOthers covers all ways out of the lines: a context that ends,
// a store that is full, the end.
func TestWhoGivesUpWaitingLetsInOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &windowUser{t: t, w: &window{size: 100, share: 100}}
		u.want("a", 60)
		u.expect("a")
		ctx, cancel := context.WithCancelCause(t.Context())
		u.ask(ctx, "large", 80, true)
		u.want("small", 40) // would fit, and is not to overtake for ever
		u.expect()
		cancel(errors.New("no time"))
		u.expectTogether("large: wait for room in the window of 100 bytes: no time", "small")
		u.ask(t.Context(), "impatient", 80, false)
		u.ask(t.Context(), "patient", 80, true)
		u.w.setFull(true)
		u.expect("impatient: " + ErrFull.Error())
		u.commit(2)
		u.expect("patient")
		u.w.setFull(false)
		u.want("b", 80)
		u.want("a", 80)
		u.want("a", 80)
		idle := u.w.close()
		got := u.order()
		slices.Sort(got)
		if want := []string{"a: " + ErrClosed.Error(), "a: " + ErrClosed.Error(), "b: " + ErrClosed.Error()}; !slices.Equal(got, want) {
			t.Errorf("at the end: %v, want %v", got, want)
		}
		u.drain()
		<-idle
	})
}

// TestNobodyWaitsWithMoreThanItLeavesForOthers has one source come with all it can at once: what
// waits is in memory.
func TestNobodyWaitsWithMoreThanItLeavesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &windowUser{t: t, w: &window{size: 100, share: 100}}
		for range 6 {
			u.want("flood", 100)
		}
		got := u.order()
		if len(got) != 2 || got[0] != "flood" || !strings.HasPrefix(got[1], "flood: "+ErrBusy.Error()) {
			t.Errorf("of six one must be let in, and four wait: %q", got)
		}
		u.want("other", 100)
		u.expect()
		u.ask(t.Context(), "flood", 100, true) // who computes from others waits
		u.expect()
		for _, by := range []string{"other", "flood", "flood"} {
			u.commit(1)
			u.expect(by)
		}
		u.want("flood", 100) // there is room to wait again
		u.expect()
		u.drain()
	})
}

// TestWhatTurnsOutToBeLargerCountsForItsSource also has a source use more than its share.
func TestWhatTurnsOutToBeLargerCountsForItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &windowUser{t: t, w: &window{size: 1000, share: 100}}
		u.want("a", 50)
		u.w.charge(u.in[0].source, 100)
		u.in[0].cost += 100
		u.want("a", 10)
		u.want("b", 200) // alone of its source: all that it needs
		u.expect("a", "b")
		u.commit(1)
		u.expect("a")
		u.drain()
	})
}
