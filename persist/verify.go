package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/greenroom-go/greenroom/codec"
)

// ErrNotReproducible says that replaying the events of an actor does not always lead to one state.
// [Verify] returns it.
var ErrNotReproducible = errors.New("the events do not lead to one state")

// Verify replays what a journal has of an event-sourced actor, twice from the beginning and once
// from each snapshot, and returns nil if all of that leads to one state. An error that wraps
// [ErrNotReproducible] says where it does not: Apply uses a clock, a random number or the order of
// a map, or a snapshot does not match the events. An error that wraps [ErrUnreadable] says which
// event cannot be read. Verify is for tests, and for a program's own check of its data; `greenroom
// journal verify` reads the same events, but cannot apply them.
//
// newActor makes an actor as for [Spawn]; it is given no message. States are compared by what
// Snapshot returns or, without that method, by [reflect.DeepEqual].
func Verify[A any](ctx context.Context, journal Journal, types *codec.Types, id string, newActor func() A) error {
	v := &verifier{ctx: ctx, journal: journal, types: types, id: id, newActor: func() any { return newActor() }}
	if err := v.run(); err != nil {
		return fmt.Errorf("verify %s: %w", id, err)
	}
	return nil
}

type verifier struct {
	ctx      context.Context //nolint:containedctx // that of one call
	journal  Journal
	types    *codec.Types
	id       string
	newActor func() any
	loaded   Loaded
}

func (v *verifier) run() error {
	all, err := v.journal.Load(v.ctx, []string{v.id})
	if err != nil {
		return err
	}
	v.loaded = all[0]
	first, err := v.replay(nil)
	if err != nil {
		return err
	}
	second, err := v.replay(nil)
	if err == nil {
		err = v.compare(first, second, "a second replay from the beginning")
	}
	if v.loaded.Snapshot == nil || first.s.snapshots == nil {
		return err
	}
	for s := *v.loaded.Snapshot; err == nil && s.Number > v.loaded.Erased; {
		var short *replayed
		if short, err = v.replay(&s); err == nil {
			err = v.compare(first, short, fmt.Sprintf("snapshot %d and the events after it", s.Number))
		}
		if err == nil {
			s, err = v.journal.Snapshot(v.ctx, v.id, s.Number)
		}
	}
	return err
}

// replayed is an actor in its last state.
type replayed struct {
	replayer
	actor any
}

// replay replays from a snapshot, or from the beginning.
func (v *verifier) replay(from *Snapshot) (*replayed, error) {
	r := &replayed{actor: v.newActor()}
	a, ok := r.actor.(persistent)
	if !ok {
		return nil, fmt.Errorf("%T must embed persist.Events", r.actor)
	}
	s, err := a.bind(nil, r.actor)
	if err != nil {
		return nil, err
	}
	if s.apply == nil {
		return nil, fmt.Errorf("%T must embed persist.Events: it has no events to be replayed", r.actor)
	}
	defer a.unbind()
	r.replayer = replayer{types: v.types, id: v.id, s: s, at: v.loaded.Erased}
	if from != nil {
		if err := r.restore(from); err != nil {
			return nil, fmt.Errorf("%w: snapshot %d: %w", ErrNotReproducible, from.Number, err)
		}
		r.at = from.Number
	}
	for r.at < v.loaded.Last {
		page, err := v.journal.Events(v.ctx, v.id, r.at, PageRecords)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, r.unreadable(r.at+1, "it is missing")
		}
		if err := r.replay(page); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (v *verifier) compare(a, b *replayed, what string) error {
	if a.s.snapshots == nil {
		if !reflect.DeepEqual(a.actor, b.actor) {
			return fmt.Errorf("%w: %s makes %+v, the first one made %+v", ErrNotReproducible, what, b.actor, a.actor)
		}
		return nil
	}
	first, one, err := v.state(a)
	if err != nil {
		return err
	}
	value, two, err := v.state(b)
	if err == nil && !bytes.Equal(one, two) {
		err = fmt.Errorf("%w: %s makes %+v, the first one made %+v", ErrNotReproducible, what, value, first)
	}
	return err
}

// state returns what Snapshot returns, and its bytes.
func (v *verifier) state(r *replayed) (value any, data []byte, err error) {
	err = guarded(func() error {
		if value, err = r.s.snapshots.take(); err == nil {
			_, data, err = v.types.Append(nil, value)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	return value, data, err
}
