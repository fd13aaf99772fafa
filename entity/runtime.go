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

	gate     sync.RWMutex // held for reading by who reads from the store
	shut     bool         // guarded by gate: the store is closed
	closing  sync.Once
	closeErr error
}

// Open starts the runtime: the Entity Manager at /entities in sys, and the goroutines that commit.
// Entities are started by their first reading or query.
//
// From now on the store belongs to the runtime, unless Open fails. Close the runtime before sys is
// shut down: then everything accepted is committed and acknowledged. The other way round, what has
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
// for them and, if the entity's share of it is used up, until some of that is committed, which is
// how a source is slowed down; then it tells the entity and returns. Readings that one
// goroutine ingests for an entity one after the other are taken in that order. It waits for nothing
// else.
//
// done is called exactly once, when all of the readings are durable (nil), or with the error for
// which none of them is kept: ErrTooManyKeys, ErrFailed, ErrStopped, ErrClosed or an error of the
// store. With ErrFull the outcome may be unknown: the readings wait until there is room, and are
// then kept. done is called on another goroutine, must not block, and may be nil. If Ingest returns
// an error, nothing is kept and done is never called: ErrInvalid, ErrFull, ErrBusy, ErrClosed, or the
// cause of ctx while waiting.
//
// size is about how many bytes the readings took on their way here; what they take in memory is
// counted if it is more. From now on the readings belong to the runtime.
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
// and done is called with nil when what they repeat is durable. So whoever computes from a stream
// of changes may start again at an earlier one after a crash, with the number of the change as Seq,
// and get each result once.
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

// send waits for room in the window and brings a delivery of a source on its way.
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

// dispatch brings a delivery into the mailbox of its entity. With an error it
// is still the caller's, otherwise somebody settles it.
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
		case to.IsZero(): // the manager tells it
			return nil
		case to.TryTell(ctx, d) == nil:
			return nil
		}
		if err := r.recall(d, ErrStopped); err == nil {
			return nil
		}
	}
}

// recall takes back a delivery that could not be told, and closes its handle.
// It returns why, or nil when somebody else has settled the delivery.
func (r *Runtime) recall(d *delivery, why error) error {
	mine := d.h.take(d)
	r.abandon(d.h, why)
	if !mine {
		return nil
	}
	return why
}

// abandon closes a handle and refuses what nobody took.
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

// settle calls done. A panic in there must not end the goroutine on which all
// acknowledgements depend.
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

// nanos is the runtime's clock, which does not go back.
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

// query is read for what returns something.
func query[T any](ctx context.Context, r *Runtime, f func(ctx context.Context) (T, error)) (result T, err error) {
	err = r.read(ctx, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}

// closeGrace is how long Close waits, once its context has ended, for what it
// broke off.
const closeGrace = 2 * time.Second

// fullGrace is how long Close waits for room on a full disk, after a try that begins when Close has.
const fullGrace = 5 * time.Second

// Close refuses new readings, lets the entities finish what they have, commits and acknowledges it,
// and closes the store. If ctx ends first, or if the store has been full for five seconds and
// Config.RetryMax, so that it was tried again, what is not committed is refused with ErrClosed, and the
// error says so; it wraps the cause of ctx or ErrFull. A store that does not return within two seconds
// of that is closed once it does, after Close has returned. Later calls return what the first one did.
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
			_ = r.closeStore() // the caller has gone with errStuck
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

// drain waits until all is committed. It returns why it waits no longer: the end of ctx, or a disk that
// stays full. Nobody waits for what is lost then: who did was told that the outcome is not known.
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

// breakOff refuses what is still under way, and says why.
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
