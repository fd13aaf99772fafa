package behavior

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/owner"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// Config configures a Service. The zero value has sensible defaults.
type Config struct {
	// Prefix is the prefix of the sources of origins, and the kind of the items in which states are
	// kept. Services of one runtime must have different prefixes. Defaults to "behavior".
	Prefix string
	// Runners is how many entities a behavior handles at the same time. Defaults to 4; at most
	// MaxRunners.
	Runners int
	// Gather is how long decisions wait for others to become durable in the same commit. Defaults
	// to 5 ms.
	Gather time.Duration
	// SaveEvery is how often progress is made durable while nothing is decided. Changes after that
	// place are handled again at the next start. Defaults to a second.
	SaveEvery time.Duration
	// RetryMin and RetryMax bound the wait before a behavior restarts after an error of the
	// runtime; the wait doubles from RetryMin to RetryMax. They default to 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// CacheBytes bounds the memory of each behavior for cached entities. Defaults to 16 MiB.
	CacheBytes int
	// Logger gets what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger

	now   func() int64   // milliseconds since the epoch; tests have their own
	later func(f func()) // calls f after endPatience; tests have their own
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "behavior"
	}
	if c.Runners <= 0 {
		c.Runners = 4
	}
	c.Runners = min(c.Runners, MaxRunners)
	for _, d := range []struct {
		field *time.Duration
		def   time.Duration
	}{
		{&c.Gather, 5 * time.Millisecond},
		{&c.SaveEvery, time.Second},
		{&c.RetryMin, 100 * time.Millisecond},
		{&c.RetryMax, 5 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.def
		}
	}
	c.RetryMax = max(c.RetryMin, c.RetryMax)
	if c.CacheBytes <= 0 {
		c.CacheBytes = 16 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.now == nil {
		c.now = func() int64 { return time.Now().UnixMilli() }
	}
	if c.later == nil {
		c.later = func(f func()) { time.AfterFunc(endPatience, f) }
	}
	return c
}

// Service runs behaviors on an entity runtime. Make it with Open. Its methods are safe for
// concurrent use.
//
// Each behavior has a goroutine of its own, which follows the changes from the place that it has
// reached: a behavior that is slow, or waits for the disk, does not delay others.
type Service struct {
	rt   *entity.Runtime
	cfg  Config
	seed maphash.Seed

	change sync.Mutex // held while a behavior is registered or removed
	mu     sync.Mutex
	list   map[string]*behavior // guarded by mu
	closed bool                 // guarded by mu
}

// behavior is a registered behavior.
type behavior struct {
	s       *Service
	spec    Spec
	settled bool
	origin  string // prefix:name@version
	origins string // prefix:name@, the common prefix of all versions
	began   int64

	ctx    context.Context //nolint:containedctx // the behavior's own life
	cancel context.CancelFunc
	ended  chan struct{}
	calls  owner.Calls[*follower]
	count  *counters // of all versions since the service was opened
	failed []Failure // the newest first; owned by the behavior's goroutine
	status atomic.Pointer[Status]
}

type counters struct {
	runs, failures, effects, refused, missed atomic.Uint64
	pending, committed, waiting              atomic.Int64
}

// Open returns a service without behaviors. Close it before the runtime.
func Open(rt *entity.Runtime, cfg Config) *Service {
	return &Service{rt: rt, cfg: cfg.withDefaults(), seed: maphash.MakeSeed(), list: make(map[string]*behavior)}
}

// Register starts a behavior, replacing the one of its name. It continues where that one, or the
// one of an earlier process, stopped; the first time it begins with what is committed from now on.
// A behavior that is switched off stays off, unless it was switched off because of failures and now
// has another version. It returns an error that wraps [entity.ErrInvalid] (see Spec.Check),
// ErrLimit, ErrClosed, or one of the store.
func (s *Service) Register(ctx context.Context, spec Spec) error {
	if err := spec.Check(); err != nil {
		return fmt.Errorf("behavior: %w", err)
	}
	if spec.Version == 0 {
		spec.Version = 1
	}
	spec.Keys = slices.Clone(spec.Keys)
	s.change.Lock()
	defer s.change.Unlock()
	s.mu.Lock()
	old, n, closed := s.list[spec.Name], len(s.list), s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case old == nil && n >= MaxBehaviors:
		return ErrLimit
	}
	b := &behavior{s: s, spec: spec, settled: spec.settled(), ended: make(chan struct{}), calls: make(owner.Calls[*follower]), count: new(counters), began: s.cfg.now()}
	b.origins = s.cfg.Prefix + ":" + spec.Name + "@"
	b.origin = fmt.Sprintf("%s%d", b.origins, spec.Version)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if old != nil {
		if err := old.stop(ctx); err != nil {
			return err
		}
		b.count = old.count
	}
	if err := b.start(ctx); err != nil {
		b.cancel()
		s.mu.Lock()
		delete(s.list, spec.Name)
		s.mu.Unlock()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[spec.Name] = b
	if s.closed {
		b.cancel()
	}
	return nil
}

// start loads what is stored and starts the behavior's goroutine.
func (b *behavior) start(ctx context.Context) error {
	p, err := b.load(ctx)
	if err != nil {
		return err
	}
	items, err := b.s.rt.Items(ctx, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: b.key(keyFailures), To: b.key(keyFailures) + "\x00", Limit: 1})
	if err != nil {
		return fmt.Errorf("failures of behavior %q: %w", b.spec.Name, err)
	}
	if len(items) > 0 {
		if err := json.Unmarshal(items[0].Body, &b.failed); err != nil {
			return fmt.Errorf("failures of behavior %q: %w", b.spec.Name, err)
		}
	}
	b.publish(p)
	var f *follower
	if p.Off == "" {
		if f, err = b.begin(p); err != nil {
			return err
		}
	}
	go b.run(f, p)
	return nil
}

// run follows the changes until the behavior is stopped, and restarts when the runtime fails. f is
// nil if the behavior is off.
func (b *behavior) run(f *follower, p place) {
	defer close(b.ended)
	delay := b.s.cfg.RetryMin
	for b.ctx.Err() == nil {
		if f == nil {
			if !b.wait(&p) {
				return
			}
		} else {
			began := time.Now()
			err := f.follow()
			f.end(err)
			p, f = f.place, nil
			if b.ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, entity.ErrClosed) {
				return
			}
			if time.Since(began) > b.s.cfg.RetryMax {
				delay = b.s.cfg.RetryMin
			}
			if err == nil { // it was switched off
				continue
			}
			b.anew(err, &delay)
			p.Off = "" // what is stored counts
		}
		for f == nil && p.Off == "" && b.ctx.Err() == nil {
			stored, err := b.load(b.ctx)
			if err == nil {
				if p = stored; p.Off == "" {
					f, err = b.begin(p)
				}
			}
			if err != nil {
				b.anew(err, &delay)
			}
		}
	}
}

// anew waits before the behavior restarts.
func (b *behavior) anew(why error, delay *time.Duration) {
	b.s.cfg.Logger.LogAttrs(b.ctx, slog.LevelWarn, "a behavior begins anew from the place that is durable",
		slog.String("behavior", b.spec.Name), slog.Any("error", why), slog.Duration("after", *delay))
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	go func() { // calls are refused meanwhile
		for {
			select {
			case c := <-b.calls:
				c.Answer(fmt.Errorf("behavior %q begins anew: %w", b.spec.Name, why))
			case <-ctx.Done():
				return
			}
		}
	}()
	_ = pause.For(ctx, *delay) // the end is found by the caller
	*delay = min(2**delay, b.s.cfg.RetryMax)
}

// wait handles calls while the behavior is off, until it is on. It reports false when the behavior
// is stopped.
func (b *behavior) wait(p *place) bool {
	for p.Off != "" {
		select {
		case c := <-b.calls:
			off := &follower{b: b, place: *p}
			c.Answer(c.Run(c.Context, off))
			*p = off.place
		case <-b.ctx.Done():
			return false
		}
	}
	return true
}

// stop ends the behavior and waits for that.
func (b *behavior) stop(ctx context.Context) error {
	b.cancel()
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop behavior %q: %w", b.spec.Name, context.Cause(ctx))
	}
}

// Remove ends a behavior and deletes its states and its place. What it has written stays. If no
// behavior of this name is registered, Remove deletes what an earlier one has left, and returns
// ErrNotFound.
func (s *Service) Remove(ctx context.Context, name string) error {
	s.change.Lock()
	defer s.change.Unlock()
	b, err := s.find(name)
	if err != nil {
		left := &behavior{s: s, spec: Spec{Name: name}}
		return cmp.Or(left.clear(ctx), err)
	}
	if err := b.stop(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.list, name)
	s.mu.Unlock()
	return b.clear(ctx)
}

// Close ends all behaviors: decisions are made durable, and effects not carried out yet are carried
// out at the next start.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	list := slices.Collect(maps.Values(s.list))
	s.mu.Unlock()
	for _, b := range list {
		b.cancel()
	}
	for _, b := range list {
		if err := b.stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Switch switches a behavior on or off, and returns when that is durable. A behavior that is
// switched on begins with what is committed from then on. It returns ErrNotFound, or an error of
// the store.
func (s *Service) Switch(ctx context.Context, name string, on bool) error {
	b, err := s.find(name)
	if err != nil {
		return err
	}
	return b.do(ctx, func(ctx context.Context, f *follower) error {
		p := f.place
		if on && p.Off == "" || !on && p.Off == OffDisabled {
			return nil
		}
		p.Off, p.InRow, p.Cursor = OffDisabled, 0, f.position
		if on {
			head, err := b.head(ctx)
			if err != nil {
				return err
			}
			p.Off, p.Cursor = "", head
		}
		if f.feed != nil {
			f.place = p
			f.moved = true
			if err := f.commit(); err != nil { // the follower ends after that
				return err
			}
			b.publish(f.place)
			return nil
		}
		if err := b.store(ctx, &p); err != nil {
			return err
		}
		f.place = p
		b.publish(p)
		return nil
	})
}

// Disable switches a behavior off before it is registered: Register then finds it switched off. For
// a registered behavior it is Switch.
func (s *Service) Disable(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("behavior: %w", err)
	}
	s.change.Lock()
	defer s.change.Unlock()
	if _, err := s.find(name); err == nil {
		return s.Switch(ctx, name, false)
	}
	b := &behavior{s: s, spec: Spec{Name: name}}
	p, err := b.load(ctx)
	if err != nil || p.Off == OffDisabled {
		return err
	}
	p.Off, p.InRow = OffDisabled, 0
	return b.store(ctx, &p)
}

// store makes a place durable while nothing follows the changes.
func (b *behavior) store(ctx context.Context, p *place) error {
	text, err := json.Marshal(p)
	if err == nil {
		err = b.s.rt.PutItems(ctx, []entity.Item{b.item(b.key(keyPlace), text)})
	}
	if err != nil {
		return fmt.Errorf("place of behavior %q: %w", b.spec.Name, err)
	}
	return nil
}

// do runs f on the behavior's goroutine and waits for it.
func (b *behavior) do(ctx context.Context, f func(context.Context, *follower) error) error {
	return b.calls.Do(ctx, b.ended, ErrClosed, f)
}

func (s *Service) find(name string) (*behavior, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.list[name]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("behavior %.64q: %w", name, ErrNotFound)
}

// Status returns the status of a behavior, or ErrNotFound.
func (s *Service) Status(name string) (Status, error) {
	b, err := s.find(name)
	if err != nil {
		return Status{}, err
	}
	return b.now(), nil
}

// List returns the status of all behaviors, by name.
func (s *Service) List() []Status {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.list))
	s.mu.Unlock()
	all := make([]Status, 0, len(list))
	for _, b := range list {
		all = append(all, b.now())
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// State returns the state that a behavior has for an entity, nil for none. It returns ErrNotFound,
// or an error of the store. The most recent decisions may not be in it yet.
func (s *Service) State(ctx context.Context, name, id string) ([]byte, error) {
	b, err := s.find(name)
	if err != nil {
		return nil, err
	}
	key := b.stateKey(id)
	items, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: s.cfg.Prefix, From: key, To: key + "\x00", Limit: 1})
	if err != nil || len(items) == 0 {
		return nil, err
	}
	_, state := splitState(items[0].Body)
	return state, nil
}

// Sync returns when a behavior has handled everything that was committed before the call, and the
// effects are carried out. It returns at once if the behavior is off.
func (s *Service) Sync(ctx context.Context, name string) error {
	b, err := s.find(name)
	if err != nil {
		return err
	}
	for {
		done := make(chan error, 1)
		err := b.do(ctx, func(ctx context.Context, f *follower) error {
			if f.feed == nil {
				done <- nil
				return nil
			}
			head, err := b.head(ctx)
			f.waits = append(f.waits, wait{cursor: head, reached: head == f.position, done: done})
			return err
		})
		if err != nil {
			return err
		}
		select {
		case err := <-done:
			if !errors.Is(err, errAnew) {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// head returns the cursor of the newest change.
func (b *behavior) head(ctx context.Context) (string, error) {
	sub, err := b.s.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return "", err
	}
	defer sub.Close()
	return sub.Cursor(), nil
}

// publish publishes the behavior's status, for Status. It takes the counters as well, so that a
// failure is counted and listed at once.
func (b *behavior) publish(p place) {
	old := b.status.Load()
	st := &Status{Name: b.spec.Name, Version: b.spec.Version, Off: p.Off, InRow: p.InRow}
	st.Runs, st.Failures, st.Missed = b.count.runs.Load(), b.count.failures.Load(), b.count.missed.Load()
	st.Effects, st.Refused, st.Pending = b.count.effects.Load(), b.count.refused.Load(), b.count.pending.Load()
	if old != nil && len(old.Failed) > 0 && len(b.failed) > 0 && len(old.Failed) == len(b.failed) && old.Failed[0] == b.failed[0] {
		st.Failed = old.Failed
	} else {
		st.Failed = slices.Clone(b.failed)
	}
	b.status.Store(st)
}

// now returns the published status with the present lag.
func (b *behavior) now() Status {
	st := *b.status.Load()
	if b.count.waiting.Load() > 0 {
		st.Lag = time.Duration(max(0, b.s.cfg.now()-b.count.committed.Load())) * time.Millisecond
	}
	return st
}

// isA reports whether a type is another or extends it.
func (s *Service) isA(typ, of string) bool {
	if typ == "" || typ == of {
		return typ != ""
	}
	t, err := s.rt.ResolvedType(typ)
	return err == nil && t.IsA[of]
}
