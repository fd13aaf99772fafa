package actor_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

type beat struct{ n int64 }

// BenchmarkTell tells b.N messages to one actor from outside, and waits until they
// are handled. The control is a goroutine with a buffered channel.
func BenchmarkTell(b *testing.B) {
	b.Run("runtime=greenroom", func(b *testing.B) {
		sys := actortest.NewSystem(b)
		done := make(chan struct{})
		n, left := b.N, b.N
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[beat], beat) error {
			if left--; left == 0 {
				close(done)
			}
			return nil
		})
		b.ReportAllocs()
		b.ResetTimer()
		for i := range n {
			ref.Tell(bg, beat{int64(i)})
		}
		<-done
	})
	b.Run("runtime=channel", func(b *testing.B) {
		done, ch := make(chan struct{}), make(chan beat, 1024)
		go func() {
			for range ch {
			}
			close(done)
		}()
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			ch <- beat{int64(i)}
		}
		close(ch)
		<-done
	})
}

// BenchmarkPingPong is b.N round trips between two actors, and between two
// goroutines with channels.
func BenchmarkPingPong(b *testing.B) {
	b.Run("runtime=greenroom", func(b *testing.B) {
		sys := actortest.NewSystem(b)
		done := make(chan struct{})
		var ping, pong actor.Ref[beat]
		pong = actor.SpawnFunc(sys, "", func(ctx *actor.Context[beat], m beat) error { ping.Tell(ctx, m); return nil })
		ping = actor.SpawnFunc(sys, "", func(ctx *actor.Context[beat], m beat) error {
			if m.n == 0 {
				close(done)
				return nil
			}
			pong.Tell(ctx, beat{m.n - 1})
			return nil
		})
		b.ReportAllocs()
		b.ResetTimer()
		ping.Tell(bg, beat{int64(b.N)})
		<-done
	})
	b.Run("runtime=channel", func(b *testing.B) {
		ping, pong := make(chan beat, 1), make(chan beat, 1)
		go func() {
			for m := range ping {
				pong <- m
			}
		}()
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			ping <- beat{int64(i)}
			<-pong
		}
		close(ping)
	})
}

// BenchmarkAsk is sequential asks from outside, and the same with a channel for
// each request.
func BenchmarkAsk(b *testing.B) {
	b.Run("runtime=greenroom", func(b *testing.B) {
		ref := actor.Spawn(actortest.NewSystem(b), "", newCounter)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := actor.Ask(bg, ref, get{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("runtime=channel", func(b *testing.B) {
		requests := make(chan chan int, 1024)
		go func() {
			for r := range requests {
				r <- 1
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			answer := make(chan int, 1)
			requests <- answer
			<-answer
		}
		close(requests)
	})
}

// BenchmarkSpawn spawns b.N actors without a name that handle one message each.
func BenchmarkSpawn(b *testing.B) {
	sys := actortest.NewSystem(b)
	b.ReportAllocs()
	for b.Loop() {
		actor.SpawnFunc(sys, "", func(*actor.Context[beat], beat) error { return nil }).Tell(bg, beat{})
	}
}

// BenchmarkAskInside is sequential asks in a handler, whose stack is set aside for each.
func BenchmarkAskInside(b *testing.B) {
	sys := actortest.NewSystem(b)
	server := actor.Spawn(sys, "", newCounter)
	done := make(chan error)
	client := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		for range n {
			if _, err := actor.Ask(ctx, server, get{}); err != nil {
				done <- err
				return err
			}
		}
		close(done)
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	client.Tell(bg, b.N)
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
