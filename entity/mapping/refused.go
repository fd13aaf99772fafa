package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// loadRefused returns the tokens of the mappings for which there was no room, in order.
func (f *follower) loadRefused(ctx context.Context) (list []uint64, err error) {
	doc, err := f.s.rt.Doc(ctx, stateKind, refusedID)
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc.Body, &list); err != nil {
		return nil, fmt.Errorf("the mappings for which there was no room: %w", err)
	}
	f.refused = doc.Body
	return list, nil
}

// saveRefused makes durable for which mappings there is no room, so that after the next start they
// take the room of no other.
func (f *follower) saveRefused(ctx context.Context) error {
	var list []uint64
	for name, in := range f.installed {
		if in.refused {
			list = append(list, entity.TokenOf(name))
		}
	}
	if len(list) == 0 && f.refused == nil {
		return nil
	}
	slices.Sort(list)
	body, err := json.Marshal(list)
	if err != nil || bytes.Equal(body, f.refused) {
		return err
	}
	if _, err := f.s.rt.PutDoc(ctx, stateKind, refusedID, body, ""); err != nil {
		return fmt.Errorf("save for which mappings there is no room: %w", err)
	}
	f.refused = body
	return nil
}

// retry puts mappings in force for which there was no room, as far as there is now, and loads those
// anew that could not keep what they are computed from. What fails is tried again the next time. ctx is that of the
// service: who has deleted a mapping need not wait for others.
func (f *follower) retry(ctx context.Context) {
	err := f.retryRefused(ctx)
	if err == nil {
		err = f.retryShort(ctx)
	}
	if err == nil {
		err = f.saveRefused(ctx)
	}
	if err != nil {
		f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mappings for which there was no room are not put in force", slog.Any("error", err))
	}
	f.tell()
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

// retryShort ends where there is no room again: each of them reads histories.
func (f *follower) retryShort(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(f.engine.mappings)) {
		m := f.engine.mappings[name]
		if !m.isShort() {
			continue
		}
		if err := f.restore(ctx, m.Mapping); err != nil {
			return err
		}
		if m := f.engine.mappings[name]; m != nil && m.isShort() {
			return nil
		}
	}
	return nil
}

// restore puts a mapping in force that was before.
func (f *follower) restore(ctx context.Context, m Mapping) error {
	head, err := f.head(ctx)
	if err != nil {
		return err
	}
	outputs, failed, err := f.engine.Restore(ctx, f.s.reader, f.seq, m)
	if err != nil {
		return err
	}
	if err := failed[m.Name]; err != nil {
		f.installed[m.Name].Problem = err.Error()
		return nil //nolint:nilerr // it is shown as the mapping's problem
	}
	f.liveFrom(head, m.Name)
	return f.flight(nil, func(fl *flight) error { return f.write(ctx, fl, outputs, true) })
}

// tellEvery is how often it is logged at most that there is no room for values.
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
