package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/entitytest"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

// plant is a runtime with alarms on a real store in a directory of its own, with a clock
// of its own for the alarms.
type plant struct {
	*Service
	t     testing.TB
	dir   string
	clock *atomic.Int64
	sys   *actor.System
	rt    *entity.Runtime
	store *mortalStore
	ended bool
	steps steps
	rare  bool // commit only what somebody waits for, and what is much
	usual bool // commit as often as a server does
}

// mortalStore is a store that can die, and counts what is written and read.
type mortalStore struct {
	entitytest.MortalStore
	clock *atomic.Int64 // of the plant, which says when a batch is committed
	puts  atomic.Int64  // items written

	widest atomic.Int64 // the most items that were written at once; one writes at a time
	listed atomic.Int64 // entities read in lists
	full   atomic.Bool  // says once that it has no room, when the rules are read
}

func (s *mortalStore) Commit(ctx context.Context, b *entity.Batch) error {
	b.Committed = s.clock.Load()
	return s.MortalStore.Commit(ctx, b)
}

func (s *mortalStore) Entities(ctx context.Context, q entity.ListQuery) ([]entity.Stored, error) {
	list, err := s.Store.Entities(ctx, q)
	s.listed.Add(int64(len(list)))
	return list, err
}

func (s *mortalStore) Items(ctx context.Context, q entity.ItemsQuery) ([]entity.Item, error) {
	if q.Kind == ruleKind && s.full.Swap(false) {
		return nil, entity.ErrFull
	}
	return s.Store.Items(ctx, q)
}

func (s *mortalStore) PutItems(ctx context.Context, items []entity.Item) error {
	s.widest.Store(max(s.widest.Load(), int64(len(items))))
	err := s.MortalStore.PutItems(ctx, items)
	if err == nil {
		s.puts.Add(int64(len(items)))
	}
	return err
}

// start is the time of a plant's clock at its beginning.
const start = 1_700_000_000_000

func build(t testing.TB) *plant {
	t.Helper()
	return buildWith(t, usualSteps())
}

// buildWith makes a plant that does less at once.
func buildWith(t testing.TB, steps steps) *plant {
	t.Helper()
	clock := new(atomic.Int64)
	clock.Store(start)
	return buildAt(t, t.TempDir(), clock, steps)
}

func buildAt(t testing.TB, dir string, clock *atomic.Int64, steps steps) *plant {
	t.Helper()
	return (&plant{t: t, dir: dir, steps: steps, clock: clock}).open()
}

// buildUsual makes a plant that commits as often as a server does.
func buildUsual(t testing.TB) *plant {
	t.Helper()
	p := &plant{t: t, dir: t.TempDir(), steps: usualSteps(), clock: new(atomic.Int64), usual: true}
	p.clock.Store(start)
	return p.open()
}

func (p *plant) open() *plant {
	t, dir, clock := p.t, p.dir, p.clock
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	for until := time.Now().Add(patience); errors.Is(err, sqlite.ErrInUse) && time.Now().Before(until); {
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		disk, err = sqlite.Open(t.Context(), dir, sqlite.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	p.store, p.sys = &mortalStore{MortalStore: entitytest.MortalStore{Store: disk}, clock: clock}, actor.NewSystem("test", actor.WithLogger(quiet))
	if p.rt, err = entity.Open(t.Context(), p.sys, p.store, entity.Config{PresenceGrace: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if p.Service, err = Open(t.Context(), p.rt, p.config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func (p *plant) config() Config {
	quiet := slog.New(slog.DiscardHandler)
	save, gather := 5*time.Millisecond, time.Millisecond
	switch {
	case p.rare:
		save, gather = time.Hour, time.Hour
	case p.usual:
		save, gather = 0, 0
	}
	return Config{SaveEvery: save, Gather: gather, RetryMin: time.Hour, RetryMax: time.Hour, Logger: quiet, now: p.clock.Load, steps: p.steps, retry: func(int) time.Duration { return time.Millisecond }}
}

// reopen stops the alarms alone while f runs.
func (p *plant) reopen(f func()) {
	p.t.Helper()
	if err := p.Service.Close(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	f()
	var err error
	if p.Service, err = Open(p.t.Context(), p.rt, p.config()); err != nil {
		p.t.Fatal(err)
	}
}

// trim removes the history of a key, as retention does.
func (p *plant) trim(id, key string) {
	p.t.Helper()
	if n, err := p.rt.Trim(p.t.Context(), id, key, start+time.Hour.Milliseconds()); err != nil || n == 0 {
		p.t.Fatalf("trimmed %d values, %v", n, err)
	}
}

// loseCursor has the log not go on from the place of the alarms, which are stopped.
func (p *plant) loseCursor() {
	p.t.Helper()
	at, err := readPlace(p.t.Context(), p.rt)
	if err != nil {
		p.t.Fatal(err)
	}
	at.Cursor = "none"
	body, err := json.Marshal(&at)
	if err == nil {
		err = p.rt.PutItems(p.t.Context(), []entity.Item{{Kind: placeKind, Key: placeKey, Body: body}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// awaitClock returns when it is later, by the clock of the machine, than by that of the plant.
func (p *plant) awaitClock() {
	p.t.Helper()
	p.await(func() bool { return time.Now().UnixMilli() > p.clock.Load() })
}

// await returns when something holds.
func (p *plant) await(holds func() bool) {
	p.t.Helper()
	for !holds() {
		if err := pause.For(p.t.Context(), time.Millisecond); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *plant) close() {
	if p.ended {
		return
	}
	p.ended = true
	p.store.CloseAll(p.t, patience, p.Service, p.rt, p.sys)
}

// restart closes the plant, in good order or after the death of its store, and opens it
// again.
func (p *plant) restart() *plant {
	p.t.Helper()
	p.close()
	return buildAt(p.t, p.dir, p.clock, p.steps)
}

func (p *plant) put(r Rule) {
	p.t.Helper()
	if r.Severity == 0 {
		r.Severity = Major
	}
	if _, err := p.PutRule(p.t.Context(), r, ""); err != nil {
		p.t.Fatal(err)
	}
	p.sync()
}

func (p *plant) sync() {
	p.t.Helper()
	if err := p.Sync(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// at makes a reading of an entity, ts seconds after start.
func (p *plant) at(id string, ts float64, keysAndValues ...any) {
	p.t.Helper()
	p.ingest(id, reading(ts, keysAndValues...))
}

func reading(ts float64, keysAndValues ...any) entity.Reading {
	r := entity.Reading{TS: start + int64(ts*1000)}
	for i := 0; i < len(keysAndValues); i += 2 {
		v := value.Float(0)
		switch x := keysAndValues[i+1].(type) {
		case int:
			v = value.Int(int64(x))
		case float64:
			v = value.Float(x)
		case string:
			v = value.String(x)
		}
		r.Values = append(r.Values, entity.Sample{Key: fmt.Sprint(keysAndValues[i]), Value: v})
	}
	return r
}

// ingest makes readings durable.
func (p *plant) ingest(id string, readings ...entity.Reading) {
	p.t.Helper()
	if err := ingest(p.t.Context(), p.rt, id, readings...); err != nil {
		p.t.Fatal(err)
	}
}

func ingest(ctx context.Context, rt *entity.Runtime, id string, readings ...entity.Reading) error {
	done := make(chan error, 1)
	if err := rt.Ingest(ctx, id, readings, 0, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

// tick sets the clock to ts seconds after start, and waits until what is due is done.
func (p *plant) tick(ts float64) {
	p.t.Helper()
	p.clock.Store(start + int64(ts*1000))
	p.sync()
}

// story tells of all alarms of an entity that were not withdrawn, in the order of their
// times: rule:since/raised-cleared, in seconds after start.
func (p *plant) story(id string) string {
	p.t.Helper()
	items, err := p.rt.Items(p.t.Context(), entity.ItemsQuery{Kind: timeKind, From: part(id), To: after(part(id))})
	if err != nil {
		p.t.Fatal(err)
	}
	var list []string
	for _, it := range items {
		a, err := p.Alarm(p.t.Context(), string(it.Body))
		if err != nil {
			p.t.Fatal(err)
		}
		s := fmt.Sprintf("%s:%s/%s-", a.Rule, seconds(a.Since), seconds(a.Raised))
		if !a.Open() {
			s += seconds(a.Cleared)
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

func seconds(ts int64) string { return fmt.Sprint(float64(ts-start) / 1000) }

// expect checks the story of an entity.
func (p *plant) expect(id, want string) {
	p.t.Helper()
	p.sync()
	if got := p.story(id); got != want {
		p.t.Errorf("the alarms of %s are %q, want %q", id, got, want)
	}
}

// alarms returns all alarms of an entity, also those withdrawn, the first one first.
func (p *plant) alarms(id string) []Alarm {
	p.t.Helper()
	list, _, err := p.Alarms(p.t.Context(), Query{Entity: id})
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range list {
		full, err := p.Alarm(p.t.Context(), list[i].ID)
		if err != nil {
			p.t.Fatal(err)
		}
		list[i] = full
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}
