package mapping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/owner"
)

// Kinds of the documents that a service keeps.
const (
	docKind   = "mapping"       // a mapping, under its name
	stateKind = "mapping-state" // where it stands
	placeID   = "place"         // the cursor up to which all is written
	numbersID = "numbers"       // which sequences of outputs that are Again are used up
	refusedID = "refused"       // which mappings there was no room for
	shortID   = "short"         // which of those in force there was no room for what they keep of
)

// Config sets up a Service. The zero value is a sane one.
type Config struct {
	// SaveEvery is how often the place that was reached is made durable. What
	// came after it is gone through again at the next start. Defaults to a
	// second.
	SaveEvery time.Duration
	// RetryMin and RetryMax bound the wait before the service begins anew after
	// the runtime has failed it, which doubles from the one to the other. Default
	// to 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// Logger takes what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger

	most       int // bytes of all mappings; MaxAllBytes except in tests
	mostValues int // bytes of what they keep of their sources; MaxValueBytes except in tests
}

func (c Config) withDefaults() Config {
	if c.SaveEvery <= 0 {
		c.SaveEvery = time.Second
	}
	if c.RetryMin <= 0 {
		c.RetryMin = 100 * time.Millisecond
	}
	if c.RetryMax <= 0 {
		c.RetryMax = 5 * time.Second
	}
	c.RetryMax = max(c.RetryMin, c.RetryMax)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.most == 0 {
		c.most = MaxAllBytes
	}
	if c.mostValues == 0 {
		c.mostValues = MaxValueBytes
	}
	return c
}

// Service runs mappings on an entity runtime: it keeps them, follows the
// committed changes, and writes what they compute as readings of the targets,
// each with the mapping, its version and the number of the change that it comes
// from. Make it with Open. Its methods are safe for concurrent use.
//
// One goroutine follows the changes and another owns the engine, so that the
// order of everything is that of the commits. The place that is reached is made
// durable behind what was written; after a crash the changes since are gone
// through again, and what the targets' histories do not have of it is written. So
// nothing is missing, and nothing is applied twice.
//
// A value that a mapping writes is a reading like any other, with its own commit:
// others see it a few milliseconds after its sources.
type Service struct {
	rt     *entity.Runtime
	cfg    Config
	reader Reader // replaced in tests, on the engine's goroutine

	calls  owner.Calls[*follower]
	looks  owner.Calls[*follower] // those that change nothing, and can be done while nothing can be written
	ctx    context.Context        //nolint:containedctx // the service's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup
	count  counters

	numbers numbers          // owned by the engine's goroutine
	now     func() time.Time // replaced in tests, on the engine's goroutine
}

// Installed is a mapping as the service keeps it. Its Statement is nil if the stored text cannot be
// read, or if there was no room for it in MaxAllBytes when the service was opened: [Service.Text]
// reads the text.
type Installed struct {
	Mapping
	// ETag is the version for conditions.
	ETag string
	// Updated is when it was installed, in milliseconds since the epoch.
	Updated int64
	// Problem says why it is not in force, and is "" when it is.
	Problem string

	bytes   int  // what it takes of MaxAllBytes
	refused bool // there was no room for the bytes
}

// taken returns what a mapping takes of MaxAllBytes, 0 for none.
func (in *Installed) taken() int {
	if in == nil || in.refused {
		return 0
	}
	return in.bytes
}

// stored is the body of a mapping's document.
type stored struct {
	Statement string `json:"statement"`
	// Language is the version of the statement's language. In the one before, 0, the
	// patterns had * and ?.
	Language int `json:"language"`
}

const language = 1

func (s *stored) parse() (*Statement, error) { return parse(s.Statement, s.Language < language) }

// Open starts the mappings that the runtime's store has. It returns when they
// are loaded; what was committed since they last ran is then gone through. On a full
// disk they can be looked at, and run once there is room. Close the service before the
// runtime.
func Open(ctx context.Context, rt *entity.Runtime, cfg Config) (*Service, error) {
	s := &Service{rt: rt, cfg: cfg.withDefaults(), reader: &runtimeReader{rt}, calls: make(owner.Calls[*follower]), looks: make(owner.Calls[*follower]), now: time.Now}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	f, err := s.begin(ctx)
	if err != nil && !errors.Is(err, entity.ErrFull) {
		s.cancel()
		return nil, fmt.Errorf("open the mappings: %w", err)
	}
	s.wg.Go(func() { s.run(f, err) })
	return s, nil
}

// Close ends the service: it makes the place durable that it has reached and
// returns. What was committed since is gone through at the next start.
func (s *Service) Close(ctx context.Context) error {
	s.cancel()
	if err := owner.Wait(ctx, &s.wg); err != nil {
		return fmt.Errorf("close the mappings: %w", err)
	}
	return nil
}

// do runs f on the engine's goroutine and waits for it.
func (s *Service) do(ctx context.Context, f func(context.Context, *follower) error) error {
	return s.calls.Do(ctx, s.ctx.Done(), ErrClosed, f)
}

// look is do of what changes nothing.
func (s *Service) look(ctx context.Context, f func(context.Context, *follower) error) error {
	return s.looks.Do(ctx, s.ctx.Done(), ErrClosed, f)
}

// Check returns the error that Put would for a mapping under a name, and changes
// nothing.
func (s *Service) Check(ctx context.Context, name string, statement *Statement) error {
	if err := CheckName(name); err != nil {
		return err
	}
	_, kept, err := statement.canonical()
	if err != nil {
		return err
	}
	return s.look(ctx, func(ctx context.Context, f *follower) error { return f.check(ctx, name, kept, kept.bytes()) })
}

// Put puts a mapping in force, in the place of the one of the same name, and
// keeps it. It returns once that is durable and the values of now are on their
// way; once it is durable, the end of ctx does not stop it. condition is as for
// [entity.Runtime.PutDoc]. A statement that is in force under the name already stays
// as it is, with its version.
//
// It returns ErrTaken, a CycleError, ErrLimit, [entity.ErrConflict] where the
// condition does not hold, or [entity.ErrInvalid] for a name that cannot be and for a
// statement whose canonical form has more than MaxStatementBytes.
func (s *Service) Put(ctx context.Context, name string, statement *Statement, condition string) (Installed, error) {
	if err := CheckName(name); err != nil {
		return Installed{}, err
	}
	text, kept, err := statement.canonical()
	if err != nil {
		return Installed{}, fmt.Errorf("mapping %q: %w", name, err)
	}
	body, err := json.Marshal(stored{text, language})
	if err != nil {
		return Installed{}, fmt.Errorf("mapping %q: %w", name, err)
	}
	size := kept.bytes()
	var put Installed
	err = s.do(ctx, func(ctx context.Context, f *follower) error {
		if in := f.installed[name]; in != nil && in.Problem == "" && in.Statement.String() == text {
			put = *in
			return entity.CheckCondition(condition, in.ETag)
		}
		if err := f.check(ctx, name, kept, size); err != nil {
			return err
		}
		doc, err := s.rt.PutDoc(ctx, docKind, name, body, condition)
		if err != nil {
			return fmt.Errorf("mapping %q: %w", name, err)
		}
		put = Installed{Mapping: Mapping{name, doc.Version, kept}, ETag: doc.ETag(), Updated: doc.Updated, bytes: size}
		// It is durable: whether who has put it still waits makes no difference.
		if err := f.install(s.ctx, put); err != nil {
			return err
		}
		f.retry(s.ctx) // it may take less than the one before
		return nil
	})
	return put, err
}

// Delete takes a mapping out of force and forgets it. What it has written stays.
// Others for which there was no room are put in force if there is now. It returns ErrNotFound, or [entity.ErrConflict] where the condition does not
// hold.
func (s *Service) Delete(ctx context.Context, name, condition string) error {
	return s.do(ctx, func(ctx context.Context, f *follower) error {
		if _, err := f.find(name); err != nil {
			return err
		}
		if err := s.rt.DeleteDoc(ctx, docKind, name, condition); err != nil {
			return fmt.Errorf("mapping %q: %w", name, err)
		}
		f.engine.Remove(name)
		f.forget(name)
		f.retry(s.ctx)
		return nil
	})
}

// Get returns a mapping, or ErrNotFound.
func (s *Service) Get(ctx context.Context, name string) (got Installed, err error) {
	err = s.look(ctx, func(ctx context.Context, f *follower) error {
		in, err := f.find(name)
		if err == nil {
			got = *in
		}
		return err
	})
	return got, err
}

// Text returns the statement of a mapping in its canonical form, also of one whose Statement is nil;
// what cannot be read it returns as it is stored. The error is ErrNotFound, [entity.ErrNotFound] or
// one of the store.
func (s *Service) Text(ctx context.Context, name string) (string, error) {
	in, err := s.Get(ctx, name)
	if err != nil {
		return "", err
	}
	if in.Statement != nil {
		return in.Statement.String(), nil
	}
	doc, err := s.rt.Doc(ctx, docKind, name)
	if err != nil {
		return "", fmt.Errorf("mapping %q: %w", name, err)
	}
	var body stored
	if json.Unmarshal(doc.Body, &body) != nil {
		return string(doc.Body), nil //nolint:nilerr // what cannot be read is shown as it is kept
	}
	statement, err := body.parse()
	if err != nil {
		return body.Statement, nil //nolint:nilerr // likewise
	}
	return statement.String(), nil
}

// List returns all mappings, by name.
func (s *Service) List(ctx context.Context) (list []Installed, err error) {
	err = s.look(ctx, func(ctx context.Context, f *follower) error {
		for _, name := range slices.Sorted(maps.Keys(f.installed)) {
			list = append(list, *f.installed[name])
		}
		return nil
	})
	return list, err
}

// Explain tells what a mapping is doing. It returns ErrNotFound for none of the
// name.
func (s *Service) Explain(ctx context.Context, name string) (ex Explanation, err error) {
	err = s.look(ctx, func(ctx context.Context, f *follower) error {
		in, err := f.find(name)
		if err == nil {
			ex = f.engine.explain(*in)
		}
		return err
	})
	return ex, err
}

// Recompute computes what a mapping makes of the history of its sources, with
// from <= TS < to in milliseconds since the epoch, writes what differs from what
// is there, and returns how many values that were. It is how a new mapping gets
// a past. Other mappings go on meanwhile. Fields over a group have no past: of
// them only the value of now is looked at.
func (s *Service) Recompute(ctx context.Context, name string, from, to int64) (written int, err error) {
	var fields int
	err = s.do(ctx, func(ctx context.Context, f *follower) error {
		m := f.engine.mappings[name]
		if m == nil {
			return fmt.Errorf("mapping %q: %w", name, ErrNotFound)
		}
		fields = len(m.fields)
		return nil
	})
	for i := 0; i < fields && err == nil; i++ {
		left, tries := interval{from, to}, 0
		for left.from < left.to && err == nil {
			var next int64
			var n int
			var landed chan error
			err = s.do(ctx, func(ctx context.Context, f *follower) (err error) {
				next, n, landed, err = f.recompute(ctx, name, i, left, tries < maxPostponed)
				return err
			})
			if err == nil {
				err = s.await(ctx, landed)
			}
			switch {
			case errors.Is(err, errAnew): // it may not have been written
				err = nil
			case err == nil && next == left.from:
				tries++
			case err == nil:
				left.from, written, tries = next, written+n, 0
			}
		}
	}
	return written, err
}

// await returns what a channel of the follower gets.
func (s *Service) await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.ctx.Done():
		return ErrClosed
	}
}

// Sync returns when everything that was committed before the call has been gone
// through, and what came of it is durable. Of mappings of mappings, call it once
// for each step.
func (s *Service) Sync(ctx context.Context) error {
	for {
		var reached <-chan error
		err := s.do(ctx, func(ctx context.Context, f *follower) (err error) {
			reached, err = f.sync(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if err := s.await(ctx, reached); !errors.Is(err, errAnew) {
			return err
		}
	}
}

// run follows the changes until the service is closed, and begins anew when the
// runtime fails it. err is why it has to do so at once.
func (s *Service) run(f *follower, err error) {
	defer s.cancel()
	owner.Rerun(s.ctx, s.cfg.RetryMin, s.cfg.RetryMax, err, func() error {
		err := f.follow()
		f.end()
		return err
	}, func(why error, delay time.Duration) error {
		s.count.restarts.Add(1)
		s.cfg.Logger.LogAttrs(s.ctx, slog.LevelWarn, "mappings begin anew from the place that is durable", slog.Any("error", why), slog.Duration("after", delay))
		if err := s.standBy(f, why, delay); err != nil {
			return err
		}
		fresh, err := s.begin(s.ctx)
		if fresh != nil {
			f = fresh
		}
		return err
	})
}

// standBy waits. Meanwhile the follower that has ended answers who only looks. The others
// wait as well, but on a full disk, where that may be long.
func (s *Service) standBy(f *follower, why error, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	calls := s.calls
	if !errors.Is(why, entity.ErrFull) {
		calls = nil
	}
	for {
		select {
		case c := <-s.looks:
			f.answer(c)
		case c := <-calls:
			c.Answer(fmt.Errorf("the mappings begin anew: %w", why))
		case <-timer.C:
			return nil
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}
