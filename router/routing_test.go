package router_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/router"
)

// slowStart begins only when it may, from the second routee on.
type slowStart struct{ may <-chan struct{} }

func (s *slowStart) Init(ctx *actor.Context[task]) error {
	if ctx.Self().PID().Path() == "/pool/1" {
		return nil
	}
	return actor.Blocking(ctx, func() error { <-s.may; return nil })
}

func (s *slowStart) Receive(ctx *actor.Context[task], m task) error {
	actor.Reply(ctx, m, ctx.Self().PID().Path())
	return nil
}

// No actor stands in the way of a message: while the pool's own is busy, those of others
// are routed.
func TestMessagesAreRoutedWhileTheRoutersActorIsBusy(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		may := make(chan struct{})
		pool := router.SpawnPool(k.System(), "pool", router.RoundRobin, 1, func() *slowStart { return &slowStart{may} })
		resized := make(chan error, 1)
		go func() { resized <- pool.Resize(k.Context(), 2) }()
		for range 3 {
			answer := actortest.Ask(k, pool.Ref, task{})
			k.Advance(time.Second) // on one processor the runtime has to let another worker in
			if who := answer.Answer(); who != "/pool/1" {
				k.T().Errorf("answered by %s", who)
			}
		}
		select {
		case err := <-resized:
			k.T().Errorf("the pool's actor was not busy: %v", err)
		default:
		}
		close(may)
		if err := <-resized; err != nil || len(pool.Routees()) != 2 {
			k.T().Errorf("resized to %d: %v", len(pool.Routees()), err)
		}
	})
}

func TestPanicOfAStrategyIsNotTheSendersFault(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		byKey := router.ConsistentHash(func(m task) string {
			if m.key == "" {
				panic("no key")
			}
			return m.key
		})
		routee := actortest.NewProbe[task](k)
		group := router.SpawnGroup(k.System(), "group", byKey, routee.Ref())
		for range 3 {
			group.Tell(k.Context(), task{})
		}
		if err := group.TryTell(k.Context(), task{}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("TryTell returned %v", err)
		}
		group.Tell(k.Context(), task{key: "a"})
		if m := routee.Next(); m.key != "a" {
			k.T().Errorf("got %q", m.key)
		}
		routee.ExpectNone()
		for range 3 {
			actortest.ExpectDeadLetter[task](k)
		}
		if n := strings.Count(k.Log(), `msg="message not routed: the router's strategy panicked" router=/group message_type=router_test.task panic="no key"`); n != 1 {
			k.T().Errorf("logged %d times:\n%s", n, k.Log())
		}
	})
}

func TestGroupRefusesToBeItsOwnMember(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		routee := actortest.NewProbe[task](k)
		group := router.SpawnGroup(k.System(), "group", router.RoundRobin, routee.Ref())
		if err := group.Add(k.Context(), group.Ref); !errors.Is(err, router.ErrSelf) {
			k.T().Errorf("got %v", err)
		}
		if got := group.Routees(); len(got) != 1 || got[0] != routee.Ref() {
			k.T().Errorf("the members are %v", got)
		}
	})
}
