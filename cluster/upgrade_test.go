package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/sim"
)

// versioned is a keeper that writes a version.
type versioned struct {
	*keeper
	v cluster.Versions
}

func (v versioned) Versions() cluster.Versions { return v.v }

// joinVersion is join for a node that writes a version.
func joinVersion(k *actortest.Kit, engine cluster.Engine, name string, v cluster.Versions) *process {
	t := k.T()
	t.Helper()
	sys := actor.NewSystem(name)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	p := &process{wire: &wire{Engine: engine}, holder: newKeeper()}
	var err error
	if p.Node, err = cluster.Join(sys, cluster.Config{Engine: p.wire}); err != nil {
		t.Fatal(err)
	}
	if p.shards, err = cluster.Host(p.Node, "things", 12, versioned{p.holder, v}); err != nil {
		t.Fatal(err)
	}
	return p
}

// upgrade asks a node what may be done.
func (p *process) upgrade(k *actortest.Kit) cluster.Upgrade {
	k.T().Helper()
	u, err := p.Upgrade(k.Context())
	if err != nil {
		k.T().Fatal(err)
	}
	return u
}

// TestUpgradeReplacesNodesOneByOne follows what Upgrade says.
func TestUpgradeReplacesNodesOneByOne(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine, nodes := new(memory.Engine), make(map[string]*process)
		for _, name := range []string{"a", "b", "c"} {
			nodes[name] = joinVersion(k, engine, name, cluster.Versions{})
			k.Advance(time.Second)
		}
		if u := nodes["a"].upgrade(k); u.Ready("a") || !strings.Contains(fmt.Sprint(u.Waits), "has joined within the last 5s") {
			t.Errorf("at once: %+v", u)
		}
		for _, name := range []string{"a", "b", "c"} {
			k.Advance(30 * time.Second)
			at := nodes[map[string]string{"a": "b", "b": "c", "c": "a"}[name]]
			if u := at.upgrade(k); !u.Ready(name) {
				t.Fatalf("%s may not be replaced: %+v", name, u)
			}
			nodes[name].BeginToLeave()
			k.Settle()
			if u := at.upgrade(k); u.Ready(name) || !strings.Contains(fmt.Sprint(u.Waits), name+" is leaving") {
				t.Errorf("%s leaves: %+v", name, u)
			}
			k.Advance(10 * time.Second)
			if nodes[name].Err() != nil || nodes[name].holder.holds() != 0 {
				t.Fatalf("%s has ended with %v, and holds %d", name, nodes[name].Err(), nodes[name].holder.holds())
			}
			nodes[name] = joinVersion(k, engine, name, cluster.Versions{Writes: 2, Oldest: 1})
		}
		k.Advance(30 * time.Second)
		for _, p := range nodes {
			p.expectHeld(t, 4)
		}
		// One that is older takes nothing of it, and does not count as one that could.
		old := joinVersion(k, engine, "old", cluster.Versions{})
		k.Advance(30 * time.Second)
		old.expectHeld(t, 0)
		for _, name := range []string{"a", "b"} {
			if err := nodes[name].Leave(k.Context()); err != nil {
				t.Fatal(err)
			}
		}
		k.Advance(30 * time.Second)
		nodes["c"].expectHeld(t, 12)
		if u := old.upgrade(k); u.Ready("c") || !u.Ready("old") || !strings.Contains(u.Nodes["c"], "no other node can read version 2") {
			t.Errorf("c is the last that can read it: %+v", u)
		}
		nodes["c"].wire.cut.Store(true)
		k.Advance(11 * time.Second)
		if u := old.upgrade(k); !strings.Contains(fmt.Sprint(u.Waits), "c has been silent") {
			t.Errorf("c is silent: %+v", u)
		}
		k.Advance(time.Minute)
		old.expectHeld(t, 0)
		if u := old.upgrade(k); !strings.Contains(fmt.Sprint(u.Waits), "12 shards of things have no owner") {
			t.Errorf("c is dead: %+v", u)
		}
		k.AllowFailures()
	})
}

// TestUpgradeOfVersionsThatCannotBe has each be refused.
func TestUpgradeOfVersionsThatCannotBe(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		m, err := cluster.Join(k.System(), cluster.Config{Engine: new(memory.Engine)})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []cluster.Versions{{Writes: -1}, {Writes: 2, Oldest: 3}, {Writes: 2, Newest: 1}} {
			if _, err := cluster.Host(m, "things", 1, versioned{newKeeper(), v}); err == nil || !strings.Contains(err.Error(), "Writes must be positive") {
				t.Errorf("%+v: %v", v, err)
			}
		}
		if _, err := cluster.Alone(k.System()).Upgrade(k.Context()); err == nil {
			t.Error("a node that is alone can be replaced")
		}
	})
}

// rollout is a simulated cluster whose nodes are replaced by later ones, while others crash.
type rollout struct {
	*simWorld
	versions map[*simNode]cluster.Versions
	next     map[string]cluster.Versions // of a node that is started
	written  [simShards]int              // the greatest version in the store
}

// rolled is the holder of a node.
type rolled struct {
	*simNode
	r *rollout
}

func (h rolled) Versions() cluster.Versions { return h.r.versions[h.simNode] }

// Take checks that what is there can be read, and writes.
func (h rolled) Take(ctx context.Context, s cluster.Shard) error {
	if err := h.simNode.Take(ctx, s); err != nil {
		return err
	}
	v := h.r.versions[h.simNode]
	if w := h.r.written[s.Number]; w > max(v.Newest, v.Writes) || w > 0 && w < v.Oldest {
		h.wrong("%s takes shard %d, whose version is %d, and reads %+v", h.name, s.Number, w, v)
	}
	h.r.written[s.Number] = max(h.r.written[s.Number], v.Writes)
	return nil
}

func (r *rollout) join(n *simNode) {
	r.versions[n] = r.next[n.name]
	var err error
	if n.shards, err = cluster.Host(n.member, "things", simShards, rolled{n, r}); err != nil {
		r.w.Fatalf("host: %v", err)
	}
}

// mayReplace waits until some node says that another one may be replaced.
func (r *rollout) mayReplace(name string) {
	said, next := make(map[string]cluster.Upgrade), r.w.Elapsed()
	r.w.Eventually(20*simTTL, name+" may be replaced", func() error {
		for by, u := range said {
			if u.Ready(name) {
				return nil
			}
			delete(said, by)
		}
		if i := slices.IndexFunc(r.up(), func(n *simNode) bool { return n.name != name }); i >= 0 && r.w.Elapsed() >= next {
			next = r.w.Elapsed() + 100*time.Millisecond
			n := r.up()[i]
			n.member.UpgradeThen(&r.engine, func(u cluster.Upgrade, err error) {
				if err == nil {
					said[n.name] = u
				}
			})
		}
		return fmt.Errorf("%v", said)
	})
}

// play replaces all nodes, and has one crash now and then.
func (r *rollout) play(w *sim.World) {
	r.w = w
	r.host = r.join
	w.Always("a shard has one owner", r.oneOwner)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		r.next[name] = cluster.Versions{Writes: 1, Newest: 1 + w.Rand().IntN(2)}
		r.start(name)
		w.Advance(w.Sometime(2 * time.Second))
	}
	for _, name := range names {
		w.Advance(2 * simTTL)
		r.mayReplace(name)
		for _, n := range r.up() {
			if n.name == name {
				n.member.BeginToLeave()
			}
		}
		if w.Rand().IntN(3) == 0 { // and another one crashes meanwhile
			w.Advance(w.Sometime(simTTL))
			other := names[w.Rand().IntN(len(names))]
			if other != name {
				w.Logf("%s crashes", other)
				r.start(other)
			}
		}
		w.Eventually(10*simTTL, name+" has left", func() error {
			if slices.ContainsFunc(r.up(), func(n *simNode) bool { return n.name == name }) {
				return fmt.Errorf("%s is there", name)
			}
			return nil
		})
		r.next[name] = cluster.Versions{Writes: 2, Oldest: 1, Newest: 2}
		r.start(name)
	}
	w.Eventually(20*simTTL, "all shards are held", r.allHeld)
	for _, n := range r.up() {
		if v := r.versions[n]; v.Writes != 2 {
			w.Fatalf("%s writes %d", n.name, v.Writes)
		}
	}
}

func TestSimUpgradeNeverGivesToThoseThatCannotRead(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 6, 1000), Steps: 2_000_000}, func(w *sim.World) {
		(&rollout{simWorld: new(simWorld), versions: make(map[*simNode]cluster.Versions), next: make(map[string]cluster.Versions)}).play(w)
	})
}
