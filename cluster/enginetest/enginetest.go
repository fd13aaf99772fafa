// Package enginetest is the conformance suite for engines of package cluster.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
)

// patience is how long the suite waits for what an engine may bring late.
const patience = 10 * time.Second

// Run tests an engine. open returns the engines of two members over the same new and empty map;
// they may be the same engine. It registers with the test what closes them.
func Run(t *testing.T, open func(t testing.TB) (a, b cluster.Engine)) {
	tests := []struct {
		name string
		test func(t *testing.T, a, b cluster.Engine)
	}{
		{"PutNeedsTheRevision", putNeedsTheRevision},
		{"RevisionsOfAKeyGrow", revisionsOfAKeyGrow},
		{"OneOfManyWins", oneOfManyWins},
		{"ACounterIsExact", aCounterIsExact},
		{"GetSeesItsOwnPuts", getSeesItsOwnPuts},
		{"WatchBeginsWithWhatThereIs", watchBeginsWithWhatThereIs},
		{"WatchComesInOrderAndToTheLast", watchComesInOrderAndToTheLast},
		{"WatchHasItsPrefixOnly", watchHasItsPrefixOnly},
		{"WatchStops", watchStops},
		{"LargeValuesAreTakenWhole", largeValuesAreTakenWhole},
		{"AContextThatHasEndedPutsNothing", aContextThatHasEndedPutsNothing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, b := open(t)
			test.test(t, a, b)
		})
	}
}

// put sets a key and expects that to succeed.
func put(t *testing.T, e cluster.Engine, key, value string, was cluster.Revision) cluster.Revision {
	t.Helper()
	rev, err := e.Put(t.Context(), key, []byte(value), was)
	if err != nil {
		t.Fatalf("put %s at %d: %v", key, was, err)
	}
	return rev
}

// conflict expects a put of k to fail, and to change nothing.
func conflict(t *testing.T, e cluster.Engine, was cluster.Revision) {
	t.Helper()
	const key = "k"
	before, errBefore := e.Get(t.Context(), key)
	if _, err := e.Put(t.Context(), key, []byte("conflict"), was); !errors.Is(err, cluster.ErrConflict) {
		t.Fatalf("put %s at %d: %v, want %v", key, was, err, cluster.ErrConflict)
	}
	after, errAfter := e.Get(t.Context(), key)
	if before.Revision != after.Revision || (errBefore == nil) != (errAfter == nil) {
		t.Errorf("a put with a conflict has changed %s from %v to %v", key, before, after)
	}
}

func putNeedsTheRevision(t *testing.T, a, b cluster.Engine) {
	conflict(t, a, 1)
	if _, err := a.Get(t.Context(), "k"); !errors.Is(err, cluster.ErrNotFound) {
		t.Errorf("a key that was never set: %v", err)
	}
	first := put(t, a, "k", "one", 0)
	conflict(t, b, 0)
	second := put(t, b, "k", "two", first)
	conflict(t, a, first)
	conflict(t, a, 0)
	conflict(t, a, second+1)
	put(t, a, "k", "", second) // an empty value is one
	put(t, b, "other", "one", 0)
}

func revisionsOfAKeyGrow(t *testing.T, a, b cluster.Engine) {
	var last cluster.Revision
	for i := range 20 {
		e := []cluster.Engine{a, b}[i%2]
		next := put(t, e, "k", strconv.Itoa(i), last)
		if next <= last {
			t.Fatalf("revision %d comes after %d", next, last)
		}
		last = next
	}
}

func oneOfManyWins(t *testing.T, a, b cluster.Engine) {
	var last cluster.Revision
	for round := range 20 {
		var all sync.WaitGroup
		won := make(chan cluster.Revision, 8)
		for i := range 8 {
			all.Go(func() {
				e := []cluster.Engine{a, b}[i%2]
				switch rev, err := e.Put(t.Context(), "k", fmt.Appendf(nil, "%d/%d", round, i), last); {
				case err == nil:
					won <- rev
				case !errors.Is(err, cluster.ErrConflict):
					t.Errorf("put: %v", err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of 8 have won", len(won))
		}
		last = <-won
	}
}

func aCounterIsExact(t *testing.T, a, b cluster.Engine) {
	const each = 50
	put(t, a, "n", "0", 0)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			e := []cluster.Engine{a, b}[i%2]
			for done := 0; done < each; {
				at, err := e.Get(t.Context(), "n")
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				n, _ := strconv.Atoi(string(at.Value))
				switch _, err := e.Put(t.Context(), "n", []byte(strconv.Itoa(n+1)), at.Revision); {
				case err == nil:
					done++
				case !errors.Is(err, cluster.ErrConflict):
					t.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	at := cluster.Entry{}
	await(t, "the sum", func() (err error) {
		at, err = b.Get(t.Context(), "n")
		if err == nil && string(at.Value) != strconv.Itoa(4*each) {
			err = fmt.Errorf("it is %s, and not %d", at.Value, 4*each)
		}
		return err
	})
}

func getSeesItsOwnPuts(t *testing.T, a, _ cluster.Engine) {
	var last cluster.Revision
	for i := range 50 {
		last = put(t, a, "k", strconv.Itoa(i), last)
		if at, err := a.Get(t.Context(), "k"); err != nil || at.Revision < last || at.Key != "k" {
			t.Fatalf("after the put of %d at %d it is %v, %v", i, last, at, err)
		}
	}
}

// seen keeps what a watch brings.
type seen struct {
	mu      sync.Mutex
	entries []cluster.Entry
	within  bool
	wrong   string
	changed chan struct{}
}

// watch watches the keys with the prefix k/.
func watch(t *testing.T, e cluster.Engine) (s *seen, stop func()) {
	t.Helper()
	s = &seen{changed: make(chan struct{}, 1)}
	stop = e.Watch("k/", func(e cluster.Entry) {
		s.mu.Lock()
		if s.within {
			s.wrong = "two calls at a time"
		}
		s.within = true
		s.mu.Unlock()
		s.mu.Lock()
		s.within = false
		s.entries = append(s.entries, e)
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// last returns the last entry of each key, and checks their order.
func (s *seen) last(t *testing.T) map[string]cluster.Entry {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong != "" {
		t.Error(s.wrong)
	}
	last := make(map[string]cluster.Entry)
	for _, e := range s.entries {
		if e.Revision < last[e.Key].Revision {
			t.Errorf("%s has come with %d after %d", e.Key, e.Revision, last[e.Key].Revision)
		}
		last[e.Key] = e
	}
	return last
}

// expect waits until the last entry of a key has that value.
func (s *seen) expect(t *testing.T, key, value string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		if e, ok := s.last(t)[key]; ok && string(e.Value) == value {
			return
		}
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("%s is %v and not %q", key, s.last(t)[key], value)
		}
	}
}

func largeValuesAreTakenWhole(t *testing.T, a, b cluster.Engine) {
	value := strings.Repeat("x", cluster.MaxValue)
	s, _ := watch(t, b)
	put(t, a, "k/1", value, put(t, a, "k/1", "small", 0))
	if at, err := a.Get(t.Context(), "k/1"); err != nil || string(at.Value) != value {
		t.Errorf("a value of %d bytes has %d: %v", len(value), len(at.Value), err)
	}
	s.expect(t, "k/1", value)
}

func watchBeginsWithWhatThereIs(t *testing.T, a, b cluster.Engine) {
	rev := put(t, a, "k/1", "old", 0)
	put(t, a, "k/1", "one", rev)
	put(t, a, "k/2", "two", 0)
	s, _ := watch(t, b)
	s.expect(t, "k/1", "one")
	s.expect(t, "k/2", "two")
	put(t, a, "k/3", "three", 0)
	s.expect(t, "k/3", "three")
}

func watchComesInOrderAndToTheLast(t *testing.T, a, b cluster.Engine) {
	s, _ := watch(t, b)
	var all sync.WaitGroup
	for k := range 3 {
		all.Go(func() {
			var last cluster.Revision
			for i := range 100 {
				var err error
				if last, err = a.Put(t.Context(), fmt.Sprint("k/", k), []byte(strconv.Itoa(i)), last); err != nil {
					t.Errorf("put: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	for k := range 3 {
		s.expect(t, fmt.Sprint("k/", k), "99")
	}
}

func watchHasItsPrefixOnly(t *testing.T, a, b cluster.Engine) {
	s, _ := watch(t, b)
	put(t, a, "kk", "no", 0)
	put(t, a, "other/k/", "no", 0)
	put(t, a, "k/1", "yes", 0)
	s.expect(t, "k/1", "yes")
	if last := s.last(t); len(last) != 1 {
		t.Errorf("a watch of k/ has brought %v", last)
	}
}

func watchStops(t *testing.T, a, _ cluster.Engine) {
	s, stop := watch(t, a)
	put(t, a, "k/1", "one", 0)
	s.expect(t, "k/1", "one")
	stop()
	stop()
	var rev cluster.Revision
	for i := range 10 {
		rev = put(t, a, "k/2", strconv.Itoa(i), rev)
	}
	again, _ := watch(t, a)
	again.expect(t, "k/2", "9")
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.entries); n > 2 {
		t.Errorf("a watch that was stopped has brought %d entries", n-1)
	}
}

func aContextThatHasEndedPutsNothing(t *testing.T, a, _ cluster.Engine) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Put(ended, "k", nil, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := a.Get(ended, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	put(t, a, "k", "one", 0)
}

// await repeats check until it returns nil.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}
