package actor_test

import (
	"github.com/greenroom-go/greenroom/actor"
	"testing"
)

type goMsg struct{ n int }

func BenchmarkAskInside(b *testing.B) {
	sys := newSystem(b)
	server := actor.Spawn(sys, "", newCounter)
	done := make(chan error)
	client := actor.SpawnFunc(sys, "", func(ctx *actor.Context[goMsg], m goMsg) error {
		for range m.n {
			if _, err := actor.Ask(ctx, server, get{}); err != nil {
				done <- err
				return nil
			}
		}
		close(done)
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	client.Tell(bg, goMsg{b.N})
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
