package behavior

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// patience bounds waits that only a bug makes long.
const patience = time.Minute

// plant is a runtime with behaviors on a real store in a directory of its own.
type plant struct {
	*Service
	t     testing.TB
	dir   string
	clock *atomic.Int64 // of the behaviors
	sys   *actor.System
	rt    *entity.Runtime
	store *mortalStore
	ended bool
	later atomic.Pointer[func(func())] // what the behaviors have instead of a minute to end
}

// mortalStore is a store that can die, and lose a part of its log.
type mortalStore struct {
	entitytest.MortalStore
	gap atomic.Pointer[gap]
}

// gap is changes that the log of a store no longer has, after some that can still be read.
type gap struct {
	kept    uint64        // the last one of these
	reached chan struct{} // closed when it has been read
	lost    chan struct{} // closed to have the others lost, which until then waits
}

// newGap makes a gap that begins after what is in the log now.
func (s *mortalStore) newGap() *gap {
	return &gap{kept: s.Store.Info().LastChange, reached: make(chan struct{}), lost: make(chan struct{})}
}

func (g *gap) isLost() bool {
	select {
	case <-g.lost:
		return true
	default:
		return false
	}
}

func (s *mortalStore) Changes(ctx context.Context, after uint64, limit int) ([]entity.LoggedChange, error) {
	g := s.gap.Load()
	if g == nil || g.isLost() {
		return s.Store.Changes(ctx, after, limit)
	}
	if after < g.kept {
		return s.Store.Changes(ctx, after, int(min(g.kept-after, uint64(limit)))) //nolint:gosec // not negative
	}
	close(g.reached)
	select {
	case <-g.lost:
		return nil, entity.ErrCursorExpired
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *mortalStore) Info() entity.StoreInfo {
	info := s.Store.Info()
	if g := s.gap.Load(); g != nil && g.isLost() {
		info.FirstChange = info.LastChange + 1
	}
	return info
}

// start is the time of a plant's clock at its beginning.
const start = 1_700_000_000_000

func build(t testing.TB) *plant {
	t.Helper()
	return buildAt(t, t.TempDir(), clockAt(start))
}

func buildAt(t testing.TB, dir string, clock *atomic.Int64) *plant {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	p := &plant{t: t, dir: dir, clock: clock, store: &mortalStore{MortalStore: entitytest.MortalStore{Store: disk}}, sys: actor.NewSystem("test", actor.WithLogger(quiet))}
	if p.rt, err = entity.Open(t.Context(), p.sys, p.store, entity.Config{}); err != nil {
		t.Fatal(err)
	}
	later := func(f func()) {
		if own := p.later.Load(); own != nil {
			(*own)(f)
			return
		}
		time.AfterFunc(patience, f)
	}
	p.Service = Open(p.rt, Config{SaveEvery: 5 * time.Millisecond, Gather: time.Millisecond, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond, Logger: quiet, now: clock.Load, later: later})
	t.Cleanup(p.close)
	return p
}

func (p *plant) close() {
	if p.ended {
		return
	}
	p.ended = true
	p.store.CloseAll(p.t, patience, p.Service, p.rt, p.sys)
}

// restart closes the plant and opens it again, without its behaviors.
func (p *plant) restart() *plant {
	p.t.Helper()
	p.close()
	return buildAt(p.t, p.dir, p.clock)
}

func (p *plant) register(s Spec) {
	p.t.Helper()
	if err := p.Register(p.t.Context(), s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plant) sync(name string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := p.Sync(ctx, name); err != nil {
		p.t.Fatalf("sync: %v; %+v", err, p.status(name))
	}
}

func (p *plant) status(name string) Status {
	p.t.Helper()
	st, err := p.Status(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// write makes a reading of an entity, ts milliseconds after start.
func (p *plant) write(id string, ts int64, key string, v int64) {
	p.t.Helper()
	if err := p.rt.Write(p.t.Context(), id, []entity.Reading{reading(ts, key, v)}, 50); err != nil {
		p.t.Fatal(err)
	}
}

func reading(ts int64, key string, v int64) entity.Reading {
	return entity.Reading{TS: start + ts, Values: []entity.Sample{sample(key, v)}}
}

func sample(key string, v int64) entity.Sample { return entity.Sample{Key: key, Value: value.Int(v)} }

// latest returns the latest value of a key as a number, -1 for none.
func (p *plant) latest(id, key string) (l entity.Latest, n int64) {
	p.t.Helper()
	n = -1
	err := p.rt.View(p.t.Context(), id, func(v entity.View) error {
		var ok bool
		if l, ok = v.Latest(key); ok {
			n = l.Value.Int()
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return l, n
}

func (p *plant) edit(id string, e entity.Edits) {
	p.t.Helper()
	if _, err := p.rt.Edit(p.t.Context(), id, e); err != nil {
		p.t.Fatal(err)
	}
}

// attribute returns an attribute as JSON, "" for none.
func (p *plant) attribute(id, path string) (text string) {
	p.t.Helper()
	err := p.rt.View(p.t.Context(), id, func(v entity.View) error {
		if a, ok := v.Attribute(entity.Attributes, path); ok {
			text = string(a.Value.AppendJSON(nil))
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

func clockAt(ms int64) *atomic.Int64 {
	clock := new(atomic.Int64)
	clock.Store(ms)
	return clock
}
