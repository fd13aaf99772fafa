package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// marks is a set of mappings that is stored in a document, to be known at the next start. It is
// owned by the engine's goroutine.
type marks struct {
	id     string // of the document
	stored []byte // its body, nil for none
}

// load returns the tokens of the names, in order.
func (m *marks) load(ctx context.Context, rt *entity.Runtime) (list []uint64, err error) {
	doc, err := rt.Doc(ctx, stateKind, m.id)
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(doc.Body, &list); err != nil {
		return nil, fmt.Errorf("the document %q of the mappings: %w", m.id, err)
	}
	m.stored = doc.Body
	return list, nil
}

// save makes the tokens durable, unless they are already.
func (m *marks) save(ctx context.Context, rt *entity.Runtime, list []uint64) error {
	if len(list) == 0 && m.stored == nil {
		return nil
	}
	slices.Sort(list)
	body, err := json.Marshal(list)
	if err != nil || bytes.Equal(body, m.stored) {
		return err
	}
	if _, err := rt.PutDoc(ctx, stateKind, m.id, body, ""); err != nil {
		return fmt.Errorf("save for which mappings there is no room: %w", err)
	}
	m.stored = body
	return nil
}

// saveMarks makes durable for which mappings there is no room, and which of those in force lack
// room for their values, so that at the next start they do not take the room of others.
func (f *follower) saveMarks(ctx context.Context) error {
	var refused, short []uint64
	for name, in := range f.installed {
		if in.refused {
			refused = append(refused, entity.TokenOf(name))
		}
	}
	for name, m := range f.engine.mappings {
		if m.isShort() {
			short = append(short, entity.TokenOf(name))
		}
	}
	if err := f.refused.save(ctx, f.s.rt, refused); err != nil {
		return err
	}
	return f.short.save(ctx, f.s.rt, short)
}

// splitShort returns the mappings that had room for their values when the service was last saved,
// and those that had not.
func (f *follower) splitShort(ctx context.Context, list []Mapping) (had, short []Mapping, err error) {
	tokens, err := f.short.load(ctx, f.s.rt)
	if err != nil || len(tokens) == 0 {
		return list, nil, err
	}
	for _, m := range list {
		if _, was := slices.BinarySearch(tokens, entity.TokenOf(m.Name)); was {
			short = append(short, m)
		} else {
			had = append(had, m)
		}
	}
	return had, short, nil
}

// warnUnsaved logs that marks could not be saved. The disk may be full: mappings compute all the same.
func (f *follower) warnUnsaved(ctx context.Context, err error) {
	f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "after the next start other mappings may have no room", slog.Any("error", err))
}
