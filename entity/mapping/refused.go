package mapping

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// retry puts in force the mappings for which there was no room and now is, and schedules the reload
// of those that lacked room for their values. Failures are retried the next time. ctx is that of
// the service: a caller that has deleted a mapping need not wait for others.
func (f *follower) retry(ctx context.Context) {
	if err := f.retryRefused(ctx); err != nil {
		f.warnNotInForce(ctx, err)
	} else if err := f.saveMarks(ctx); err != nil {
		f.warnUnsaved(ctx, err)
	}
	f.reload.queue(f.engine)
	f.tell()
}

func (f *follower) warnNotInForce(ctx context.Context, err error) {
	f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mappings for which there was no room are not put in force", slog.Any("error", err))
}

func (f *follower) retryRefused(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(f.installed)) {
		in := f.installed[name]
		if !in.refused || f.room(name, in.bytes) != nil {
			continue
		}
		doc, err := f.s.rt.Doc(ctx, docKind, name)
		if err != nil {
			return err
		}
		before := in
		in = f.restored(&doc)
		f.keep(in)
		if in.Problem != "" {
			continue
		}
		if err := f.restore(ctx, in.Mapping); err != nil {
			if f.engine.mappings[name] == nil {
				f.keep(before) // it is not in force, and is tried again
			}
			return err
		}
	}
	return nil
}

// reload is the set of mappings to reload, one in each step of the follower: those that lack
// something that their groups had before, which have no value until then, and those that lacked
// room for their values.
type reload struct {
	lacking []*mapping
	names   []string
	// tried has those for which there was not enough room, with the bytes that were available:
	// unless there are more they are not read again.
	tried map[string]int
}

// waits reports whether there is one.
func (r *reload) waits() bool { return len(r.lacking)+len(r.names) > 0 }

// add adds mappings that lack something.
func (r *reload) add(lacking []*mapping) {
	for _, m := range lacking {
		if !slices.Contains(r.lacking, m) {
			r.lacking = append(r.lacking, m)
		}
	}
}

// loads reports whether a mapping is being loaded, or is to be loaded anew.
func (f *follower) loads() bool { return f.loadsOne || f.reload.waits() }

// queue schedules all mappings that lacked room and for which there is more room than last time.
func (r *reload) queue(e *Engine) {
	r.names = r.names[:0]
	maps.DeleteFunc(r.tried, func(name string, _ int) bool { return !e.lacksRoom(name) })
	for _, name := range slices.Sorted(maps.Keys(e.mappings)) {
		if r.worthwhile(e, name) {
			r.names = append(r.names, name)
		}
	}
}

// worthwhile reports whether a mapping may keep more than it does.
func (r *reload) worthwhile(e *Engine, name string) bool {
	return e.lacksRoom(name) && e.mappings[name].available() > r.tried[name]
}

// lacksRoom reports whether there was no room for something that a mapping keeps.
func (e *Engine) lacksRoom(name string) bool {
	m := e.mappings[name]
	return m != nil && m.isShort()
}

// trim makes windows that have no value, for lack of room for all their readings, release n bytes
// for others.
func (m *mapping) trim(n int) {
	for _, f := range m.fields {
		for _, c := range f.many {
			if w, ok := c.(*windowOf); ok && n > 0 && w.isShort() {
				before := m.room.used
				w.trim(n)
				n -= before - m.room.used
			}
		}
	}
}

// available returns how many bytes the mapping could use, including those that it uses.
func (m *mapping) available() int { return m.room.of.most - m.room.of.used + m.room.used }

// load returns a function to call when a mapping has been put in force, maybe in the place of one of that name: if
// there was no room for what it keeps, it keeps no more than that one did.
func (r *reload) load(e *Engine, name string) (loaded func()) {
	available, kept := e.room.most-e.room.used, 0
	if before := e.mappings[name]; before != nil {
		available, kept = before.available(), before.room.used
	}
	return func() {
		if m := e.mappings[name]; m != nil && m.isShort() {
			r.tried[name] = available
			m.trim(m.room.used - kept)
		}
	}
}

// loadAll schedules all mappings that lacked room when all were loaded together, to be loaded one
// after the other.
func (r *reload) loadAll(e *Engine) {
	for _, m := range e.mappings {
		if m.isShort() {
			m.trim(m.room.used)
		}
	}
	r.queue(e)
}

// reloadNext reloads the next mapping for which that may help. If a mapping lacks something that
// cannot be read, it returns an error, after which the service has to restart.
func (f *follower) reloadNext(ctx context.Context) error {
	r := &f.reload
	for len(r.lacking) > 0 {
		m := r.lacking[0]
		r.lacking = r.lacking[1:]
		if f.engine.mappings[m.Name] == m {
			return f.restore(ctx, m.Mapping)
		}
	}
	for len(r.names) > 0 {
		name := r.names[0]
		r.names = r.names[1:]
		if !r.worthwhile(f.engine, name) {
			continue
		}
		loaded := r.load(f.engine, name)
		err := f.restore(ctx, f.engine.mappings[name].Mapping)
		if err == nil {
			loaded()
		}
		if err == nil && len(r.names) == 0 { // once for all of them: the document names all that are short
			err = f.saveMarks(ctx)
		}
		if err != nil {
			f.warnNotInForce(ctx, err)
		}
		f.tell()
		return nil
	}
	return nil
}

// restore puts a mapping in force that was before.
func (f *follower) restore(ctx context.Context, m Mapping) error {
	outputs, failed, err := f.putInForce(ctx, m, true)
	if err != nil {
		return err
	}
	if err := failed[m.Name]; err != nil {
		f.installed[m.Name].Problem = err.Error()
		return nil //nolint:nilerr // it is shown as the mapping's problem
	}
	return f.flight(nil, func(fl *flight) error { return f.write(ctx, fl, outputs, true) })
}

// tellEvery is the least interval between two logs that there is no room for values.
const tellEvery = time.Minute

// tell publishes what the engine has counted, and logs if there was no room for values.
func (f *follower) tell() {
	f.untold += f.engine.room.dropped
	f.engine.publish(&f.s.count)
	if now := f.s.now(); f.untold > 0 && now.Sub(f.told) >= tellEvery {
		f.s.cfg.Logger.LogAttrs(f.s.ctx, slog.LevelWarn, "mappings have no room for what they keep of their sources; what is computed from it has no value",
			slog.Uint64("dropped", f.untold), slog.Int("bytes", f.engine.room.used), slog.Int("most", f.engine.room.most))
		f.told, f.untold = now, 0
	}
}
