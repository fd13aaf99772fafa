package actortest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestAClosedGateFillsTheMailbox(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		p := actortest.NewProbe[int](k, gate.Around(), actor.Bounded(2, actor.DropOldest))
		p.Ref().Tell(k.Context(), 0)
		p.ExpectAll(0) // it is open at first

		gate.Close()
		if n := gate.Waiting(); n != 0 {
			k.T().Errorf("%d wait before there is a message", n)
		}
		for n := range 5 {
			p.Ref().Tell(k.Context(), n+1)
			k.Settle() // the first one is taken, the mailbox holds two more
		}
		if n := gate.Waiting(); n != 1 {
			k.T().Errorf("%d wait", n)
		}
		p.ExpectNone()
		k.Advance(365 * 24 * time.Hour) // and it is patient
		p.ExpectNone()
		gate.Open()
		p.ExpectAll(1, 4, 5)
		for _, want := range []int{2, 3} {
			if d := actortest.ExpectDeadLetter[int](k); d.Message != want {
				k.T().Errorf("dead letter %v, want %d", d.Message, want)
			}
		}
	})
}

func TestAGateHoldsUpNobodyElse(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		var held []*actortest.Probe[int]
		for range 50 { // more than there are workers
			p := actortest.NewProbe[int](k, gate.Around())
			p.Ref().Tell(k.Context(), 1)
			held = append(held, p)
		}
		free := actortest.NewProbe[int](k)
		free.Ref().Tell(k.Context(), 2)
		free.Expect(2)
		if n := gate.Waiting(); n != len(held) {
			k.T().Errorf("%d wait, want all %d", n, len(held))
		}
		gate.Open()
		for _, p := range held {
			p.ExpectAll(1)
		}
	})
}

func TestAnActorBeforeAGateStopsAfterTheMessageInItsHand(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		p := actortest.NewProbe[string](k, gate.Around())
		p.Ref().Tell(k.Context(), "in hand")
		p.Ref().Tell(k.Context(), "in the mailbox")
		k.Settle()
		p.Ref().Stop()
		if n := gate.Waiting(); n != 1 {
			k.T().Errorf("the order to stop ended the wait: %d wait", n)
		}
		gate.Open()
		p.ExpectAll("in hand")
		actortest.ExpectDown(k, p.Ref())
		actortest.ExpectDeadLetter[string](k)
	})
}

func TestAnAskEndsWhileItsRequestWaitsBeforeAGate(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		store := actortest.NewProbe[price](k, gate.Around())
		late := actortest.Ask(k, store.Ref(), price{Item: "tea"})
		k.Advance(time.Minute)
		if err := late.Err(); err == nil {
			k.T().Error("the ask had no end")
		}
	}) // and Run opens the gate
}

func TestAnActorIsHeldUpInTheMiddleOfItsMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, log := actortest.NewGate(k), actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
			log.Addf("begins %d", n)
			gate.Pass(ctx)
			log.Addf("ends %d", n)
			return nil
		})
		ref.Tell(k.Context(), 1)
		log.Expect("begins 1", "ends 1") // it is open
		gate.Close()
		ref.Tell(k.Context(), 2)
		ref.Tell(k.Context(), 3)
		log.Expect("begins 2")
		k.Advance(24 * time.Hour)
		if n := gate.Waiting(); n != 1 {
			k.T().Errorf("%d wait", n)
		}
		gate.Open()
		log.Expect("ends 2", "begins 3", "ends 3")
	})
}

func TestDoRunsInTheTurnOfAProbe(t *testing.T) {
	errOdd := errors.New("odd")
	actortest.Run(t, func(k *actortest.Kit) {
		ref, _, _ := open(k)
		p := actortest.NewProbe[any](k)
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			ctx.Watch(ref.PID(), func(d actor.Down) any { return d.Reason })
			ctx.After("tea", time.Hour, "tea")
			ref.Tell(ctx, quit{})
			return nil
		})
		p.Expect(actor.Stopped)
		p.ExpectNone() // what it was told to do is not written down
		k.Advance(time.Hour)
		p.Expect("tea")
		if p.At() != time.Hour || k.Elapsed() != time.Hour {
			k.T().Errorf("the timer came at %v, and it is %v", p.At(), k.Elapsed())
		}

		actortest.Do(p, func(*actor.Context[any]) error { return errOdd })
		k.ExpectFailures(1)
		p.Ref().Tell(k.Context(), "still there")
		p.ExpectAll("still there")
	})
}
