package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/sim"
)

// tells has the client of a node tell a key so many things, while holds does.
func (r *routeWorld) tells(n *simNode, key string, times int, holds func() error) {
	for i, c := range r.clients {
		if c.node != n {
			continue
		}
		actor.SpawnFunc(n.sys, "teller-*", func(ctx *actor.Context[int], times int) error {
			for range times {
				if err := holds(); err != nil {
					return nil //nolint:nilerr // it is who asks that says why
				}
				c.sent[key]++
				r.kinds[n].Ref(key).Tell(ctx, msg{from: i + 1, n: c.sent[key]})
			}
			return nil
		}).Tell(context.Background(), times)
	}
}

// narrows has a shard move from a to another node while there is hardly any room on the ways from a, for what it has kept, and
// from c to a, for the mark that is to follow what c has sent.
func (r *routeWorld) narrows(w *sim.World) {
	const key = "k0"
	r.w, r.mesh = w, newMesh(w)
	a := r.start("a")
	owner := func(n *simNode, want string) func() error {
		return func() error {
			if got, _ := r.kinds[n].Owner(key); got != want {
				return fmt.Errorf("%s takes %q for the owner", n.name, got)
			}
			return nil
		}
	}
	always := func() error { return nil }
	w.Eventually(simTTL, "a has the shard", owner(a, "a"))
	b := r.start("b")
	c := r.start("c")
	for _, n := range []*simNode{b, c} {
		w.Eventually(simTTL, "the owner is known", owner(n, "a"))
	}
	r.tells(c, key, 3, always)
	w.Advance(simTTL / 6)
	r.mesh.toggle("a", "c")
	r.tells(c, key, 20, always)
	w.Advance(time.Millisecond) // they are on their way
	r.mesh.limit(a, "b", 10)
	r.mesh.limit(a, "c", 10)
	r.mesh.limit(c, "a", 10)
	a.leaving = true
	a.member.BeginToLeave()
	for owner(a, "a")() == nil {
		r.tells(a, key, 5, owner(a, "a")) // some of it when the shard is being given away
		w.Advance(20 * time.Millisecond)
	}
	to, _ := r.kinds[a].Owner(key)
	w.Eventually(2*simTTL, "the next owner is known", owner(c, to))
	w.Advance(time.Millisecond) // also to the router
	r.tells(c, key, 10, always)
	w.Advance(w.Sometime(2 * time.Second))
	r.mesh.heal()
	w.Eventually(2*simTTL, "nothing is missing", r.nothingMissing)
	w.Advance(simTTL)
	r.nothingLeft()
}

// TestSimNothingIsLostWhereThereIsNoRoom has sessions take no more for a while: of what a node has taken, nothing is
// lost for that, and nothing is overtaken.
func TestSimNothingIsLostWhereThereIsNoRoom(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 3, 300), Steps: 400_000}, func(w *sim.World) { newRouteWorld(true, noPlant).narrows(w) })
}
