package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// Record is what the engine has of a member, and Probe what it asks of the others.
type (
	Record = record
	Probe  = probe
)

// The states of a member.
const (
	StateUp   = stateUp
	StateDead = stateDead
)

// ProofAgain is the time after which a proof that has no outcome is begun anew.
const ProofAgain = proofAgain

// KeepBusy has the keeper do nothing else for a time.
func (n *Node) KeepBusy(d time.Duration) {
	n.keeper.Tell(context.Background(), func(ctx *actor.Context[step], _ *keeper) { _ = ctx.Sleep(d) })
}

// KeepRouterBusy has the router do nothing else for a time.
func (n *Node) KeepRouterBusy(d time.Duration) {
	n.tell(func(ctx *actor.Context[any], _ *router) { _ = ctx.Sleep(d) })
}

// BreakRouter has the router of the node panic.
func (n *Node) BreakRouter() {
	n.tell(func(*actor.Context[any], *router) { panic("planted") })
}

// HideRouter has the node not find its router, or find it again.
func (n *Node) HideRouter(is bool) { n.closed.Store(is) }

// SetLinks gives a member connections that a test has made.
func (cfg *Config) SetLinks(l links) { cfg.rules.links = l }

// SetProcess says what process a member is, and which others have ended.
func (cfg *Config) SetProcess(own string, ended func(proc string) bool) {
	cfg.rules.proc, cfg.rules.ended = own, ended
}

// SetTypes gives it the types of events.
func (cfg *Config) SetTypes(types *codec.Types) { cfg.rules.types = types }

// Widen is what a bridge makes of its patterns if they are too many.
var Widen = widen

// BridgeEvent is an event on its way to another node.
type BridgeEvent = bridgeEvent

// NoGates and LateClaims are mistakes in what is done with virtual actors.
func (cfg *Config) NoGates()    { cfg.rules.routes.noGates = true }
func (cfg *Config) LateClaims() { cfg.rules.routes.lateClaims = true }

// Plant gives a member wrong rules.
func (cfg *Config) Plant(mistake func(r *rules)) { mistake(&cfg.rules) }

// BeginToLeave is Leave without waiting.
func (n *Node) BeginToLeave() {
	n.keeper.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) { k.leave(ctx) })
}

// Mistakes are what tests of a member must find.
var Mistakes = map[string]func(r *rules){
	"the lease begins when the renewal ends, and has no margin": func(r *rules) {
		r.lease = func(_, ended, left time.Duration) time.Duration {
			return ended + left*5/4
		}
	},
	"a renewal that is unsure counts": func(r *rules) {
		r.unsure = func(err error) bool { return err != nil && !errors.Is(err, ErrUnsure) }
	},
	"others wait for half of the TTL": func(r *rules) {
		r.patience = func(ttl time.Duration) time.Duration { return ttl / 2 }
	},
	"an owner of whom nothing is known is gone": func(r *rules) {
		r.gone = func(c census, id identity) bool { _, ok := c[id.name]; return !ok || c.gone(id) }
	},
	"a change of owner has no new epoch": func(r *rules) {
		r.epochs = func(before, after *shardMap) {
			after.seal()
			for i := range after.slots {
				if before.slots[i].epoch != 0 {
					after.slots[i].epoch = before.slots[i].epoch
				}
			}
		}
	},
}

// Refuses reports whether the address of a member refuses connections, as the node finds it.
func (n *Node) Refuses(ctx context.Context, r Record, name string) bool {
	return n.links.Refuses(ctx, r, name)
}

// UpgradeThen is Upgrade without waiting, with the maps of an engine that does not block.
func (n *Node) UpgradeThen(engine Engine, then func(Upgrade, error)) {
	n.keeper.Tell(context.Background(), func(_ *actor.Context[step], k *keeper) { then(k.outlook().upgrade(context.Background(), engine)) })
}

// Leftovers says what there is of the kind on its node that there is nothing of when it is at rest.
func (k *Kind[M]) Leftovers() error {
	for i := range k.table.lots {
		l := &k.table.lots[i]
		l.mu.RLock()
		waits, handles, pumping := l.waitsLocked(), len(l.m), l.pumping
		l.mu.RUnlock()
		if waits || handles > 0 || pumping {
			return fmt.Errorf("shard %d of %s has %d handles, something waits (%v), and the router sends (%v)", i, k.Name(), handles, waits, pumping)
		}
	}
	if n := k.table.parked.n.Load(); n != 0 {
		return fmt.Errorf("%d messages of %s are counted that do not wait", n, k.Name())
	}
	return nil
}

// LeftoversThen says how many promises and proofs of the node are under way.
func (n *Node) LeftoversThen(then func(int)) {
	n.keeper.Tell(context.Background(), func(_ *actor.Context[step], k *keeper) { then(len(k.resigned) + len(k.proving)) })
}
