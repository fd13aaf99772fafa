package entity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
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
)

// What becomes of readings when actors fail, stop and are killed: each delivery
// is settled exactly once, and what was acknowledged is there.

func TestFailedEntityRestartsWithoutLosingWhatWaitsInTheCommitter(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1})
	s.write("a", at(1, "t", value.Int(1)))
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	settled := newSettlements(t)
	ingest := func(name string, ts int64) {
		t.Helper()
		if err := settled.ingest(t.Context(), s, name, "a", at(ts, "t", value.Int(ts))); err != nil {
			t.Fatal(err)
		}
	}
	ingest("accepted", 10)
	s.entity("a") // it is in the committer
	wait(t, g.came, "the commit")
	s.FailEntity("a")
	ingest("behind the failure", 5) // late, as the new incarnation must know
	g.open()
	settled.wait()
	if n := settled.count(nil); n != 2 {
		t.Errorf("%d of 2 acknowledged", n)
	}
	l := s.latest("a", "t")
	if l.Value.Int() != 10 || l.Seq != 2 {
		t.Errorf("latest is %+v, want the accepted one", l)
	}
	if points := s.history("a", "t"); len(points) != 3 {
		t.Errorf("history %v", points)
	}
	if st := s.sys.Stats(); st.Restarts != 1 || st.DeadLetters != 0 {
		t.Errorf("system stats %+v", st)
	}
}

func TestReadingOnWhichItsEntityFailsIsSettledAndTheNextIsTakenIn(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	var loads atomic.Int32
	s.store.onLoad(func(context.Context, string) error {
		if loads.Add(1) == 1 {
			panic("a bug in the store")
		}
		return nil
	})
	if err := s.Write(t.Context(), "a", []entity.Reading{at(1, "t", value.Int(1))}, 1); !errors.Is(err, entity.ErrFailed) {
		t.Errorf("the first: %v, want ErrFailed", err)
	}
	s.write("a", at(2, "t", value.Int(2)))
	if points := s.history("a", "t"); len(points) != 1 || points[0].TS != 2 {
		t.Errorf("history %v", points)
	}
}

func TestStoreThatCannotBeReadRefusesTheReadingAndFailsNobody(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	broken := errors.New("disk on fire")
	s.store.onLoad(func(context.Context, string) error { return broken })
	if err := s.Write(t.Context(), "a", []entity.Reading{at(1, "t", value.Int(1))}, 1); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
	if _, err := s.Entity(t.Context(), "a"); !errors.Is(err, broken) {
		t.Errorf("entity: %v", err)
	}
	s.store.onLoad(nil)
	s.write("a", at(1, "t", value.Int(1)))
	if n := s.sys.Stats().Failures; n != 0 {
		t.Errorf("%d failures of actors", n)
	}
}

// heldEntity returns a runtime whose entity "a" is inside its handler, held by
// the gate, with n more deliveries in its mailbox.
func heldEntity(t *testing.T, n int) (*stage, *gate, *settlements) {
	s := open(t, t.TempDir(), entity.Config{})
	g := newGate()
	s.store.onLoad(func(ctx context.Context, id string) error {
		if id == "a" {
			return g.pass(ctx)
		}
		return nil
	})
	settled := newSettlements(t)
	for i := range n + 1 {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(int64(i), "t", value.Int(int64(i)))); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, g.came, "the entity to be loaded")
	return s, g, settled
}

func TestStoppedEntitySettlesWhatIsInItsMailboxAndComesBack(t *testing.T) {
	s, g, settled := heldEntity(t, 20)
	s.StopEntity("a")
	g.open()
	settled.wait()
	acked, stopped := settled.count(nil), settled.count(entity.ErrStopped)
	if acked == 0 || stopped == 0 || acked+stopped != 21 {
		t.Errorf("%d acknowledged and %d stopped of 21", acked, stopped)
	}
	s.write("a", at(1000, "t", value.Int(1)))
	if points := s.history("a", "t"); len(points) != acked+1 {
		t.Errorf("%d readings, want %d", len(points), acked+1)
	}
}

func TestKilledEntityIsNoticedByTheAudit(t *testing.T) {
	s, g, settled := heldEntity(t, 20)
	s.KillEntity("a")
	g.open()
	s.untilGone("a")
	s.Audit() // it sees them for the first time
	s.Audit() // and again, with nobody there
	settled.wait()
	if acked, stopped := settled.count(nil), settled.count(entity.ErrStopped); stopped == 0 || acked+stopped != 21 {
		t.Errorf("%d acknowledged and %d stopped of 21", acked, stopped)
	}
	s.write("a", at(1000, "t", value.Int(1)))
}

func TestKilledEntityIsNoticedByTheNextReading(t *testing.T) {
	s, g, settled := heldEntity(t, 5)
	s.KillEntity("a")
	g.open()
	s.untilGone("a")
	s.write("a", at(1000, "t", value.Int(1)))
	settled.wait()
	if l := s.latest("a", "t"); l.TS != 1000 {
		t.Errorf("latest %+v", l)
	}
}

// untilGone returns when the entity's actor has ended.
func (s *stage) untilGone(id string) {
	s.t.Helper()
	for began := time.Now(); ; runtime.Gosched() {
		if _, err := s.sys.Inspect("/entities/"+id, 0); errors.Is(err, actor.ErrStopped) {
			return
		}
		if time.Since(began) > patience {
			s.t.Fatalf("the actor of %q does not end", id)
		}
	}
}

func TestEntityThatFailsTooOftenIsStoppedAndComesBack(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(1, "t", value.Int(1)))
	settled := newSettlements(t)
	const n = 40
	for i := range n {
		if s.IsLive("a") {
			s.FailEntity("a")
		}
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(int64(10+i), "t", value.Int(1))); err != nil {
			t.Fatal(err)
		}
	}
	settled.wait()
	acked, stopped := settled.count(nil), settled.count(entity.ErrStopped)
	if acked+stopped != n {
		t.Errorf("%d acknowledged and %d stopped of %d", acked, stopped, n)
	}
	s.write("a", at(1000, "t", value.Int(1)))
	if points := s.history("a", "t"); len(points) != acked+2 {
		t.Errorf("%d readings, want %d", len(points), acked+2)
	}
}

func TestManagerThatFailsTakesItsEntitiesAlongAndTheyComeBack(t *testing.T) {
	s, g, settled := heldEntity(t, 5)
	s.FailManager()
	g.open()
	settled.wait()
	for i := range 20 {
		s.write(fmt.Sprintf("e%d", i), at(1, "t", value.Int(1)))
	}
	s.write("a", at(1000, "t", value.Int(1)))
}

// Many sources, and somebody who fails, stops and kills their entities all the
// time.
func TestEveryDeliveryIsSettledOnceWhateverHappensToTheActors(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, entity.Config{WindowBytes: 100_000, RetryMin: time.Millisecond})
	s.store.onCommit(func(_ context.Context, b *entity.Batch) error {
		if b.First%5 == 0 && rand.IntN(2) == 0 {
			return errors.New("a hiccup")
		}
		return nil
	})
	const sources, each, entities = 4, 500, 6
	settled := newSettlements(t)
	id := func(source, i int) string { return fmt.Sprintf("e%d", (source+i)%entities) }
	done := make(chan struct{})
	var wg, trouble sync.WaitGroup
	for source := range sources {
		wg.Go(func() {
			for i := range each {
				ts := int64(source*each + i)
				if err := settled.ingest(t.Context(), s, fmt.Sprint(ts), id(source, i), at(ts, "t", value.Int(ts))); err != nil {
					t.Errorf("ingest: %v", err)
				}
			}
		})
	}
	trouble.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			who := fmt.Sprintf("e%d", rand.IntN(entities))
			if err := s.Write(t.Context(), "pacer", []entity.Reading{at(int64(i), "t", value.Int(1))}, 1); err != nil {
				t.Errorf("pacer: %v", err)
			}
			s.trouble(who, i)
		}
	})
	wg.Wait()
	close(done)
	trouble.Wait()
	s.Audit()
	s.Audit()
	settled.wait()

	s = s.reopen(entity.Config{})
	found := map[int64]bool{}
	for e := range entities {
		for _, p := range s.history(fmt.Sprintf("e%d", e), "t") {
			found[p.TS] = true
		}
	}
	for ts := range int64(sources * each) {
		if acked := settled.acknowledged(fmt.Sprint(ts)); acked != found[ts] {
			t.Errorf("reading %d: acknowledged %v, found %v", ts, acked, found[ts])
		}
	}
}

// trouble does something bad to an entity, if it has an actor.
func (s *stage) trouble(id string, i int) {
	defer func() { _ = recover() }() // it may have ended since IsLive
	if !s.IsLive(id) {
		return
	}
	switch i % 4 {
	case 0:
		s.KillEntity(id)
	case 1:
		s.StopEntity(id)
	default:
		s.FailEntity(id)
	}
}

// Who asks an entity does not know of its actor: the end of the runtime is ErrClosed.
func TestAskThatTheEndOfTheRuntimeCutsShortIsErrClosed(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(1, "t", value.Int(1)))
	held := newGate()
	done := make(chan error, 2)
	view := func(f func(entity.View) error) { go func() { done <- s.View(context.Background(), "a", f) }() }
	view(func(entity.View) error { return held.pass(context.Background()) })
	wait(t, held.came, "the first view")
	view(func(entity.View) error { return nil })
	for deadline := time.Now().Add(patience); ; {
		tree, err := s.sys.Inspect("/entities/a", 0)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the second view does not wait: %+v, %v", tree, err)
		}
		if tree.Mailbox > 0 {
			break
		}
		runtime.Gosched()
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	held.open()
	for range 2 {
		if err := wait(t, done, "both views"); err != nil && (!errors.Is(err, entity.ErrClosed) || errors.Is(err, actor.ErrStopped)) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}

// Who stops waiting uses what its function has written.
func TestAFunctionDoesNotRunAfterItsViewHasReturned(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", at(1, "t", value.Int(1)))
	held, calls := newGate(), 0
	running, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- s.View(running, "a", func(entity.View) error {
			defer func() { calls++ }()
			return held.pass(context.Background())
		})
	}()
	wait(t, held.came, "the first view")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.View(ended, "a", func(entity.View) error { calls++; return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a view that does not wait: %v, want %v", err, context.Canceled)
	}
	stop()
	time.AfterFunc(10*time.Millisecond, held.open)
	if err := wait(t, done, "the first view"); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a view that stops waiting: %v", err)
	}
	if calls != 1 {
		t.Errorf("%d calls, want the first only", calls)
	}
	if err := s.View(t.Context(), "a", func(entity.View) error { return nil }); err != nil || calls != 1 {
		t.Errorf("%d calls after one more view, %v; want the first only", calls, err)
	}
}

func TestAStoreThatReturnsAfterCloseIsClosedThen(t *testing.T) {
	t.Parallel() // it waits for two seconds
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1})
	s.store.breaks.Store(true)
	g := newGate()
	s.store.onCommit(func(context.Context, *entity.Batch) error { return g.pass(context.Background()) })
	settled := newSettlements(t)
	if err := settled.ingest(t.Context(), s, "0", "a", at(1, "t", value.Int(1))); err != nil {
		t.Fatal(err)
	}
	wait(t, g.came, "the commit")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err == nil || !strings.Contains(err.Error(), "the store does not return") {
		t.Fatalf("close beside a commit that does not return: %v", err)
	}
	g.open()
	settled.wait()
	for until := time.Now().Add(patience); ; {
		disk, err := sqlite.Open(t.Context(), s.dir, sqlite.Options{})
		if err == nil {
			if err := disk.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, sqlite.ErrInUse) || time.Now().After(until) {
			t.Fatal(err)
		}
		if err := pause.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// Close ends on a disk that stays full, also without a deadline: those who wait have been told that
// the outcome is not known.
func TestCloseDoesNotWaitForRoomForEver(t *testing.T) {
	t.Parallel() // it waits for five seconds
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1, RetryMax: 100 * time.Millisecond})
	s.write("a", at(1, "t", value.Int(1)))
	s.store.breaks.Store(true)
	s.store.onCommit(func(context.Context, *entity.Batch) error { return entity.ErrFull })
	if err := s.Write(t.Context(), "a", []entity.Reading{at(2, "t", value.Int(2))}, 0); !errors.Is(err, entity.ErrFull) {
		t.Fatalf("a write on a full disk: %v, want ErrFull", err)
	}
	late, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Close(late); !errors.Is(err, entity.ErrFull) || !strings.Contains(err.Error(), "not committed") {
		t.Fatalf("close on a full disk: %v, want ErrFull", err)
	}
	again := open(t, s.dir, entity.Config{})
	if points := again.history("a", "t"); len(points) != 1 {
		t.Errorf("opened again, the history is %v", points)
	}
}
