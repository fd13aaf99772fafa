package entity_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// countingStore counts the entities that are read together, and may refuse to.
type countingStore struct {
	entity.Store
	together atomic.Int64
	refuse   error
	breaks   string // panics for that entity
}

func (s *countingStore) Entities(ctx context.Context, q entity.ListQuery) ([]entity.Stored, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	if s.breaks != "" && slices.Contains(q.IDs, s.breaks) {
		panic(errBroken)
	}
	s.together.Add(int64(len(q.IDs)))
	return s.Store.Entities(ctx, q)
}

// The store of a caller's may panic: that is the caller's, on whichever goroutine it was.
func TestAPanicOfTheStoreInATraversalIsTheCallers(t *testing.T) {
	store := &countingStore{}
	s := openOn(t, t.TempDir(), entity.Config{}, func(disk *sqlite.Store) entity.Store {
		store.Store = disk
		return store
	})
	spokes := make([]string, 120)
	for i := range spokes {
		spokes[i] = fmt.Sprintf("e%03d", i)
		s.edit(spokes[i], entity.Edits{})
	}
	s.relate("hub", "in", spokes...)
	store.breaks = "e119" // in the half that is read beside the other
	defer func() {
		if p := recover(); p != errBroken { //nolint:errorlint // the very value
			t.Errorf("the caller sees %v", p)
		}
	}()
	_, _, err := s.Traverse(t.Context(), entity.Traversal{From: "hub", Match: func(entity.View) bool { return true }})
	t.Errorf("the traversal ends, with %v", err)
}

var errBroken = errors.New("broken")

// Entities that are wanted while others are read come to life with one question, each
// as it was; and one by one where that question has no answer.
func TestEntitiesAreLoadedTogether(t *testing.T) {
	for name, refuse := range map[string]error{"together": nil, "one by one": errors.New("one of them is damaged")} {
		t.Run(name, func(t *testing.T) {
			const known, unknown = 30, 20
			dir := t.TempDir()
			first := open(t, dir, entity.Config{})
			for i := range known {
				first.write(fmt.Sprintf("e%d", i), at(1000, "v", value.Int(int64(i))))
			}
			if err := first.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			store := &countingStore{refuse: refuse}
			s := openOn(t, dir, entity.Config{}, func(disk *sqlite.Store) entity.Store {
				store.Store = disk
				return store
			})
			g, reading := newGate(), make(chan string, known+unknown)
			s.store.onLoad(func(ctx context.Context, id string) error {
				reading <- id
				return g.pass(ctx)
			})
			settled := newSettlements(t)
			send := func(i int) {
				if err := settled.ingest(t.Context(), s, fmt.Sprint(i), fmt.Sprintf("e%d", i), at(500, "late", value.Bool(true))); err != nil {
					t.Fatal(err)
				}
			}
			const alone = 2 // reads at the same time
			for i := range alone {
				send(i)
				wait(t, reading, "a read")
			}
			for i := alone; i < known+unknown; i++ {
				send(i)
			}
			for began := time.Now(); s.Wanted() < known+unknown-alone; runtime.Gosched() {
				if time.Since(began) > patience {
					t.Fatalf("%d entities are wanted", s.Wanted())
				}
			}
			g.open()
			settled.wait()
			if n := settled.count(nil); n != known+unknown {
				t.Errorf("%d of %d readings were acknowledged", n, known+unknown)
			}
			for i := range known {
				if v := s.latest(fmt.Sprintf("e%d", i), "v").Value; v != value.Int(int64(i)) {
					t.Errorf("e%d has %v", i, v)
				}
			}
			if n := store.together.Load(); refuse == nil && n != known+unknown-alone {
				t.Errorf("%d entities were read together", n)
			}
		})
	}
}
