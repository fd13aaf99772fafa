package entity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// together calls each function on a goroutine of its own and returns their errors.
func together(fs ...func() error) []error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i, f := range fs {
		wg.Go(func() {
			<-begin
			errs[i] = f()
		})
	}
	close(begin)
	wg.Wait()
	return errs
}

func (s *stage) put(from, typ, to string) error {
	_, err := s.Edit(s.t.Context(), from, entity.Edits{Relate: []entity.Relation{{Type: typ, To: to}}})
	return err
}

func TestARelationThatRacesWithTheEndOfItsTargetEndsWithIt(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(t, 25, 1000)
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("a", entity.Edits{})
	for i := range rounds {
		to := fmt.Sprintf("b%d", i)
		s.edit(to, entity.Edits{})
		errs := together(
			func() error { return s.put("a", "x", to) },
			func() error { return s.Delete(t.Context(), to, "") },
		)
		if errs[1] != nil {
			t.Fatal(errs[1])
		}
		if errs[0] != nil && !errors.Is(errs[0], entity.ErrNotFound) {
			t.Fatal(errs[0])
		}
		if got := s.edges("a", entity.Out); got != "" {
			t.Fatalf("round %d: after the target is gone: %s", i, got)
		}
		if i%10 == 0 { // one of the same id has nothing of it
			s.edit(to, entity.Edits{})
			if got := s.edges(to, entity.Both); got != "" {
				t.Fatalf("round %d: of the new one: %s", i, got)
			}
		}
	}
	s = s.reopen(entity.Config{})
	if got := s.edges("a", entity.Out); got != "" {
		t.Errorf("after a restart: %s", got)
	}
}

// The target may be there again before the relation is committed: then it leads to the
// new one, or to nobody, and is the same live and after a restart.
func TestARelationThatRacesWithATargetMadeAnewIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(t, 15, 1000)
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("a", entity.Edits{})
	for i := range rounds {
		to := fmt.Sprintf("b%d", i)
		s.edit(to, entity.Edits{})
		errs := together(
			func() error { return s.put("a", "x", to) },
			func() error {
				err := s.Delete(t.Context(), to, "")
				if err == nil {
					_, err = s.Edit(t.Context(), to, entity.Edits{})
				}
				return err
			},
			func() error { return s.put("a", "y", to) },
		)
		for _, err := range errs {
			if err != nil && !errors.Is(err, entity.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	live := s.edges("a", entity.Out)
	s = s.reopen(entity.Config{})
	if got := s.edges("a", entity.Out); got != live {
		t.Errorf("after a restart:\n%s\nlive:\n%s", got, live)
	}
}

func TestMaxOfARelationHoldsForPutsThatComeTogether(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(t, 5, 1000)
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"Lamp","relations":{"in":{"max":1}}}`)
	puts := make([]func() error, 20)
	for i := range puts {
		s.edit(fmt.Sprintf("room%d", i), entity.Edits{})
	}
	for round := range rounds {
		id := fmt.Sprintf("lamp%d", round)
		s.edit(id, entity.Edits{Type: new("Lamp")})
		for i := range puts {
			puts[i] = func() error { return s.put(id, "in", fmt.Sprintf("room%d", i)) }
		}
		good := 0
		for _, err := range together(puts...) {
			switch {
			case err == nil:
				good++
			case !errors.Is(err, entity.ErrMismatch):
				t.Fatal(err)
			}
		}
		if list, err := s.Relations(t.Context(), id, entity.Out); err != nil || len(list) != 1 || good != 1 {
			t.Fatalf("round %d: %d edges, %d acknowledged, %v; want 1 and 1", round, len(list), good, err)
		}
	}
	s = s.reopen(entity.Config{})
	if _, err := s.Relations(t.Context(), "lamp0", entity.Out); err != nil { // waits for all of them
		t.Fatal(err)
	}
	if n := s.Stats().Relations; n != rounds {
		t.Errorf("%d edges after a restart, want %d", n, rounds)
	}
}

// A relation wants its target to be of a type: also when that is changed meanwhile.
func TestTheTypeOfATargetHoldsForPutsThatComeTogether(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(t, 15, 1000)
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"Room"}`, `{"id":"Car"}`, `{"id":"Lamp","relations":{"in":{"target":["Room"]}}}`)
	s.edit("lamp", entity.Edits{Type: new("Lamp")})
	for i := range rounds {
		to := fmt.Sprintf("b%d", i)
		s.edit(to, entity.Edits{Type: new("Room")})
		changes := s.laterChanges(to)
		errs := together(
			func() error { return s.put("lamp", "in", to) },
			func() error {
				_, err := s.Edit(t.Context(), to, entity.Edits{Type: new("Car")})
				return err
			},
		)
		if errs[1] != nil || errs[0] != nil && !errors.Is(errs[0], entity.ErrMismatch) {
			t.Fatal(errs)
		}
		if put, typed := changes(); errs[0] == nil && put > typed {
			t.Fatalf("round %d: the edge is change %d, and its target of another type since change %d", i, put, typed)
		}
	}
	live := s.edges("lamp", entity.Out)
	s = s.reopen(entity.Config{})
	if got := s.edges("lamp", entity.Out); got != live {
		t.Errorf("after a restart:\n%s\nlive:\n%s", got, live)
	}
}

// Of those who make an entity that is not there, one has made it, and it stays as that one has.
func TestAnEntityIsMadeOnceByThoseThatComeTogether(t *testing.T) {
	t.Parallel()
	rounds := soaktest.Rounds(t, 10, 1000)
	s := open(t, t.TempDir(), entity.Config{})
	makers := make([]func() error, 10)
	winners := make([]string, rounds)
	for round := range rounds {
		id := fmt.Sprintf("e%d", round)
		for i := range makers {
			makers[i] = func() error {
				_, err := s.Edit(t.Context(), id, entity.Edits{If: entity.IfNone, Patches: []entity.Patch{merge(entity.Attributes, fmt.Sprintf(`{"by":%d}`, i))}})
				return err
			}
		}
		for i, err := range together(makers...) {
			switch {
			case err == nil && winners[round] == "":
				winners[round] = fmt.Sprint(i)
			case err == nil:
				t.Fatalf("round %d: %s has made it, and so has %d", round, winners[round], i)
			case !errors.Is(err, entity.ErrConflict):
				t.Fatal(err)
			}
		}
	}
	for range 2 { // live, and after a restart
		for round, want := range winners {
			a := s.entity(fmt.Sprintf("e%d", round)).Attributes
			if len(a) != 1 || fmt.Sprint(a[0].Value.Int()) != want {
				t.Errorf("round %d: it was made by %q, and has %v", round, want, a)
			}
		}
		s = s.reopen(entity.Config{})
	}
}

// laterChanges returns a function that tells at which changes from now on an edge to an
// entity was put, and that entity was given a type.
func (s *stage) laterChanges(to string) func() (put, typed uint64) {
	s.t.Helper()
	after := s.store.Info().LastChange
	return func() (put, typed uint64) {
		list, err := s.store.Changes(s.t.Context(), after, 10)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range list {
			if c.Entity == to && c.Edit.Typed {
				typed = c.Seq
			}
			if len(c.Edit.Relations) > 0 {
				put = c.Seq
			}
		}
		return put, typed
	}
}

// Who gives up waiting for an edit before it leaves nothing behind, and those behind go on.
func TestAnEditThatGivesUpWaitingForAnotherHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	for _, id := range []string{"a", "b", "c"} {
		s.edit(id, entity.Edits{})
	}
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.put("a", "x", "b"); err != nil {
			t.Error(err)
		}
	})
	wait(t, g.came, "the first commit")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Delete(ctx, "b", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Edit(ctx, "a", entity.Edits{Relate: []entity.Relation{{Type: "x", To: "c"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("relate: %v", err)
	}
	g.open()
	wg.Wait()
	s.relate("a", "y", "b")
	if got := s.edges("a", entity.Out); got != "a-x-b a-y-b" {
		t.Errorf("edges %s", got)
	}
	if err := s.Delete(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
}
