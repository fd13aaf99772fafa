package entity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// patience bounds waits that only a bug makes long.
const patience = 60 * time.Second

// stage is a runtime on a real store in a directory of its own.
type stage struct {
	*entity.Runtime
	t     testing.TB
	dir   string
	sys   *actor.System
	store *faultyStore
	logs  *logCounter
}

// open starts a runtime on the store in dir. It is closed at the end of the test.
func open(t testing.TB, dir string, cfg entity.Config) *stage {
	t.Helper()
	return openOn(t, dir, cfg, func(disk *sqlite.Store) entity.Store { return disk })
}

// openOn is open with a store made of the one on the disk.
func openOn(t testing.TB, dir string, cfg entity.Config, store func(*sqlite.Store) entity.Store) *stage {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, store: &faultyStore{Store: store(disk)}, logs: &logCounter{lines: map[string]int{}}}
	s.sys = actor.NewSystem("test", actor.WithLogger(slog.New(s.logs)))
	s.Runtime, err = entity.Open(t.Context(), s.sys, s.store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil && !s.store.breaks.Load() {
			t.Errorf("close: %v", err)
		}
		if _, err := s.sys.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return s
}

// reopen closes the runtime as a restart would, and opens another on its data.
func (s *stage) reopen(cfg entity.Config) *stage {
	s.t.Helper()
	if err := s.Close(s.t.Context()); err != nil {
		s.t.Fatalf("close: %v", err)
	}
	return open(s.t, s.dir, cfg)
}

// faultyStore is a store with faults: hooks that run before the real method.
type faultyStore struct {
	entity.Store
	breaks atomic.Bool // the test closes by force: an error of Close is expected

	mu     sync.Mutex
	commit func(ctx context.Context, b *entity.Batch) error
	load   func(ctx context.Context, id string) error
}

func (s *faultyStore) onCommit(f func(ctx context.Context, b *entity.Batch) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = f
}

func (s *faultyStore) onLoad(f func(ctx context.Context, id string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = f
}

func (s *faultyStore) Commit(ctx context.Context, b *entity.Batch) error {
	s.mu.Lock()
	hook := s.commit
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, b); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, b)
}

func (s *faultyStore) Load(ctx context.Context, id string) (entity.Stored, error) {
	s.mu.Lock()
	hook := s.load
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, id); err != nil {
			return entity.Stored{}, err
		}
	}
	return s.Store.Load(ctx, id)
}

// gate holds callers until it is opened, and says when the first has come.
type gate struct {
	came   chan struct{}
	opened chan struct{}
	once   sync.Once
}

func newGate() *gate { return &gate{came: make(chan struct{}), opened: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) error {
	g.once.Do(func() { close(g.came) })
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) open() { close(g.opened) }

// logCounter counts log lines by message.
type logCounter struct {
	mu    sync.Mutex
	lines map[string]int
}

func (l *logCounter) Enabled(context.Context, slog.Level) bool { return true }
func (l *logCounter) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logCounter) WithGroup(string) slog.Handler            { return l }

func (l *logCounter) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[r.Message]++
	return nil
}

func (l *logCounter) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[message]
}

// wait returns when ch delivers, and fails the test when it never does.
func wait[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	alarm := time.NewTimer(patience)
	defer alarm.Stop()
	select {
	case v = <-ch:
	case <-alarm.C:
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

// settlements counts how each delivery was settled.
type settlements struct {
	t       testing.TB
	mu      sync.Mutex
	done    map[string][]error
	pending int
	all     chan struct{} // gets a value whenever nothing is pending any more
}

func newSettlements(t testing.TB) *settlements {
	return &settlements{t: t, done: map[string][]error{}, all: make(chan struct{}, 1)}
}

// ingest ingests one reading under a name of its own.
func (s *settlements) ingest(ctx context.Context, r *stage, name, id string, reading entity.Reading) error {
	s.mu.Lock()
	s.pending++
	s.mu.Unlock()
	err := r.Ingest(ctx, id, []entity.Reading{reading}, 50, func(err error) { s.settle(name, err) })
	if err != nil {
		s.mu.Lock()
		s.pending--
		s.mu.Unlock()
	}
	return err
}

func (s *settlements) settle(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[name] = append(s.done[name], err)
	if s.pending--; s.pending == 0 {
		select {
		case s.all <- struct{}{}:
		default:
		}
	}
}

// wait returns when everything that was ingested is settled, each once.
func (s *settlements) wait() {
	s.t.Helper()
	for {
		s.mu.Lock()
		pending := s.pending
		s.mu.Unlock()
		if pending == 0 {
			break
		}
		wait(s.t, s.all, fmt.Sprintf("the settlement of %d deliveries", pending))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, errs := range s.done {
		if len(errs) != 1 {
			s.t.Errorf("%s was settled %d times: %v", name, len(errs), errs)
		}
	}
}

// count returns how many were settled with an error that is target, nil for an
// acknowledgement.
func (s *settlements) count(target error) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, errs := range s.done {
		if errors.Is(errs[0], target) {
			n++
		}
	}
	return n
}

// acknowledged reports whether a delivery was acknowledged.
func (s *settlements) acknowledged(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs, ok := s.done[name]
	return ok && errs[0] == nil
}

func at(ts int64, key string, v value.Value) entity.Reading {
	return entity.Reading{TS: ts, Values: []entity.Sample{{Key: key, Value: v}}}
}

func (s *stage) write(id string, readings ...entity.Reading) {
	s.t.Helper()
	if err := s.Write(s.t.Context(), id, readings, 50); err != nil {
		s.t.Fatalf("write to %q: %v", id, err)
	}
}

func (s *stage) entity(id string) entity.Snapshot {
	s.t.Helper()
	snap, err := s.Entity(s.t.Context(), id)
	if err != nil {
		s.t.Fatalf("entity %q: %v", id, err)
	}
	return snap
}

// latest returns the latest value of a key.
func (s *stage) latest(id, key string) entity.Latest {
	s.t.Helper()
	for _, l := range s.entity(id).Latest {
		if l.Key == key {
			return l
		}
	}
	s.t.Fatalf("entity %q has no key %q", id, key)
	return entity.Latest{}
}

// history returns all points of a series, by pages.
func (s *stage) history(id, key string) (points []entity.Point) {
	s.t.Helper()
	q := entity.HistoryQuery{ID: id, Key: key, Limit: 700}
	for {
		page, next, err := s.History(s.t.Context(), q)
		if err != nil {
			s.t.Fatalf("history of %q %q: %v", id, key, err)
		}
		points = append(points, page...)
		if next == "" {
			return points
		}
		q.Cursor = next
	}
}

// untilIdle returns when the window is empty: a moment after the last done.
func (s *stage) untilIdle() {
	s.t.Helper()
	for began := time.Now(); s.Stats().WindowUsed > 0; runtime.Gosched() {
		if time.Since(began) > patience {
			s.t.Fatalf("the window keeps %d bytes", s.Stats().WindowUsed)
		}
	}
}

// taken returns what an entity has taken in, committed or not.
func (s *stage) taken(id string) entity.Snapshot {
	s.t.Helper()
	snap, err := s.Accepted(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return snap
}
