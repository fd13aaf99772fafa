package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// TestWhateverIsCutAnEndThatIsSureIsSo has connections be cut after any byte, in both directions. What was put is there
// then, what was refused never is, and a watch by the same connections misses nothing that lasts.
func TestWhateverIsCutAnEndThatIsSureIsSo(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	proxy := pgtest.NewProxy(t, url)
	e, direct := open(t, proxy.URL(t, url), Config{Timeout: patience}), open(t, url, Config{})
	seen := watchAll(t, e)
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	refused, outcomes, rev := make(map[string]error), make(map[string]int), cluster.Revision(0)
	for i := range 40 {
		cut := &proxy.FromServer
		if rng.IntN(2) == 0 {
			cut = &proxy.ToServer
		}
		_, _ = e.Get(t.Context(), "k") // so that there is a connection, unless what was cut has reached this as well
		cut.Store(rng.Int64N(160))
		value := fmt.Sprint("value ", i)
		now, err := e.Put(t.Context(), "k", []byte(value), rev)
		proxy.Heal()
		switch {
		case err == nil:
			outcomes["sure"]++
		case errors.Is(err, cluster.ErrUnsure):
			outcomes["unsure"]++
		default:
			outcomes["refused"]++
			refused[value] = err
		}
		at, got := direct.Get(t.Context(), "k")
		if got != nil && !errors.Is(got, cluster.ErrNotFound) {
			t.Fatal(got)
		}
		if was := refused[string(at.Value)]; was != nil || err == nil && (now != at.Revision || string(at.Value) != value) {
			t.Fatalf("seed %d: the put of %q has ended with %d, %v, and %q is there with %d, which has ended with %v", seed, value, now, err, at.Value, at.Revision, was)
		}
		rev = at.Revision
	}
	t.Log(outcomes)
	if outcomes["sure"] == 0 || outcomes["unsure"] == 0 {
		t.Errorf("seed %d: the cuts have had the ends %v: want some of each", seed, outcomes)
	}
	for got := errors.New("none"); got != nil && !errors.Is(got, cluster.ErrNotFound); _, got = e.Get(t.Context(), "k") {
		proxy.Heal() // once more: a cut may have been under way
	}
	last, end, late := cluster.Revision(0), put(t, direct, "end", "", 0), time.After(patience)
	for more := true; more; {
		var at cluster.Entry
		select {
		case at = <-seen:
		case <-late:
			t.Fatalf("seed %d: the watch has ended with %d", seed, last)
		}
		if more = at.Key != "end"; !more {
			break
		}
		if at.Revision <= last || refused[string(at.Value)] != nil {
			t.Errorf("seed %d: the watch has seen %q with %d after %d", seed, at.Value, at.Revision, last)
		}
		last = at.Revision
	}
	if at, err := direct.Get(t.Context(), "k"); err != nil || at.Revision < end && at.Revision != last { // the last one may come later
		t.Errorf("seed %d: the watch has ended with %d, and %d is there: %v", seed, last, at.Revision, err)
	}
}
