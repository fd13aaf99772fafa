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
	stateKind = "mapping-state" // its progress
	placeID   = "place"         // the cursor up to which everything is written
	numbersID = "numbers"       // the used-up sequences of outputs that are Again
	refusedID = "refused"       // mappings for which there was no room
	shortID   = "short"         // mappings in force that lacked room for their values
)

// Config configures a Service. The zero value has sensible defaults.
type Config struct {
	// SaveEvery is how often progress is made durable. Changes after that place are processed again
	// at the next start. Defaults to a second.
	SaveEvery time.Duration
	// RetryMin and RetryMax bound the wait before the service restarts after an error of the
	// runtime; the wait doubles from RetryMin to RetryMax. They default to 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// Logger gets what an operator should know. Defaults to slog.Default.
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
// One goroutine follows the changes and another owns the engine, so that everything happens in the
// order of the commits. Progress is made durable after the values; after a crash the changes since
// then are processed again, and the values that the targets' histories lack are written. So nothing
// is missing, and nothing is applied twice.
//
// A value that a mapping writes is a reading like any other, with its own commit:
// others see it a few milliseconds after its sources.
type Service struct {
	rt     *entity.Runtime
	cfg    Config
	reader Reader // replaced in tests, on the engine's goroutine

	calls  owner.Calls[*follower]
	looks  owner.Calls[*follower] // calls that change nothing, and work even while nothing can be written
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
	// Problem says why the mapping is not in force, and is "" if it is.
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

// Open starts the mappings in the runtime's store. It returns when they are loaded; what was
// committed since they last ran is then processed. On a full disk they can be read, and run once
// there is room. Close the service before the runtime.
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

// Close ends the service: it makes its progress durable, and returns. What was committed since is
// processed at the next start.
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

// look is do for functions that change nothing.
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

// Put puts a mapping in force, replacing the one of the same name, and stores it. It returns once
// that is durable and the present values are on their way; once the mapping is durable, the end of
// ctx does not stop it. condition is as for [entity.Runtime.PutDoc]. If the same statement is
// already in force under the name, it stays as it is, with its version.
//
// It returns ErrTaken, a CycleError, ErrLimit, [entity.ErrConflict] if condition does not hold, or
// [entity.ErrInvalid] for an invalid name or a statement whose canonical form has more than
// MaxStatementBytes.
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
		// The mapping is durable, so it does not matter whether the caller still waits.
		if err := f.install(s.ctx, put); err != nil {
			return err
		}
		f.retry(s.ctx) // it may take less than the one before
		return nil
	})
	return put, err
}

// Delete deletes a mapping. What it has written stays. Other mappings for which there was no room
// are put in force if there now is. It returns ErrNotFound, or [entity.ErrConflict] if condition
// does not hold.
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

// Text returns the statement of a mapping in its canonical form, even if its Statement is nil; a
// statement that cannot be read is returned as it is stored. The error is ErrNotFound,
// [entity.ErrNotFound] or one of the store.
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

// Explain describes the state of a mapping. It returns ErrNotFound if there is no such mapping.
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

// Recompute computes the values of a mapping from the history of its sources, with from <= TS < to
// in milliseconds since the epoch, writes those that differ from the stored ones, and returns how
// many it wrote. Use it to give a new mapping a past. Other mappings keep running meanwhile. Fields
// over a group have no past: only their present value is compared.
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

// await waits for a value from a channel of the follower and returns it.
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

// Sync returns when everything that was committed before the call has been processed, and the
// results are durable. For mappings of mappings, call it once for each step.
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

// run follows the changes until the service is closed, and restarts when the runtime fails. err, if
// not nil, is why it has to restart at once.
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

// standBy waits. Meanwhile the follower that has ended answers calls that only read. Other calls
// wait as well, except on a full disk, where that may take long.
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
