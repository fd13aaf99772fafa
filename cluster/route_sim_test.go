package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/sim"
)

const routeKeys = 6

// routeWorld is a cluster in virtual time whose nodes have virtual actors that write to a store.
type routeWorld struct {
	*simWorld
	cutsOff  bool // nodes are cut off for longer than their leases, and nothing else
	planned  bool // nodes come and leave in order, and nothing is lost
	suspends bool // machines stand still, and nothing else
	plant    routePlant
	kinds    map[*simNode]*cluster.Kind[msg]
	clients  []*routeClient
	store    [simShards]shelf

	begun   [simShards]epochOf // of activations, as they begin to handle
	awake   [simShards]*wakeful
	got     map[string][]int // what actors were told, by client and key
	acked   map[string][]int // what was acknowledged, by key
	next    int              // the number of the next thing to be written
	unknown int              // asks whose outcome nobody knows
	late    int              // messages that a node has handled which did not know that its lease was over
}

type epochOf struct {
	epoch uint64
	node  string
}

// shelf is a shard in the store.
type shelf struct {
	claimed uint64
	values  map[string][]int
}

// routePlant is a mistake.
type routePlant uint8

const (
	noPlant routePlant = iota
	noBarrier
	lateClaim
	oldEpochs
	noMargin
	falseProof
)

// routeClient tells and asks from one node.
type routeClient struct {
	*routeWorld
	node *simNode
	ref  actor.Ref[string]
	name string
	sent map[string]int
}

func newRouteWorld(planned bool, plant routePlant) *routeWorld {
	r := &routeWorld{
		simWorld: new(simWorld), planned: planned, plant: plant, kinds: make(map[*simNode]*cluster.Kind[msg]),
		got: make(map[string][]int), acked: make(map[string][]int),
	}
	for i := range r.store {
		r.store[i].values = make(map[string][]int)
	}
	r.host = r.register
	r.config = func(cfg *cluster.Config) {
		switch plant {
		case noBarrier:
			cfg.NoGates()
		case lateClaim:
			cfg.LateClaims()
		case noMargin:
			cfg.Plant(cluster.Mistakes["the lease begins when the renewal ends, and has no margin"])
		default:
		}
	}
	if plant != noPlant {
		r.mistake = "planted"
	}
	return r
}

// register has a node take its part of the actors, and send.
func (r *routeWorld) register(n *simNode) {
	kind, err := cluster.RegisterSpawned(n.member, "reg", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
		return actor.TrySpawn(at.Parent, at.Key, func() *ledger { return &ledger{r: r, n: n, at: at} }, opts...)
	}, cluster.ShardCount(simShards), cluster.IdleAfter(5*time.Second), cluster.Claiming(func(ctx context.Context, s cluster.Shard) error {
		takes := 50 * time.Millisecond
		if r.plant == lateClaim {
			takes = 3 * time.Second // for its consequences to be likely
		}
		if err := n.wait(ctx, takes); err != nil {
			return err
		}
		sh := &r.store[s.Number]
		if s.Epoch < sh.claimed {
			return errFencedInSim
		}
		sh.claimed = s.Epoch
		return nil
	}))
	if err != nil {
		r.w.Fatalf("register: %v", err)
	}
	r.kinds[n] = kind
	c := &routeClient{routeWorld: r, node: n, name: fmt.Sprint(n.name, n.sys.Incarnation()), sent: make(map[string]int)}
	c.ref = actor.SpawnFunc(n.sys, "client", c.receive, actor.Reentrant())
	r.clients = append(r.clients, c)
	if !r.planned {
		n.chaos = true
	}
}

// ledger is a virtual actor: a list of numbers that it reads when it begins, and writes as a whole.
type ledger struct {
	r      *routeWorld
	n      *simNode
	at     cluster.Activation
	values []int
	broken bool // something that it has was not written
}

// Init reads.
func (a *ledger) Init(ctx *actor.Context[msg]) error {
	a.begins("is activated")
	a.values = slices.Clone(a.r.store[a.at.Shard.Number].values[a.at.Key])
	return ctx.Sleep(a.r.w.Sometime(20 * time.Millisecond))
}

// begins checks that nobody has begun with a greater epoch.
func (a *ledger) begins(what string) {
	b := &a.r.begun[a.at.Shard.Number]
	switch e := a.at.Shard.Epoch; {
	case e < b.epoch && a.n.slept > 0: // it may not know yet
		a.r.late++
	case e < b.epoch:
		a.r.wrong("%s %s %s with the epoch %d, and %s has had %d", a.at.Key, what, a.n.name, e, b.node, b.epoch)
	case e == b.epoch && b.node != a.n.name:
		a.r.wrong("%s %s %s with the epoch %d, which is that of %s", a.at.Key, what, a.n.name, e, b.node)
	default:
		*b = epochOf{e, a.n.name}
	}
}

// Receive handles a number that is to be written, or notes that of a tell.
func (a *ledger) Receive(ctx *actor.Context[msg], m msg) error {
	a.begins("handles")
	if a.broken { // it has to read anew
		ctx.Stop()
		return errFencedInSim
	}
	if m.from != 0 { // told
		client := a.r.clients[m.from-1].name
		line := client + " " + a.at.Key
		a.r.got[line] = append(a.r.got[line], m.n)
		return nil
	}
	a.values = append(a.values, m.n)
	values := slices.Clone(a.values)
	seldom := 4
	if a.r.plant == lateClaim {
		seldom = 1
	}
	if !a.r.planned && !a.r.quiet && a.r.w.Rand().IntN(seldom) == 0 { // the store takes its time, and the actor does not wait
		answer := actor.Promise(ctx, m)
		a.r.w.At(a.r.w.Sometime(simTTL), func() {
			if err := a.write(values); err != nil {
				answer.Reject(err)
				a.broken = true
			} else {
				answer.Resolve(len(values))
			}
		})
		return nil
	}
	if err := ctx.Sleep(a.r.w.Sometime(30 * time.Millisecond)); err != nil { // the write is under way
		a.broken = true
		return err
	}
	if err := a.write(values); err != nil {
		ctx.Stop()
		return err
	}
	actor.ReplyFor(ctx, len(values))
	return nil
}

// write appends the last of values to the others, which must be what the store has.
func (a *ledger) write(values []int) error {
	sh, begun := &a.r.store[a.at.Shard.Number], &a.r.begun[a.at.Shard.Number]
	switch e := a.at.Shard.Epoch; {
	case e < sh.claimed && a.r.plant != oldEpochs:
		return errFencedInSim
	case !slices.Equal(values[:len(values)-1], sh.values[a.at.Key]):
		return errFencedInSim
	case e < begun.epoch:
		a.r.wrong("%s writes %s with the epoch %d, after %s has begun with %d", a.n.name, a.at.Key, e, begun.node, begun.epoch)
	}
	sh.values[a.at.Key] = values
	return nil
}

func routeKey(i int) string { return fmt.Sprint("k", i) }

// receive has the client do something with a key.
func (c *routeClient) receive(ctx *actor.Context[string], key string) error {
	if key == "" { // the outcome of an ask
		return nil
	}
	kind := c.kinds[c.node]
	if c.w.Rand().IntN(3) > 0 {
		c.sent[key]++
		from := slices.Index(c.clients, c) + 1
		kind.Ref(key).Tell(ctx, msg{from: from, n: c.sent[key]})
		return nil
	}
	c.next++
	n := c.next
	actor.AskThen(ctx, kind.Ref(key), msg{n: n}, func(_ int, err error) string {
		switch {
		case err == nil:
			c.acked[key] = append(c.acked[key], n)
		case c.planned && c.mistake == "":
			c.w.Fatalf("an ask of %s to %s has failed: %v", c.name, key, err)
		default:
			c.unknown++
		}
		return ""
	}, actor.Within(60*time.Second))
	return nil
}

// busy has each node that is up send for a while.
func (r *routeWorld) busy(times int) {
	for range times {
		if r.found != "" {
			return
		}
		r.w.Advance(r.w.Sometime(200 * time.Millisecond))
		for _, n := range r.up() {
			for _, c := range r.clients {
				if c.node == n && !n.leaving {
					c.ref.Tell(context.Background(), routeKey(r.w.Rand().IntN(routeKeys)))
				}
			}
		}
	}
}

// inOrder checks what was told: nothing comes twice, and where all is planned nothing is missing or out of
// order.
func (r *routeWorld) inOrder() error {
	for _, c := range r.clients {
		for i := range routeKeys {
			key := routeKey(i)
			got := r.got[c.name+" "+key]
			if r.planned {
				for i, n := range got {
					if n != i+1 {
						return fmt.Errorf("%s has had %v from %s", key, got, c.name)
					}
				}
				continue
			}
			once := slices.Compact(slices.Sorted(slices.Values(got)))
			if len(once) < len(got) {
				return fmt.Errorf("%s has had something twice from %s: %v", key, c.name, got)
			}
		}
	}
	return nil
}

// nothingMissing checks at the end what was told and acknowledged.
func (r *routeWorld) nothingMissing() error {
	if err := r.inOrder(); err != nil {
		return err
	}
	for i := range routeKeys {
		key := routeKey(i)
		if r.planned {
			for _, c := range r.clients {
				if got := len(r.got[c.name+" "+key]); got != c.sent[key] {
					return fmt.Errorf("%s has had %d of %d from %s", key, got, c.sent[key], c.name)
				}
			}
		}
		var values []int
		for s := range r.store {
			values = append(values, r.store[s].values[key]...)
		}
		for _, n := range r.acked[key] {
			if count := len(values) - len(slices.DeleteFunc(slices.Clone(values), func(v int) bool { return v == n })); count != 1 {
				return fmt.Errorf("%d was acknowledged by %s, and is there %d times: %v", n, key, count, values)
			}
		}
	}
	return nil
}

// checked is nothingMissing, or notes that the planted mistake was found.
func (r *routeWorld) checked(check func() error) func() error {
	return func() error {
		err := check()
		if err != nil && r.mistake != "" {
			r.found, err = err.Error(), nil
		}
		return err
	}
}

// allAnswer checks that all keys answer on all nodes.
func (r *routeWorld) allAnswer() {
	waits := 0
	for _, n := range r.up() {
		for i := range routeKeys {
			key := routeKey(i)
			r.next++
			number := r.next
			waits++
			actor.SpawnFunc(n.sys, "asker-*", func(ctx *actor.Context[int], _ int) error {
				_, err := actor.Ask(ctx, r.kinds[n].Ref(key), msg{n: number}, actor.Within(30*time.Second))
				if err != nil && r.mistake == "" {
					r.w.Fatalf("%s does not answer %s: %v", key, n.name, err)
				}
				waits--
				return nil
			}).Tell(context.Background(), 0)
		}
	}
	r.w.Eventually(40*time.Second, "all keys answer", func() error {
		if waits > 0 {
			return fmt.Errorf("%d have not answered", waits)
		}
		return nil
	})
}

// change has a node come, leave, be cut off or crash.
func (r *routeWorld) change(names []string) {
	name := names[r.w.Rand().IntN(len(names))]
	i := slices.IndexFunc(r.up(), func(n *simNode) bool { return n.name == name && !n.leaving })
	if i < 0 {
		if !slices.ContainsFunc(r.up(), func(n *simNode) bool { return n.name == name }) {
			r.w.Logf("%s starts", name)
			r.start(name)
		}
		return
	}
	n, rest := r.up()[i], 0
	for _, other := range r.up() {
		if other != n && !other.leaving {
			rest++
		}
	}
	switch what := r.w.Rand().IntN(4); {
	case r.planned || what == 0:
		if rest > 0 {
			r.w.Logf("%s leaves", name)
			n.leaving = true
			n.member.BeginToLeave()
		}
	case what == 1:
		r.w.Logf("%s crashes", name)
		r.start(name)
	case what == 2: // the sessions of two nodes stand still; both have the engine
		if others := slices.DeleteFunc(r.up(), func(o *simNode) bool { return o.name == name }); len(others) > 0 {
			r.mesh.toggle(name, others[r.w.Rand().IntN(len(others))].name)
		}
	default:
		n.cut = !n.cut
	}
}

// crowd has all nodes send a lot.
func (r *routeWorld) crowd(d time.Duration) {
	for until := r.w.Elapsed() + d; r.w.Elapsed() < until && r.found == ""; {
		r.w.Advance(r.w.Sometime(60 * time.Millisecond))
		for _, c := range r.clients {
			if slices.Contains(r.up(), c.node) && !c.node.leaving {
				c.ref.Tell(context.Background(), routeKey(r.w.Rand().IntN(routeKeys)))
			}
		}
	}
}

// cutOff cuts a node off for longer than its lease.
func (r *routeWorld) cutOff() {
	up := r.up()
	if len(up) == 0 {
		return
	}
	n := up[r.w.Rand().IntN(len(up))]
	n.cut = true
	r.w.Advance(simTTL * 2 / 3)
	r.crowd(simTTL)
	n.cut = false
	r.busy(30)
	if slices.Contains(r.up(), n) {
		return
	}
	r.start(n.name)
	r.busy(20)
}

// suspend has a machine stand still for longer than its lease, and its clock with it. What it does in that
// time it would do as soon as it goes on: here it does so at once, and hears of nobody.
func (r *routeWorld) suspend() {
	up := r.up()
	if len(up) == 0 {
		return
	}
	n := up[r.w.Rand().IntN(len(up))]
	r.w.Logf("%s is suspended", n.name)
	others := slices.DeleteFunc(r.up(), func(o *simNode) bool { return o == n })
	n.cut, n.sleeps = true, time.Now()
	n.slept++ // it counts as one that was
	for _, o := range others {
		r.mesh.toggle(n.name, o.name)
	}
	r.w.Advance(simTTL)
	r.crowd(2 * simTTL)
	for _, o := range others {
		r.mesh.toggle(n.name, o.name)
	}
	n.slept += time.Since(n.sleeps)
	n.cut, n.sleeps = false, time.Time{}
	r.busy(30)
	r.w.Eventually(simTTL, "who was suspended knows that it was declared dead", func() error {
		if slices.Contains(r.up(), n) {
			return fmt.Errorf("%s is a member yet", n.name)
		}
		return nil
	})
	r.start(n.name)
	r.busy(20)
}

func (r *routeWorld) play(w *sim.World) {
	r.w, r.mesh = w, newMesh(w)
	r.mesh.lies = r.plant == falseProof
	w.Always("messages come in order", r.checked(r.inOrder))
	names := []string{"a", "b", "c"}
	for _, name := range names {
		r.start(name)
		w.Advance(w.Sometime(2 * time.Second))
	}
	r.busy(20)
	for range 5 {
		if r.found != "" {
			return
		}
		switch {
		case r.suspends:
			r.suspend()
		case r.cutsOff && r.planned:
			r.change(names)
			r.crowd(2 * time.Second)
		case r.cutsOff:
			r.cutOff()
		default:
			r.change(names)
			r.busy(10 + w.Rand().IntN(60))
		}
	}
	r.quiet = true
	r.mesh.heal()
	for _, n := range r.nodes {
		n.cut = false
	}
	w.Advance(3 * simTTL)
	for _, name := range names {
		if !slices.ContainsFunc(r.up(), func(n *simNode) bool { return n.name == name }) {
			r.start(name)
		}
	}
	w.Advance(3 * simTTL)
	if r.found != "" {
		return
	}
	w.Eventually(10*simTTL, "nothing is missing", r.checked(r.nothingMissing))
	r.allAnswer()
	r.nothingLeft()
}

// nothingLeft checks that nodes that are at rest keep nothing of what was.
func (r *routeWorld) nothingLeft() {
	if r.mistake != "" {
		return
	}
	r.w.Eventually(10*simTTL, "nothing is left over", func() error {
		for _, n := range r.up() {
			if err := r.kinds[n].Leftovers(); err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
		}
		return nil
	})
	for _, n := range r.up() {
		n.member.LeftoversThen(func(count int) {
			if count > 0 {
				r.w.Fatalf("%s: %d promises and proofs are under way", n.name, count)
			}
		})
	}
	r.w.Advance(time.Second)
}

func TestSimOrderIsKeptOverPlannedMoves(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 4, 2500), Steps: 2_000_000}, func(w *sim.World) { newRouteWorld(true, noPlant).play(w) })
}

func TestSimNothingAcknowledgedIsLost(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 2, 2500), Steps: 2_000_000}, func(w *sim.World) { newRouteWorld(false, noPlant).play(w) })
}

// TestSimASuspendedMachineWritesNothing has machines whose clocks stand still while others take over: such a node
// takes its lease for valid, and handles messages. The epochs are what keeps it from writing.
func TestSimASuspendedMachineWritesNothing(t *testing.T) {
	late := 0
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 1, 500), Steps: 2_000_000}, func(w *sim.World) {
		r := newRouteWorld(false, noPlant)
		r.suspends = true
		r.play(w)
		late += r.late
	})
	if late == 0 {
		t.Error("nobody has handled anything after its lease: nothing was tested")
	}
}

// TestSimPlantedRoutingMistakesAreFound shows that the checks can fail.
func TestSimPlantedRoutingMistakesAreFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		plant   routePlant
		planned bool
	}{
		{"a barrier is left out", noBarrier, true},
		{"a claim after the read", lateClaim, false},
		{"an old epoch is accepted", oldEpochs, false},
		{"a lease that ignores the margin", noMargin, false},
		{"an address for which something else refuses", falseProof, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			find(t, func(w *sim.World) string {
				r := newRouteWorld(c.planned, c.plant)
				r.suspends = c.plant == oldEpochs
				r.cutsOff = !r.suspends
				r.play(w)
				return r.found
			})
		})
	}
}
