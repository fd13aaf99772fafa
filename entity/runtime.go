package entity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Runtime is the entity runtime. Make it with Open. Its methods are safe for
// concurrent use.
type Runtime struct {
	cfg   Config
	log   *slog.Logger
	store Store
	began time.Time
	count counters

	window    *window
	handles   *handles
	keys      *keyTable
	manager   actor.Ref[managerMessage]
	committer *committer
	loader    *loader
	hub       *hub
	graph     *graph
	claims    *claims
	clock     *clock
	tokens    *tokens
	commander *commander
	receivers *receivers
	presences *presences
	types     types
	lastLook  time.Duration // the constant, except in tests

	ctx    context.Context //nolint:containedctx // the runtime's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup // the committer and the acker

	gate     sync.RWMutex // held for reading by readers of the store
	shut     bool         // guarded by gate: the store is closed
	closing  sync.Once
	closeErr error
}

// Open starts the runtime: the Entity Manager at /entities in sys, and the goroutines that commit.
// Entities are started by their first reading or query.
//
// The store then belongs to the runtime, unless Open fails. Close the runtime before you shut down
// sys: then everything accepted is committed and acknowledged. In the opposite order, whatever has
// not reached the committer is refused with ErrStopped.
func Open(ctx context.Context, sys *actor.System, store Store, cfg Config) (*Runtime, error) {
	cfg = cfg.withDefaults()
	r := &Runtime{
		cfg: cfg, log: cfg.Logger, store: store, began: time.Now(),
		window: &window{size: cfg.WindowBytes, share: cfg.ShareBytes}, handles: newHandles(), keys: newKeyTable(cfg.Keys), graph: newGraph(), claims: newClaims(), tokens: newTokens(),
		lastLook: lastLook,
	}
	if r.log == nil {
		r.log = sys.Log()
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.hub = newHub(store.Info(), cfg.StreamBuffer, &r.count)
	r.committer, r.loader = newCommitter(r), newLoader(r)
	r.commander = newCommander(r)
	r.receivers = newReceivers(r.log, r.commander.kickOpen)
	last, err := r.recallTokens(ctx)
	if err == nil {
		r.clock = newClock(r.log, time.Now, last)
		err = r.loadTypes(ctx)
	}
	if err == nil {
		err = r.commander.recall(ctx)
	}
	r.presences = newPresences(r)
	if err == nil {
		err = r.presences.recall(ctx)
	}
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("open the entity runtime: %w", err)
	}
	r.manager, err = actor.TrySpawn(sys, managerName, func() *manager { return &manager{rt: r} },
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(10, time.Minute), actor.Backoff(10*time.Millisecond, 250*time.Millisecond)))
	if err != nil {
		r.cancel()
		return nil, fmt.Errorf("open the entity runtime: %w", err)
	}
	r.wg.Go(r.committer.Run)
	r.wg.Go(r.committer.Acknowledge)
	r.wg.Go(r.commander.Run)
	r.wg.Go(r.presences.Run)
	r.wg.Go(r.presences.Save)
	r.wg.Go(func() { r.graph.load(r) })
	return r, nil
}

// Ingest gives readings of one entity to the runtime, in order. It waits until the window has room
// for them and, if the entity's share of the window is used up, until some of that share is
// committed, which is how a source is slowed down; then it tells the entity and returns. It waits
// for nothing else. Readings that one goroutine ingests for an entity one after the other are
// accepted in that order.
//
// done is called exactly once, when all of the readings are durable (nil), or with the error for
// which none of them is kept: ErrTooManyKeys, ErrFailed, ErrStopped, ErrClosed or an error of the
// store. With ErrFull the outcome may be unknown: the readings wait until there is room, and are
// then kept. done is called on another goroutine, must not block, and may be nil. If Ingest returns
// an error, nothing is kept and done is never called: ErrInvalid, ErrFull, ErrBusy, ErrClosed, or the
// cause of ctx while waiting.
//
// size is roughly how many bytes the readings took as a payload; if they take more in memory, that
// is counted instead. From now on the readings belong to the runtime.
func (r *Runtime) Ingest(ctx context.Context, id string, readings []Reading, size int, done func(error)) error {
	return r.ingest(ctx, id, &delivery{readings: readings, done: done}, size)
}

// IngestOnce is Ingest for readings that may come a second time, if their source has not learned
// that they were kept. If the entity has recently accepted readings with the same Token (MaxOnce),
// these are a repetition: nothing is kept, and done is called with nil when what they repeat is
// durable.
func (r *Runtime) IngestOnce(ctx context.Context, id string, once Once, readings []Reading, size int, done func(error)) error {
	return r.ingest(ctx, id, &delivery{readings: readings, once: once, done: done}, size)
}

// IngestFrom is Ingest for readings that from has computed. If the entity has already accepted
// readings of that Source with the same or a greater Seq, these are a repetition: nothing is kept,
// and done is called with nil when what they repeat is durable. So a program that computes from a
// stream of changes, with the number of the change as Seq, may resume at an earlier change after a
// crash, and each result is still stored once.
func (r *Runtime) IngestFrom(ctx context.Context, id string, from Origin, readings []Reading, size int, done func(error)) error {
	return r.ingest(ctx, id, &delivery{readings: readings, origin: from, done: done}, size)
}

// IngestFor is IngestFrom for the entity that came to be at created, in milliseconds since the
// epoch, and for no other: if it has been deleted since, done is called with ErrNotFound, and no
// entity is created. The same happens if a later entity has the same id.
func (r *Runtime) IngestFor(ctx context.Context, id string, created int64, from Origin, readings []Reading, size int, done func(error)) error {
	return r.ingest(ctx, id, &delivery{readings: readings, origin: from, of: created, done: done}, size)
}

func (r *Runtime) ingest(ctx context.Context, id string, d *delivery, size int) error {
	err := CheckID(id)
	if err == nil {
		err = d.origin.check()
	}
	if err == nil {
		err = checkReadings(d.readings)
	}
	if err != nil {
		r.count.rejected.Add(uint64(len(d.readings)))
		return err
	}
	d.cost = max(int64(size), footprint(d.readings))
	if err := r.send(ctx, id, sourceOf(d.once.By, id), d); err != nil {
		return fmt.Errorf("ingest for %q: %w", id, err)
	}
	return nil
}

// send waits for room in the window and dispatches a delivery of a source.
func (r *Runtime) send(ctx context.Context, id string, from sourceKey, d *delivery) (err error) {
	n := uint64(len(d.readings))
	if d.source, err = r.window.acquire(ctx, from, d.cost, d.patient()); err != nil {
		r.count.rejected.Add(n)
		return err
	}
	if err := r.dispatch(ctx, id, d); err != nil {
		r.count.rejected.Add(n)
		r.window.release(d)
		return err
	}
	return nil
}

// dispatch sends a delivery to its entity. If dispatch returns an error the caller still owns the
// delivery, otherwise somebody else settles it.
func (r *Runtime) dispatch(ctx context.Context, id string, d *delivery) error {
	h, made := r.handles.find(id), false
	if h == nil {
		h, made = r.handles.replace(id, nil)
	}
	for {
		to, ok := h.add(d)
		switch {
		case !ok: // its actor has ended
			h, made = r.handles.replace(id, h)
			continue
		case made:
			if r.manager.TryTell(ctx, activate{h: h}) == nil {
				return nil
			}
			return r.recall(d, ErrClosed)
		case to.IsZero(): // the manager will tell it
			return nil
		case to.TryTell(ctx, d) == nil:
			return nil
		}
		if err := r.recall(d, ErrStopped); err == nil {
			return nil
		}
	}
}

// recall takes back a delivery that could not be told, and closes its handle. It returns why, or
// nil if somebody else has settled the delivery.
func (r *Runtime) recall(d *delivery, why error) error {
	mine := d.h.take(d)
	r.abandon(d.h, why)
	if !mine {
		return nil
	}
	return why
}

// abandon closes a handle and refuses the deliveries that were not taken.
func (r *Runtime) abandon(h *handle, why error) {
	left, wasLive := h.close()
	if wasLive {
		r.count.live.Add(-1)
	}
	for d := left; d != nil; {
		next := d.next
		r.reject(d, fmt.Errorf("entity %q: %w", h.id, why))
		d = next
	}
}

// reject settles a delivery that is not kept. The caller owns it.
func (r *Runtime) reject(d *delivery, err error) {
	r.count.rejected.Add(uint64(len(d.readings)))
	r.settle(d, err)
	r.window.release(d)
}

// settle calls done. If done panics, that must not end the goroutine on which all acknowledgements
// depend.
func (r *Runtime) settle(d *delivery, err error) {
	if d.done == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			r.log.LogAttrs(context.Background(), slog.LevelError, "done callback panicked",
				slog.String("entity", d.h.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	d.done(err)
}

// Write is Ingest that waits for the commit. If ctx ends during that wait, the outcome is unknown:
// the readings may still become durable.
func (r *Runtime) Write(ctx context.Context, id string, readings []Reading, size int) error {
	return r.WriteOnce(ctx, id, Once{}, readings, size)
}

// WriteOnce is IngestOnce that waits for the commit, as Write does.
func (r *Runtime) WriteOnce(ctx context.Context, id string, once Once, readings []Reading, size int) error {
	settled := make(chan error, 1)
	if err := r.IngestOnce(ctx, id, once, readings, size, func(err error) { settled <- err }); err != nil {
		return err
	}
	select {
	case err := <-settled:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write to %q: outcome unknown: %w", id, context.Cause(ctx))
	}
}

// nanos returns the time of the runtime's clock, which does not go back.
func (r *Runtime) nanos() int64 { return int64(time.Since(r.began)) }

// read calls f to read from the store, and cancels it when the runtime closes.
func (r *Runtime) read(ctx context.Context, f func(ctx context.Context) error) error {
	r.gate.RLock()
	defer r.gate.RUnlock()
	if r.shut {
		return ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	err := f(ctx)
	if err != nil && r.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// query is read for functions that return a value.
func query[T any](ctx context.Context, r *Runtime, f func(ctx context.Context) (T, error)) (result T, err error) {
	err = r.read(ctx, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}

// closeGrace is how long Close waits, once its context has ended, for the work that it has
// canceled.
const closeGrace = 2 * time.Second

// fullGrace is how long Close waits for room on a full disk, after a retry that begins when Close
// has begun.
const fullGrace = 5 * time.Second

// Close refuses new readings, lets the entities finish what they have, commits and acknowledges it,
// and closes the store. If ctx ends first, or if the store stays full for five seconds plus
// Config.RetryMax, long enough for a retry, whatever is not committed is refused with ErrClosed,
// and the error says so; it wraps the cause of ctx or ErrFull. A store that does not return within
// two seconds of that is closed once it does, after Close has returned. Later calls return what the
// first one did.
func (r *Runtime) Close(ctx context.Context) error {
	r.closing.Do(func() { r.closeErr = r.close(ctx) })
	return r.closeErr
}

func (r *Runtime) close(ctx context.Context) error {
	idle := r.window.close()
	err := r.drain(ctx, idle)
	if err == nil {
		err = r.presences.finish(ctx)
	} else {
		err = r.breakOff(err, idle)
	}
	r.cancel()
	r.manager.Stop()
	r.committer.Stop()
	r.hub.close()
	if errors.Is(err, errStuck) {
		go func() {
			<-idle
			_ = r.closeStore() // Close has already returned errStuck
		}()
		return err
	}
	return errors.Join(err, r.closeStore())
}

// closeStore waits for what still uses the store and closes it.
func (r *Runtime) closeStore() error {
	r.wg.Wait()
	r.gate.Lock()
	r.shut = true
	r.gate.Unlock()
	if err := r.store.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

var errStuck = errors.New("the store does not return")

// drain waits until everything is committed. It returns the reason if it gives up: ctx has ended,
// or the disk stays full. Nobody waits for what is lost then: those who did were told that the
// outcome is unknown.
func (r *Runtime) drain(ctx context.Context, idle <-chan struct{}) error {
	const looks = 10
	ticker := time.NewTicker((fullGrace + r.cfg.RetryMax) / looks)
	defer ticker.Stop()
	for full := 0; full < looks; {
		select {
		case <-idle:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if full++; !r.window.full.Load() {
				full = 0
			}
		}
	}
	return ErrFull
}

// breakOff refuses the deliveries that are still under way, with the cause.
func (r *Runtime) breakOff(cause error, idle <-chan struct{}) error {
	bytes := r.window.inUse()
	r.cancel()
	r.handles.each(func(h *handle) { r.abandon(h, ErrClosed) })
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-idle:
		return fmt.Errorf("close the entity runtime: %d bytes of readings were not committed and are refused: %w", bytes, cause)
	case <-grace.C:
		return fmt.Errorf("close the entity runtime: %w: %w", errStuck, cause)
	}
}
