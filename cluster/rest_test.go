package cluster_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
)

// counted is an engine that counts what it is asked.
type counted struct {
	memory.Engine
	puts, gets atomic.Int64
}

func (e *counted) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	e.puts.Add(1)
	return e.Engine.Put(ctx, key, value, was)
}

func (e *counted) Get(ctx context.Context, key string) (cluster.Entry, error) {
	e.gets.Add(1)
	return e.Engine.Get(ctx, key)
}

// TestAClusterAtRestOnlyRenewsItsLeases has three nodes with ten thousand actors that nobody needs. In a minute each
// puts its record every third of the TTL and nothing else, and its own actors handle some messages a second, however
// many shards and actors there are.
func TestAClusterAtRestOnlyRenewsItsLeases(t *testing.T) {
	const (
		keys       = 10_000
		minute     = time.Minute
		renewals   = int64(3 * minute / (5 * time.Second)) // of three nodes, with a TTL of 15 s
		messages   = uint64(3 * 5 * minute / time.Second)
		shardCount = 128
	)
	actortest.Run(t, func(k *actortest.Kit) {
		t, engine := k.T(), new(counted)
		systems, active := make([]*actor.System, 3), 0
		kinds := make(map[string]*cluster.Kind[msg])
		for i := range systems {
			name := fmt.Sprint("n", i)
			systems[i] = actor.NewSystem(name)
			t.Cleanup(func() { _, _ = systems[i].Shutdown(context.Background()) })
			node, err := cluster.Join(systems[i], cluster.Config{Engine: engine})
			if err != nil {
				t.Fatal(err)
			}
			if kinds[name], err = cluster.Register(node, "idle", func(string) tiny { return tiny{} }, cluster.ShardCount(shardCount), cluster.IdleAfter(0)); err != nil {
				t.Fatal(err)
			}
		}
		k.Advance(time.Minute) // all shards are where they are to be
		for i := range keys {
			key := fmt.Sprint(i)
			owner, _ := kinds["n0"].Owner(key)
			kinds[owner].Ref(key).Tell(k.Context(), msg{})
		}
		k.Advance(time.Second)
		handled := func() (n uint64) {
			for _, sys := range systems {
				n += sys.Stats().Handled
			}
			return n
		}
		for _, kind := range kinds {
			active += kind.Active()
		}
		puts, gets, before := engine.puts.Load(), engine.gets.Load(), handled()
		k.Advance(minute)
		puts, gets, before = engine.puts.Load()-puts, engine.gets.Load()-gets, handled()-before
		if active != keys || puts != renewals || gets != 0 || before > messages {
			t.Errorf("%d actors are active; in %v there were %d puts, %d gets and %d messages: want %d, %d, 0 and at most %d",
				active, minute, puts, gets, before, keys, renewals, messages)
		}
		t.Logf("in %v: %d puts, %d gets, %d messages", minute, puts, gets, before)
	})
}
