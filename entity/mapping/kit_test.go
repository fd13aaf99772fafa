package mapping

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

// house is a runtime with mappings on a real store in a directory of its own.
type house struct {
	*Service
	t     testing.TB
	dir   string
	sys   *actor.System
	rt    *entity.Runtime
	store *mortalStore
	ended bool
	sent  sync.WaitGroup // what send has sent and is not settled
}

// mortalStore is a store that can die: from then on nothing becomes durable.
type mortalStore struct {
	entity.Store
	dead   atomic.Bool
	stuck  atomic.Bool // only readings do not become durable
	mute   atomic.Bool // only documents do not
	full   atomic.Bool // there is no room for documents
	failed chan struct{}

	loads atomic.Int64 // how many loads of an entity fail from now on
	clock atomic.Int64 // what the documents of the service have as their version, 0 for what the store says
}

func (s *mortalStore) Load(ctx context.Context, id string) (entity.Stored, error) {
	if s.loads.Add(-1) >= 0 {
		return entity.Stored{}, errDead
	}
	return s.Store.Load(ctx, id)
}

var errDead = errors.New("the disk is gone")

func (s *mortalStore) Commit(ctx context.Context, b *entity.Batch) error {
	if s.dead.Load() || s.stuck.Load() {
		select {
		case s.failed <- struct{}{}:
		default:
		}
		return errDead
	}
	return s.Store.Commit(ctx, b)
}

func (s *mortalStore) PutDoc(ctx context.Context, doc entity.Doc, condition string) (entity.Doc, error) {
	if s.dead.Load() || s.mute.Load() {
		return entity.Doc{}, errDead
	}
	if s.full.Load() {
		return entity.Doc{}, entity.ErrFull
	}
	doc, err := s.Store.PutDoc(ctx, doc, condition)
	if clock := s.clock.Load(); clock != 0 && doc.Kind == stateKind {
		doc.Version = clock
	}
	return doc, err
}

type houseOptions struct {
	runtime  entity.Config
	mappings Config
	store    sqlite.Options
	clock    int64 // see mortalStore
	full     bool  // see mortalStore
}

// build opens a house in dir, which is closed at the end of the test.
func build(t testing.TB, dir string, o houseOptions) *house {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, o.store)
	for until := time.Now().Add(patience); errors.Is(err, sqlite.ErrInUse) && time.Now().Before(until); {
		// A crash beside a slow disk leaves while the last commit is under way.
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		disk, err = sqlite.Open(t.Context(), dir, o.store)
	}
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	h := &house{t: t, dir: dir, store: &mortalStore{Store: disk, failed: make(chan struct{}, 1)}, sys: actor.NewSystem("test", actor.WithLogger(quiet))}
	h.store.clock.Store(o.clock)
	h.store.full.Store(o.full)
	if h.rt, err = entity.Open(t.Context(), h.sys, h.store, o.runtime); err != nil {
		t.Fatal(err)
	}
	if o.mappings.Logger == nil {
		o.mappings.Logger = quiet
	}
	if h.Service, err = Open(t.Context(), h.rt, o.mappings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close() })
	return h
}

// close ends the house in good order.
func (h *house) close() {
	h.t.Helper()
	if h.ended {
		return
	}
	h.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Service.Close(ctx); err != nil {
		h.t.Errorf("close the mappings: %v", err)
	}
	if err := h.rt.Close(ctx); err != nil && !h.store.dead.Load() {
		h.t.Errorf("close the runtime: %v", err)
	}
	if _, err := h.sys.Shutdown(ctx); err != nil {
		h.t.Errorf("shut down: %v", err)
	}
}

// crash ends the house as a loss of power would: what is not committed is gone.
func (h *house) crash() {
	h.t.Helper()
	h.store.stuck.Store(true) // what is computed is on its way, and the place is saved
	// All may have been committed before: this is not.
	if err := h.rt.Ingest(h.t.Context(), "crash", []entity.Reading{{TS: 1, Values: []entity.Sample{sample("x", 1)}}}, 10, func(error) {}); err != nil {
		h.t.Error(err)
	}
	<-h.store.failed
	short, done := context.WithTimeout(h.t.Context(), time.Second)
	defer done()
	err := h.do(short, func(ctx context.Context, f *follower) error { return f.save(ctx) })
	if err != nil && short.Err() == nil { // otherwise it waits for the disk itself
		h.t.Error(err)
	}
	h.store.dead.Store(true)
	h.ended = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.Service.cancel()
	if err := h.rt.Close(ctx); err == nil {
		h.t.Error("the crash has lost nothing")
	}
	h.Service.wg.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := h.sys.Shutdown(ctx); err != nil {
		h.t.Errorf("shut down: %v", err)
	}
}

func (h *house) put(name, statement string) Installed {
	h.t.Helper()
	in, err := h.Put(h.t.Context(), name, mustParse(h.t, statement), "")
	if err != nil {
		h.t.Fatalf("put %q: %v", name, err)
	}
	return in
}

func (h *house) write(id string, ts int64, values ...entity.Sample) {
	h.t.Helper()
	if err := h.rt.Write(h.t.Context(), id, []entity.Reading{{TS: ts, Values: values}}, 50); err != nil {
		h.t.Fatalf("write to %q: %v", id, err)
	}
}

// send ingests a reading without waiting for it.
func (h *house) send(id string, ts int64, values ...entity.Sample) {
	h.t.Helper()
	h.sent.Add(1)
	err := h.rt.Ingest(h.t.Context(), id, []entity.Reading{{TS: ts, Values: values}}, 10, func(error) { h.sent.Done() })
	if err != nil {
		h.t.Fatal(err)
	}
}

// sync waits until n steps of mappings have come to rest.
func (h *house) sync(steps int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	h.sent.Wait()
	for range steps {
		if err := h.Sync(ctx); err != nil {
			h.t.Fatalf("sync: %v", err)
		}
	}
}

func (h *house) latest(id, key string) (entity.Latest, bool) {
	h.t.Helper()
	e, err := h.rt.Entity(h.t.Context(), id)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		h.t.Fatal(err)
	}
	for _, l := range e.Latest {
		if l.Key == key {
			return l, true
		}
	}
	return entity.Latest{}, false
}

func (h *house) is(id, key string, ts int64, v any) entity.Latest {
	h.t.Helper()
	got, ok := h.latest(id, key)
	if want := sample(key, v).Value; !ok || got.Value != want || got.TS != ts {
		h.t.Errorf("%s.%s = %v (%v) at %d, want %v (%v) at %d", id, key, got.Value, got.Value.Kind(), got.TS, want, want.Kind(), ts)
	}
	return got
}

// points is the history of a key.
func (h *house) points(id, key string) []entity.Point {
	h.t.Helper()
	points, err := h.reader.Points(h.t.Context(), id, key, 0, end, 1_000_000, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return points
}

func (h *house) relate(from, typ, to string, put bool) {
	h.t.Helper()
	edges := []entity.Relation{{From: from, Type: typ, To: to}}
	edits := entity.Edits{Relate: edges}
	if !put {
		edits = entity.Edits{Unrelate: edges}
	}
	if _, err := h.rt.Edit(h.t.Context(), from, edits); err != nil {
		h.t.Fatalf("relate %s to %s: %v", from, to, err)
	}
}
