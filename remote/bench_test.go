package remote_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// BenchmarkTellToAnotherNode is what a message of 99 bytes costs both nodes.
func BenchmarkTellToAnotherNode(b *testing.B) {
	a, here := pair(b, remote.Config{Types: codec.NewTypes(codec.Of[*packet]("packet"), codec.Of[get]("get"))})
	handled := 0
	actor.SpawnFunc(a.System(), "counter", func(ctx *actor.Context[msg], m msg) error {
		switch m := m.(type) {
		case *packet:
			handled++
		case get:
			actor.Reply(ctx, m, handled)
		}
		return nil
	})
	ref := find(b, here, "a", "/counter")
	m := new(packet)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := ref.TryTell(bg, m); err != nil {
			b.Fatal(err)
		}
	}
	if n, err := actor.Ask(within(b), ref, get{}); n != b.N || err != nil {
		b.Fatalf("%d of %d are handled; %v", n, b.N, err)
	}
}
