package cluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// mapFirst is an engine whose member hears of a map before it hears of its own record.
type mapFirst struct {
	*memory.Engine
	mapped chan struct{} // closed when it may hear of the record
}

func (e mapFirst) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	rev, err := e.Engine.Put(ctx, key, value, was)
	<-e.mapped
	return rev, err
}

func (e mapFirst) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	if prefix != "node/" {
		return e.Engine.Watch(prefix, see)
	}
	stopped := make(chan struct{})
	go func() {
		<-e.mapped
		stop := e.Engine.Watch(prefix, see)
		<-stopped
		stop()
	}()
	return func() { close(stopped) }
}

// TestAMapThatComesBeforeTheOwnRecordIsFollowed has the coordinator give a new member shards before that hears that
// the engine has its record: nothing orders the watches of the two, and a put may take its time to return.
func TestAMapThatComesBeforeTheOwnRecordIsFollowed(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := mapFirst{new(memory.Engine), make(chan struct{})}
		a := joinLapsing(k, engine, "a")
		k.Settle()
		const owned = `{"version":7,"members":["a"],"joins":[1],"shards":[[1,0,0],[1,0,0]]}`
		if _, err := engine.Engine.Put(k.Context(), "map/where", []byte(owned), 0); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		if owner, ok := a.kind.Owner("x"); !ok || owner != "a" || a.Valid() {
			t.Fatalf("the owner is %q, and valid is %v: want a, which does not know it yet", owner, a.Valid())
		}
		close(engine.mapped)
		k.Advance(5 * time.Second)
		for _, key := range lapsingKeys {
			if got := a.ask(k, key); got != "a" {
				t.Errorf("%s is on %q", key, got)
			}
		}
	})
}

// lateEnd is an actor that takes its time to end.
type lateEnd struct{}

func (lateEnd) Receive(ctx *actor.Context[where], _ where) error {
	ctx.Stop()
	return nil
}

func (lateEnd) Terminate(*actor.Context[where], error) {
	_ = pause.For(context.Background(), time.Second) // in virtual time
}

// TestWhatWaitsForAnEndIsRefusedWhenTheNodeEnds has a node end while messages wait for the end of an activation, with
// which nobody goes on after that.
func TestWhatWaitsForAnEndIsRefusedWhenTheNodeEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := actor.NewSystem("a")
		node, err := cluster.Join(sys, cluster.Config{Engine: new(memory.Engine)})
		if err != nil {
			t.Fatal(err)
		}
		kind, err := cluster.Register(node, "slow", func(string) lateEnd { return lateEnd{} })
		if err != nil {
			t.Fatal(err)
		}
		k.Advance(10 * time.Second)
		kind.Ref("x").Tell(k.Context(), where{})
		k.Settle()
		answered := make(chan error, 1)
		go func() {
			_, err := actor.Ask(k.Context(), kind.Ref("x"), where{}, actor.Within(time.Minute))
			answered <- err
		}()
		kind.Ref("x").Tell(k.Context(), where{})
		k.Settle()
		report, err := sys.Shutdown(k.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := <-answered; !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the ask has ended with %v: want %v", err, actor.ErrStopped)
		}
		if report.DeadLetters != 2 {
			t.Errorf("%d dead letters: want that of the tell and that of the ask", report.DeadLetters)
		}
	})
}
