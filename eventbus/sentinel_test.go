package eventbus_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

// sentinels has a way to each error that package eventbus exports: a call as a user makes
// it. internal/check sees to it that none is missing.
var sentinels = []struct {
	is      error
	produce func(k *actortest.Kit, bus *eventbus.Bus) error
}{
	{eventbus.ErrTopic, func(k *actortest.Kit, bus *eventbus.Bus) error {
		return eventbus.Publish(k.Context(), bus, "a..b", 1)
	}},
	{eventbus.ErrClosed, func(k *actortest.Kit, bus *eventbus.Bus) error {
		bus.Close()
		return eventbus.Publish(k.Context(), bus, "a.b", 1)
	}},
	{eventbus.ErrFull, func(k *actortest.Kit, bus *eventbus.Bus) error {
		_ = eventbus.Listen[int](k.Context(), bus, "a.b", eventbus.Buffer(1, eventbus.Block))
		if err := eventbus.Publish(k.Context(), bus, "a.b", 1); err != nil {
			return err
		}
		return eventbus.Publish(k.Context(), bus, "a.b", 2)
	}},
}

func TestSentinelsAreToldApartByErrorsIs(t *testing.T) {
	for i, s := range sentinels {
		t.Run(s.is.Error(), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				err := s.produce(k, eventbus.New(k.System()))
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
