package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/greenroom-go/greenroom/actor"
)

// After how many events, and how many bytes of them, a snapshot is taken: see [Every].
const (
	everyEvents = 1000
	everyBytes  = 1 << 20
)

// errBegunAnew says that a snapshot cannot be restored, and that the actor restarts because of what
// it has left in the state.
var errBegunAnew = errors.New("a snapshot is passed over, and the actor begins anew")

// snapshooter wraps an actor's methods Snapshot and Restore.
type snapshooter struct {
	state   reflect.Type
	take    func() (any, error)
	restore func(v any) error
}

// snapshotsOf returns nil if the actor has neither method.
func snapshotsOf(self any) (*snapshooter, error) {
	v := reflect.ValueOf(self)
	take, restore := v.MethodByName("Snapshot"), v.MethodByName("Restore")
	if !take.IsValid() && !restore.IsValid() {
		return nil, nil
	}
	fail := reflect.TypeFor[error]()
	if !take.IsValid() || !restore.IsValid() ||
		take.Type().NumIn() != 0 || take.Type().NumOut() != 2 || take.Type().Out(1) != fail ||
		restore.Type().NumIn() != 1 || restore.Type().NumOut() != 1 || restore.Type().Out(0) != fail ||
		restore.Type().In(0) != take.Type().Out(0) {
		return nil, fmt.Errorf("%T must have the methods Snapshot() (S, error) and Restore(S) error with the same S, or neither", self)
	}
	return &snapshooter{
		state: take.Type().Out(0),
		take: func() (any, error) {
			out := take.Call(nil)
			err, _ := reflect.TypeAssert[error](out[1])
			return out[0].Interface(), err
		},
		restore: func(v any) error {
			if t := reflect.TypeOf(v); t == nil || !t.AssignableTo(take.Type().Out(0)) {
				return fmt.Errorf("it is a %T and not a %s", v, take.Type().Out(0))
			}
			err, _ := reflect.TypeAssert[error](restore.Call([]reflect.Value{reflect.ValueOf(v)})[0])
			return err
		},
	}, nil
}

// takeSnapshot returns the encoded state, nil if it cannot be encoded: then there are only the
// events. REQUIRES: the actor's turn; in.mu not held.
func (in *incarnation) takeSnapshot() *Payload {
	var p *Payload
	err := guarded(func() error {
		v, err := in.snapshots.take()
		if err == nil {
			p, err = in.p.payload(v)
		}
		return err
	})
	if err != nil {
		in.p.sys.Log().LogAttrs(context.Background(), slog.LevelError, "no snapshot is taken; recovery goes on to read all events",
			slog.String("id", in.id), errorAttr(err))
		return nil
	}
	return p
}

// isDue reports whether a snapshot is due with so many more events. REQUIRES: in.mu held.
func (in *incarnation) isDue(events, bytes int) bool {
	return in.snapshots != nil && events > 0 && (in.since+events >= in.every || in.sinceBytes+bytes >= in.everyBytes)
}

// fromSnapshot starts from the newest readable snapshot, or from the beginning if there is none.
func (r *recovery) fromSnapshot(ctx context.Context, l *Loaded) error {
	for s := *l.Snapshot; s.Number > l.Erased && r.s.snapshots != nil; {
		if *r.avoid == 0 || s.Number < *r.avoid {
			err := r.restore(&s)
			if err == nil {
				r.at = s.Number
				r.in.noteSnapshot(s.Number)
				if s.Number == l.Snapshot.Number {
					return r.replay(l.Events)
				}
				return nil
			}
			r.in.p.sys.Log().LogAttrs(ctx, slog.LevelError, "a snapshot cannot be read and is passed over",
				slog.String("id", r.id), slog.Uint64("number", s.Number), errorAttr(err))
			if errors.Is(err, errBegunAnew) {
				*r.avoid = s.Number
				return err
			}
		}
		var err error
		below := s.Number
		if s, err = read(ctx, r.in.p, func(by *patient) actor.Request[Snapshot] { return readSnapshot{patient: by, id: r.id, below: below} }); err != nil {
			return err
		}
	}
	return nil
}

// restore restores a snapshot.
func (r *replayer) restore(s *Snapshot) error {
	if !s.Intact(r.id, s.Number) {
		return errors.New("it has a checksum that is wrong")
	}
	v, err := r.types.Decode(s.Type, s.Data)
	if err != nil {
		return errors.New(textOf(err))
	}
	if err := guarded(func() error { return r.s.snapshots.restore(v) }); err != nil {
		return fmt.Errorf("%w: Restore: %s", errBegunAnew, textOf(err))
	}
	return nil
}

// noteSnapshot records that there is a durable snapshot.
func (in *incarnation) noteSnapshot(number uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.snapshot = max(in.snapshot, number)
}
