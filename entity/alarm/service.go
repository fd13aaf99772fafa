package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/owner"
)

// Config configures a Service. The zero value has sensible defaults.
type Config struct {
	// SaveEvery is how often progress is made durable while no alarm is raised. Changes after that
	// place are processed again at the next start. Defaults to a second.
	SaveEvery time.Duration
	// Gather is how long alarms wait for others to become durable in the same commit. If commits
	// take long, they wait longer, up to a quarter of a second, so that commits take at most a
	// tenth of the time. Defaults to 5 ms.
	Gather time.Duration
	// RetryMin and RetryMax bound the wait before the service restarts after an error of the
	// runtime; the wait doubles from RetryMin to RetryMax. They default to 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// Retention is how long alarms are kept after they have cleared. Late readings that are
	// older do not change alarms, whatever MaxLateness is. Defaults to DefaultRetention.
	Retention time.Duration
	// CacheBytes bounds the memory for cached values of entities without alarms. Defaults to
	// DefaultCacheBytes.
	CacheBytes int
	// Logger gets what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger

	// Encode makes the body of a delivery to a webhook. Defaults to the JSON of the Event.
	Encode func(*Event) ([]byte, error)

	retry func(attempts int) time.Duration // the wait after an attempt; tests have their own
	now   func() int64                     // milliseconds since the epoch; tests have their own
	steps steps                            // tests have smaller ones
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		def   time.Duration
	}{
		{&c.SaveEvery, time.Second},
		{&c.Gather, 5 * time.Millisecond},
		{&c.RetryMin, 100 * time.Millisecond},
		{&c.RetryMax, 5 * time.Second},
		{&c.Retention, DefaultRetention},
	} {
		if *d.field <= 0 {
			*d.field = d.def
		}
	}
	c.RetryMax = max(c.RetryMin, c.RetryMax)
	if c.CacheBytes <= 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Encode == nil {
		c.Encode = func(ev *Event) ([]byte, error) { return json.Marshal(ev) }
	}
	if c.retry == nil {
		c.retry = defaultRetry
	}
	if c.steps == (steps{}) {
		c.steps = usualSteps()
	}
	if c.now == nil {
		c.now = func() int64 { return time.Now().UnixMilli() }
	}
	return c
}

// Service keeps rules and alarms on an entity runtime. Make it with Open. Its methods are
// safe for concurrent use.
//
// One goroutine follows the changes, and another owns the engine: it applies them, does what is due
// by the clock, and handles calls that change something. Calls that only read do so from the store.
type Service struct {
	rt        *entity.Runtime
	cfg       Config
	calls     owner.Calls[*engine] // what they decide is durable before they are answered
	ctx       context.Context      //nolint:containedctx // the service's own life
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	count     counters
	hub       *hub
	deletions *deletions
	sender    *sender
	rules     atomic.Pointer[[]Installed] // by name; nobody changes the slice
}

// Open starts the alarms of the runtime's store. It returns when the rules are loaded; what was
// committed since the alarms last ran is then processed. Close the service before the runtime.
func Open(ctx context.Context, rt *entity.Runtime, cfg Config) (*Service, error) {
	s := &Service{rt: rt, cfg: cfg.withDefaults(), calls: make(owner.Calls[*engine]), hub: newHub(), deletions: newDeletions()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.sender = newSender(s)
	// Who follows the events from now on has to know the last one, also where it begins later.
	at, err := readPlace(ctx, rt)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("open the alarms: %w", err)
	}
	s.hub.reset(at.Event)
	s.rules.Store(new([]Installed))
	f, err := s.begin(ctx)
	if err != nil && !errors.Is(err, entity.ErrFull) {
		s.cancel()
		return nil, fmt.Errorf("open the alarms: %w", err)
	}
	s.wg.Go(func() { s.run(f, err) })
	return s, nil
}

// Close ends the service: it makes its progress durable, and returns.
func (s *Service) Close(ctx context.Context) error {
	s.cancel()
	if err := owner.Wait(ctx, &s.wg); err != nil {
		return fmt.Errorf("close the alarms: %w", err)
	}
	return nil
}

// do runs f on the engine's goroutine and waits until its results are durable.
func (s *Service) do(ctx context.Context, f func(context.Context, *engine) error) error {
	return s.calls.Do(ctx, s.ctx.Done(), ErrClosed, f)
}

// run follows the changes until the service is closed, and restarts when the runtime fails. err, if
// not nil, is why it has to restart at once.
func (s *Service) run(f *follower, err error) {
	defer s.cancel()
	owner.Rerun(s.ctx, s.cfg.RetryMin, s.cfg.RetryMax, err, func() error {
		err := f.follow()
		f.end(err)
		return err
	}, func(why error, delay time.Duration) (err error) {
		s.count.restarts.Add(1)
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "alarms begin anew from the place that is durable", slog.Any("error", why), slog.Duration("after", delay))
		if err = s.standBy(why, delay); err == nil {
			f, err = s.begin(s.ctx)
		}
		return err
	})
}

// standBy waits, and refuses calls meanwhile.
func (s *Service) standBy(why error, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case c := <-s.calls:
			c.Answer(fmt.Errorf("the alarms begin anew: %w", why))
		case <-timer.C:
			return nil
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// PutRule puts a rule in force, replacing the one of its name, and returns once that is durable;
// the entities are examined after that. condition is as for [entity.Runtime.PutDoc]. If a
// condition, or the set of entities to which the rule applies, has changed, its open alarms clear
// (ByRule), and the new conditions raise new alarms; otherwise the alarms stay as they were raised.
//
// It returns an error that wraps [entity.ErrInvalid] (see Rule.Check), ErrLimit, or
// [entity.ErrConflict] if the condition does not hold.
func (s *Service) PutRule(ctx context.Context, r Rule, condition string) (in Installed, err error) {
	if err := r.Check(); err != nil {
		return Installed{}, err
	}
	r.Webhooks = slices.Clone(r.Webhooks)
	err = s.do(ctx, func(ctx context.Context, e *engine) (err error) {
		for _, name := range r.Webhooks {
			if e.sender.find(name) == nil {
				return fmt.Errorf("webhooks: %w: there is no webhook %.64q", entity.ErrInvalid, name)
			}
		}
		in, err = e.putRule(ctx, r, condition)
		return err
	})
	return in, err
}

// DeleteRule removes a rule. Its open alarms clear (ByRule). It returns ErrNotFound, or
// [entity.ErrConflict] if condition does not hold.
func (s *Service) DeleteRule(ctx context.Context, name, condition string) error {
	return s.do(ctx, func(ctx context.Context, e *engine) error { return e.deleteRule(ctx, name, condition) })
}

// Rules returns all rules, by name. The slice must not be changed.
func (s *Service) Rules() []Installed { return *s.rules.Load() }

// Rule returns a rule, or ErrNotFound.
func (s *Service) Rule(name string) (Installed, error) {
	list := s.Rules()
	if i, ok := slices.BinarySearchFunc(list, name, byName); ok {
		return list[i], nil
	}
	return Installed{}, fmt.Errorf("rule %.64q: %w", name, ErrNotFound)
}

// Acknowledge records that somebody has seen an alarm, and returns the alarm. An alarm that is
// already acknowledged does not change; a cleared one can be acknowledged, too.
func (s *Service) Acknowledge(ctx context.Context, id, by, note string) (Alarm, error) {
	return s.change(ctx, id, note, func(_ context.Context, e *engine, a *Alarm, _ *state) error {
		if a.Acknowledged != nil {
			return nil
		}
		was := a.prior()
		a.Acknowledged = &Mark{e.now(), by, note}
		return e.write(a, was, Transition{Kind: Acknowledged, By: by, Note: note})
	})
}

// Shelve shelves the alarms of an alarm's rule and entity for a time, at most MaxShelf: nobody is
// notified of them. It returns ErrCleared for an alarm that has cleared.
func (s *Service) Shelve(ctx context.Context, id string, d time.Duration, by, note string) (Alarm, error) {
	if d < time.Millisecond || d > MaxShelf {
		return Alarm{}, fmt.Errorf("for: %w: must be from 1ms to %v, not %v", entity.ErrInvalid, MaxShelf, d)
	}
	return s.change(ctx, id, note, func(_ context.Context, e *engine, a *Alarm, st *state) error {
		if st == nil {
			return fmt.Errorf("shelve: %w", ErrCleared)
		}
		was := a.prior()
		st.shelf = &Shelf{Mark{e.now(), by, note}, e.now() + d.Milliseconds()}
		a.Shelved = st.shelf
		e.touch(st)
		return e.write(a, was, Transition{Kind: Shelved, TS: 0, By: by, Note: note})
	})
}

// Unshelve is the reverse of Shelve.
func (s *Service) Unshelve(ctx context.Context, id, by, note string) (Alarm, error) {
	return s.change(ctx, id, note, func(_ context.Context, e *engine, a *Alarm, st *state) error {
		if st == nil || st.shelf == nil {
			return nil
		}
		was := a.prior()
		st.shelf, a.Shelved = nil, nil
		e.touch(st)
		return e.write(a, was, Transition{Kind: Unshelved, By: by, Note: note})
	})
}

// Clear ends an alarm whose condition no longer holds although the condition to clear does not hold
// yet. It returns ErrHolds while the condition of its rule holds, and ErrCleared for an alarm that
// has cleared.
func (s *Service) Clear(ctx context.Context, id, by, note string) (Alarm, error) {
	return s.change(ctx, id, note, func(ctx context.Context, e *engine, a *Alarm, st *state) error {
		if st == nil {
			return fmt.Errorf("clear: %w", ErrCleared)
		}
		known, _, err := e.know(ctx, a.Entity)
		if err != nil {
			return err
		}
		if known == nil { // the entity has gone, and that has cleared it
			last, err := e.ledger.alarm(ctx, a.ID)
			if err == nil {
				*a = *last
			}
			return err
		}
		now := e.now()
		st.s.env.Now = now
		if st.late != nil || st.rule.raise.Match(&st.s.frame, &st.s.frame.env) {
			return fmt.Errorf("clear: %w", ErrHolds)
		}
		at := now
		if !st.rule.live {
			at = max(now, st.s.newest)
			st.s.turned = max(st.s.turned, at)
		}
		if err := e.clear(ctx, st, Transition{TS: at, By: by, Note: note}, ByOperator); err != nil {
			return err
		}
		last, err := e.ledger.alarm(ctx, a.ID)
		if err == nil {
			*a = *last
		}
		return err
	})
}

// change applies f to an alarm. st is its state while it is open.
func (s *Service) change(ctx context.Context, id, note string, f func(context.Context, *engine, *Alarm, *state) error) (changed Alarm, err error) {
	if len(note) > MaxNoteBytes {
		return Alarm{}, fmt.Errorf("note: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxNoteBytes, len(note))
	}
	err = s.do(ctx, func(ctx context.Context, e *engine) error {
		a, err := e.ledger.alarm(ctx, id)
		if err != nil {
			return err
		}
		var st *state
		if subject := e.cache.find(a.Entity); subject != nil && a.Open() {
			for _, x := range subject.states {
				if x.alarm == id {
					st = x
				}
			}
		}
		err = f(ctx, e, a, st)
		changed = *a
		return err
	})
	if err != nil {
		err = fmt.Errorf("alarm %.32q: %w", id, err)
	}
	return changed, err
}

// Sync returns when everything committed before the call, including the rules and late readings
// that existed then, has been processed and the results are durable.
func (s *Service) Sync(ctx context.Context) error {
	for {
		var reached chan error
		err := s.do(ctx, func(ctx context.Context, e *engine) (err error) {
			reached, err = e.wait(ctx)
			return err
		})
		if err != nil {
			return err
		}
		select {
		case err := <-reached:
			if !errors.Is(err, errAnew) {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// errAnew tells callers that wait for a place that the alarms have restarted before reaching it.
var errAnew = errors.New("the alarms begin anew")
