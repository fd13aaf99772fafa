package router_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/router"
)

// sentinels has a way to each error that package router exports: a call as a user makes
// it. internal/check sees to it that none is missing.
var sentinels = []struct {
	is      error
	produce func(k *actortest.Kit) error
}{
	{router.ErrBadSize, func(k *actortest.Kit) error {
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 1, func(*actor.Context[int], int) error { return nil })
		return pool.Resize(k.Context(), -1)
	}},
	{router.ErrZeroRef, func(k *actortest.Kit) error {
		_, err := router.TrySpawnGroup(k.System(), "group", router.RoundRobin, actor.Ref[int]{})
		return err
	}},
	{router.ErrSelf, func(k *actortest.Kit) error {
		group := router.SpawnGroup[int](k.System(), "group", router.RoundRobin)
		return group.Add(k.Context(), group.Ref)
	}},
	{router.ErrNoStrategy, func(k *actortest.Kit) error {
		_, err := router.TrySpawnGroup[int](k.System(), "group", nil)
		return err
	}},
}

func TestSentinelsAreToldApartByErrorsIs(t *testing.T) {
	for i, s := range sentinels {
		t.Run(s.is.Error(), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				err := s.produce(k)
				for j, other := range sentinels {
					if got, want := errors.Is(err, other.is), i == j; got != want {
						k.T().Errorf("errors.Is(%q, %q) is %v", err, other.is, got)
					}
				}
				if err != nil && err.Error() == s.is.Error() {
					k.T().Errorf("%q does not say what it is about", err)
				}
			})
		})
	}
}
