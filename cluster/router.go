package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

const (
	parkTime    = 20 * time.Second // for how long a message waits for an owner
	routerTick  = time.Second
	markLimit   = 5 * time.Second       // for one mark; it is sent again
	roomPause   = 20 * time.Millisecond // until messages that found no room are sent again
	farewells   = 10 * time.Second
	localForAsk = 24 * time.Hour // an ask of this node itself ends with the router
)

// errMovedOn says why a shard is not taken, and errNotKnown why a farewell is not answered.
var (
	errMovedOn  = errors.New("the shard has moved on")
	errNotKnown = errors.New("the maps are not known yet, or something is on its way by former ones")
)

// router is the actor of a node that routes messages to virtual actors: it follows the maps of all
// kinds, and forwards messages that have waited. Only its turns change where messages go.
type router struct {
	node  *Node
	kinds map[string]routed
	self  identity
	peers peers
	maps  map[string]*shardMap

	waiting int // how often something has waited, for keys of timers
}

// routed is a table without its message type. Its methods are called in the router's turn.
type routed interface {
	add(r *router)
	follow(ctx *actor.Context[any], r *router, m *shardMap)
	advance(ctx *actor.Context[any], shard int)
	mark(ctx *actor.Context[any], shard int, k *mark)
	tick(ctx *actor.Context[any], before time.Time)
	end()
	settled() bool
	shards() int
}

// peer is another node as the destination of messages. The zero peer is none.
type peer struct {
	node   string
	inc    uint32
	router actor.PID
}

// peers are the known peers, according to the members' records.
type peers map[identity]peer

// The messages between routers.
type (
	// barrier follows the messages that a node has sent for a shard. The answer says that they have
	// reached the owner.
	barrier struct {
		actor.Returns[bool]
		Kind  string
		Shard int
		Stamp uint64
		Want  uint64
	}
	// resignation asks a node to heed that a member leaves. The answer has the versions of its maps
	// after which nothing is given to that member.
	resignation struct {
		actor.Returns[map[string]uint64]
		Name string
		Join uint64
	}
	// farewell asks whether a node knows at least these versions of the maps, and has nothing in
	// flight to former owners.
	farewell struct {
		actor.Returns[bool]
		Maps map[string]uint64
	}
)

// routerTypes are those of the messages between routers.
var routerTypes = []codec.Registration{
	codec.Of[barrier]("greenroom.cluster.barrier"),
	codec.Of[resignation]("greenroom.cluster.resignation"),
	codec.Of[farewell]("greenroom.cluster.farewell"),
	codec.Of[probe]("greenroom.cluster.probe"),
}

// task is a request of this node itself.
type task struct {
	actor.Returns[bool]
	do func(ctx *actor.Context[any], r *router, done func(error))
}

// stroke is something that this node tells its router to do.
type stroke func(ctx *actor.Context[any], r *router)

func newRouter(n *Node) *router {
	return &router{node: n, kinds: make(map[string]routed), maps: make(map[string]*shardMap), peers: peers{}}
}

// Init implements actor.Initializer.
func (r *router) Init(ctx *actor.Context[any]) error {
	ctx.Every("tick", routerTick, stroke(func(ctx *actor.Context[any], r *router) { r.tick(ctx) }))
	return nil
}

// Receive implements actor.Actor.
func (r *router) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case stroke:
		m(ctx, r)
	case task:
		p := actor.Promise(ctx, m)
		m.do(ctx, r, func(err error) {
			if err != nil {
				p.Reject(err)
			} else {
				p.Resolve(true)
			}
		})
	case barrier:
		p := actor.Promise(ctx, m)
		kind := r.kinds[m.Kind]
		if kind == nil || m.Shard < 0 || m.Shard >= kind.shards() {
			p.Reject(fmt.Errorf("%w: no shard %d of %q", actor.ErrStopped, m.Shard, m.Kind))
			return nil
		}
		kind.mark(ctx, m.Shard, &mark{stamp: m.Stamp, want: m.Want, keep: func(err error) {
			if err != nil {
				p.Reject(err)
			} else {
				p.Resolve(true)
			}
		}})
	case resignation:
		p := actor.Promise(ctx, m)
		r.node.keeper.Tell(ctx, func(_ *actor.Context[step], k *keeper) {
			k.resigned = append(k.resigned, func() bool {
				versions, ok := k.heeds(identity{m.Name, m.Join})
				return ok && (p.Resolve(versions) || true)
			})
		})
	case probe:
		p := actor.Promise(ctx, m)
		r.node.keeper.Tell(ctx, func(ctx *actor.Context[step], k *keeper) {
			k.witness(ctx, m, func(err error) {
				if err != nil {
					p.Reject(err)
				} else {
					p.Resolve(true)
				}
			})
		})
	case farewell:
		p, began := actor.Promise(ctx, m), time.Now()
		late := func() bool { return time.Since(began) > markLimit } // the asker has given up
		r.when(ctx, func() bool { return r.knows(m.Maps) || late() }, func() {
			if r.knows(m.Maps) {
				p.Resolve(true)
			} else {
				p.Reject(errNotKnown)
			}
		})
	}
	return nil
}

// Terminate implements actor.Terminator.
func (r *router) Terminate(*actor.Context[any], error) {
	if r.node.alone { // its kinds end with their actors
		return
	}
	r.node.closed.Store(true)
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		r.kinds[name].end()
	}
}

// knows reports whether the maps are of these versions or later ones, and nothing waits for a gate.
func (r *router) knows(versions map[string]uint64) bool {
	for name, v := range versions {
		if kind := r.kinds[name]; kind != nil && (r.maps[name] == nil || r.maps[name].version < v || !kind.settled()) {
			return false
		}
	}
	return true
}

// when calls then as soon as a condition holds.
func (r *router) when(ctx *actor.Context[any], holds func() bool, then func()) {
	if holds() {
		then()
		return
	}
	r.waiting++
	ctx.After(fmt.Sprint("when ", r.waiting), 20*time.Millisecond, stroke(func(ctx *actor.Context[any], r *router) { r.when(ctx, holds, then) }))
}

// tick ends what has waited for too long, and resumes what can continue.
func (r *router) tick(ctx *actor.Context[any]) {
	before := time.Now().Add(-parkTime)
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		r.kinds[name].tick(ctx, before)
	}
}

// follow records a map.
func (r *router) follow(ctx *actor.Context[any], name string, m *shardMap) {
	if had := r.maps[name]; had != nil && had.version >= m.version {
		return
	}
	r.maps[name] = m
	if kind := r.kinds[name]; kind != nil {
		kind.follow(ctx, r, m)
	}
}

// add adds a kind.
func (r *router) add(ctx *actor.Context[any], name string, kind routed) {
	r.kinds[name] = kind
	kind.add(r)
	if m := r.maps[name]; m != nil {
		kind.follow(ctx, r, m)
	}
}

// meet records who this node and its peers are.
func (r *router) meet(ctx *actor.Context[any], self identity, p peers) {
	r.self, r.peers = self, p
	for _, name := range slices.Sorted(maps.Keys(r.kinds)) {
		if m := r.maps[name]; m != nil {
			r.kinds[name].follow(ctx, r, m)
		}
	}
}

// gone reports whether a peer is no longer a member.
func (r *router) gone(p peer) bool {
	for _, q := range r.peers {
		if q == p {
			return false
		}
	}
	return true
}

// ask asks the router of a peer.
func (r *router) ask(ctx *actor.Context[any], p peer, req actor.Request[bool], then func(ctx *actor.Context[any], r *router, err error)) {
	askPeer(ctx, r, p, req, func(ctx *actor.Context[any], r *router, _ bool, err error) { then(ctx, r, err) })
}

func askPeer[R any](ctx *actor.Context[any], r *router, p peer, req actor.Request[R], then func(ctx *actor.Context[any], r *router, answer R, err error)) {
	to, err := actor.Lookup[any](r.node.sys, p.router)
	if err != nil {
		var none R
		then(ctx, r, none, fmt.Errorf("%w: %w", actor.ErrUnreachable, err))
		return
	}
	actor.AskThen(ctx, to, req, func(answer R, err error) any {
		return stroke(func(ctx *actor.Context[any], r *router) { then(ctx, r, answer, err) })
	}, actor.Within(markLimit))
}

// resign asks all others to heed that this node leaves. then gets the versions of the maps after
// which nothing is given to it.
func (r *router) resign(ctx *actor.Context[any], then func(versions map[string]uint64)) {
	versions := make(map[string]uint64)
	others := r.others()
	waits := len(others)
	if waits == 0 {
		then(versions)
	}
	for _, p := range others {
		askPeer(ctx, r, p, resignation{Name: r.self.name, Join: r.self.gen}, func(_ *actor.Context[any], _ *router, answer map[string]uint64, _ error) {
			for name, v := range answer {
				versions[name] = max(versions[name], v)
			}
			if waits--; waits == 0 {
				then(versions)
			}
		})
	}
}

// others returns the peers beside this node.
func (r *router) others() (all []peer) {
	for _, id := range slices.SortedFunc(maps.Keys(r.peers), identity.compare) {
		if id != r.self {
			all = append(all, r.peers[id])
		}
	}
	return all
}

// depart sends a farewell: then is called when nothing passes through this node any more, as far as
// that can be known, not counting retired kinds.
func (r *router) depart(ctx *actor.Context[any], retired map[string]bool, then func(error)) {
	began := time.Now()
	late := func() bool { return time.Since(began) > farewells }
	calm := func() bool { return r.calm(retired) }
	r.when(ctx, func() bool { return calm() || late() }, func() {
		versions := make(map[string]uint64)
		for name, m := range r.maps {
			versions[name] = m.version
		}
		waits := 0
		for _, p := range r.others() {
			waits++
			r.ask(ctx, p, farewell{Maps: versions}, func(*actor.Context[any], *router, error) { waits-- })
		}
		// Answers to forwarded asks pass through here.
		r.when(ctx, func() bool { return waits == 0 && calm() && !r.node.answersPass() || late() }, func() { then(nil) })
	})
}

// calm reports whether nothing waits here, not counting retired kinds.
func (r *router) calm(retired map[string]bool) bool {
	for name, kind := range r.kinds {
		if !retired[name] && !kind.settled() {
			return false
		}
	}
	return true
}

// answersPass reports whether another node has yet to answer an ask that passed through this one.
func (n *Node) answersPass() bool {
	for _, p := range n.sys.Peers() {
		if p.State == "open" && p.Asks > 0 {
			return true
		}
	}
	return false
}

// startRouter starts the router of a node, if it has none. The router of a node that is alone
// survives a failure; any other takes its node down with it.
func (n *Node) startRouter(parent actor.Spawner, name string) (actor.PID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.router.IsZero() {
		return n.router.PID(), nil
	}
	r := newRouter(n)
	var err error
	if n.router, err = actor.TrySpawn(parent, name, func() *router { return r }); err != nil {
		return actor.PID{}, err
	}
	return n.router.PID(), nil
}

// tell tells the router to do something, if there is one.
func (n *Node) tell(do stroke) {
	if n.closed.Load() {
		return
	}
	n.mu.Lock()
	r := n.router
	n.mu.Unlock()
	if !r.IsZero() {
		r.Tell(context.Background(), do)
	}
}

// perform tells the router to do something, and waits until it has.
func (n *Node) perform(ctx context.Context, do func(ctx *actor.Context[any], r *router, done func(error))) error {
	n.mu.Lock()
	r := n.router
	n.mu.Unlock()
	_, err := actor.Ask(ctx, r, task{do: do}, actor.Within(localForAsk))
	return err
}
