package entitytest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
)

// ErrDead is what a dead MortalStore returns.
var ErrDead = errors.New("the disk is gone")

// MortalStore is a store that can die: from then on, no batch and no item becomes durable.
type MortalStore struct {
	entity.Store
	Dead atomic.Bool
	Left atomic.Int64 // the writes of items until it dies, if it is not 0
}

// Commit commits a batch, unless the store is dead.
func (s *MortalStore) Commit(ctx context.Context, b *entity.Batch) error {
	if s.Dead.Load() {
		return ErrDead
	}
	return s.Store.Commit(ctx, b)
}

// PutItems writes items, unless the store is dead. The write that Left ends fails, too; if its number
// of items is odd, they are durable all the same.
func (s *MortalStore) PutItems(ctx context.Context, items []entity.Item) error {
	if s.Dead.Load() {
		return ErrDead
	}
	if s.Left.Load() > 0 && s.Left.Add(-1) == 0 {
		s.Dead.Store(true)
		if len(items)%2 == 0 {
			return ErrDead
		}
		return errors.Join(s.Store.PutItems(ctx, items), ErrDead)
	}
	return s.Store.PutItems(ctx, items)
}

// CloseAll closes a service, then its runtime and its system. If the store is dead, it does not wait
// for what the runtime can no longer make durable.
func (s *MortalStore) CloseAll(tb testing.TB, patience time.Duration, service interface{ Close(context.Context) error }, rt *entity.Runtime, sys *actor.System) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := service.Close(ctx); err != nil {
		tb.Error(err)
	}
	if s.Dead.Load() {
		over, end := context.WithTimeout(ctx, time.Millisecond)
		defer end()
		_ = rt.Close(over)
	} else if err := rt.Close(ctx); err != nil {
		tb.Error(err)
	}
	if _, err := sys.Shutdown(ctx); err != nil {
		tb.Error(err)
	}
}
