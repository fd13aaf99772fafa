package remote_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

type freedPing struct{ actor.Returns[int] }

// Nothing keeps two systems in memory that were connected and have been shut down: a state that refers to an actor of
// the other one did, since its proxy led to the system, and the proxy's end was known to it.
func TestSystemsThatWereConnectedAreFreed(t *testing.T) {
	freed := func() (systems [2]weak.Pointer[actor.System]) {
		types := codec.NewTypes(codec.Of[freedPing]("ping"), codec.Of[int]("int"))
		var sys [2]*actor.System
		var nodes [2]*remote.Node
		for i, name := range []string{"a", "b"} {
			sys[i] = actor.NewSystem(name)
			systems[i] = weak.Make(sys[i])
			var err error
			if nodes[i], err = remote.Listen(sys[i], remote.Config{Addr: "127.0.0.1:0", Cluster: "c", Types: types, Secret: "sixteen bytes or more"}); err != nil {
				t.Fatal(err)
			}
		}
		nodes[0].Meet("b", nodes[1].Addr().String())
		actor.SpawnFunc(sys[1], "pong", func(ctx *actor.Context[freedPing], m freedPing) error {
			actor.Reply(ctx, m, 1)
			return nil
		})
		var pong actor.Ref[freedPing]
		asks := actor.SpawnFunc(sys[0], "asks", func(ctx *actor.Context[freedPing], m freedPing) (err error) {
			if pong.IsZero() {
				pong, err = remote.Find[freedPing](ctx, nodes[0], "b", "/pong")
			}
			if err == nil {
				_, err = actor.Ask(ctx, pong, m)
			}
			actor.Reply(ctx, m, 1)
			return err
		})
		if _, err := actor.Ask(t.Context(), asks, freedPing{}); err != nil {
			t.Error(err)
		}
		for _, s := range sys {
			if _, err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		return systems
	}
	systems := freed()
	for began := time.Now(); systems[0].Value() != nil || systems[1].Value() != nil; runtime.GC() {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the systems are still in memory: %v %v", systems[0].Value() != nil, systems[1].Value() != nil)
		}
	}
}
