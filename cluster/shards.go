package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Shard is a part of the keys of a group, held by a member.
type Shard struct {
	Group  string
	Number int
	// Epoch is greater than that of every earlier holder of the shard. A store that refuses writes
	// with a lower epoch than it has seen is safe from earlier holders, even from one that does not
	// know yet that its lease has ended.
	Epoch uint64
}

// Holder holds the shards of a group on a member. Its methods are called one at a time for each
// shard, and concurrently for several, at most 16. When the member has ended, Drop does not wait
// for a Take or Give in progress.
type Holder interface {
	// Take makes the holder take a shard: it claims the shard in the store with the epoch before it
	// reads anything. When Take has returned nil the shard is held; after an error it is called
	// again. Its ctx ends when the shard is lost.
	Take(ctx context.Context, s Shard) error
	// Give makes the holder stop using a shard that goes to another member, or that nobody else
	// takes when this one leaves, and complete its writes. Once it has returned, the shard must not
	// be used; an error is logged. Its ctx ends when the shard is lost.
	Give(ctx context.Context, s Shard) error
	// Drop tells the holder that a shard is lost because the lease has ended: it must no longer
	// write to the shard. It follows a Take, and a Give that has returned an error or returned too
	// late. It must not block.
	Drop(s Shard)
}

// Shards is a group of shards, some of which this member holds. It is safe for concurrent use.
type Shards struct {
	m     *Node
	name  string
	held  []atomic.Uint64 // the epochs with which they are held, 0 if not held
	known atomic.Pointer[shardMap]

	versions Versions // of the holder; does not change
}

// Host makes a member take its share of the n shards of a group. All members that host the group
// must use the same n. A holder that is [Versioned] says which of its shards it can take. It does not wait.
//
// It panics if n is not positive or the holder is nil. It fails if the name of the group is empty
// or has a '/', if n is more than 16 384, if the [Versions] of the holder cannot be, if the member
// hosts it already, or has ended.
func Host(m *Node, group string, n int, holder Holder) (*Shards, error) {
	required(n > 0, "Host: the number of shards must be positive, not %d", n)
	required(holder != nil, "Host: the holder is nil")
	if group == "" || strings.Contains(group, "/") {
		return nil, fmt.Errorf("host a group of shards: the name %q must not be empty or have a '/'", group)
	}
	if v := versionsOf(holder); !v.valid() {
		return nil, fmt.Errorf("host the group %q: its versions are %+v: Writes must be positive, and from Oldest to Newest", group, v)
	}
	if err := m.reserve(group, n); err != nil {
		return nil, fmt.Errorf("host the group %q: %w", group, err)
	}
	return m.host(group, n, holder), nil
}

// host is Host for a reserved group. Without a holder the member only follows the map.
func (m *Node) host(group string, n int, holder Holder) *Shards {
	s := &Shards{m: m, name: group, held: make([]atomic.Uint64, n), versions: versionsOf(holder)}
	m.keeper.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) { k.host(ctx, s, holder) })
	return s
}

// shardsMost is the most shards of a group: engines limit the size of a value, for example NATS to
// 1 MB, and a shard takes up to about 30 bytes of the map, whose size is at most MaxValue.
const shardsMost = 1 << 14

// reserve records that a group of n shards is hosted.
func (m *Node) reserve(group string, n int) error {
	if n > shardsMost {
		return fmt.Errorf("it would have %d shards: there may be at most %d, since an engine keeps their map as one value", n, shardsMost)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alone {
		return errors.New("the node is alone: it has to join a cluster")
	}
	if m.hosts[group] {
		return fmt.Errorf("%w: the member has it already", actor.ErrNameTaken)
	}
	if m.hasEnded() {
		return fmt.Errorf("the member has ended: %w", cmp.Or(m.err, actor.ErrStopped))
	}
	m.hosts[group] = true
	return nil
}

// unreserve undoes reserve.
func (m *Node) unreserve(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, group)
}

// Name returns the name of the group.
func (s *Shards) Name() string { return s.name }

// Len returns how many shards the group has.
func (s *Shards) Len() int { return len(s.held) }

// Held returns the epoch with which this member holds a shard at this moment. It reports false if
// the member does not hold it. It costs two loads and a read of the clock.
func (s *Shards) Held(number int) (epoch uint64, ok bool) {
	epoch = s.held[number].Load()
	return epoch, epoch > 0 && s.m.Valid()
}

// Owner returns the name of the member that has a shard, as far as this member knows. It reports
// false if nobody has it.
func (s *Shards) Owner(number int) (member string, ok bool) {
	m := s.known.Load()
	if m == nil {
		return "", false
	}
	owner := m.slots[number].owner
	return owner.name, owner != identity{}
}

// group is the keeper's view of the shards of a group. It is owned by the keeper's turn.
type group struct {
	shards *Shards
	holder Holder
	m      *shardMap // the newest that is known, nil for none
	rev    Revision
	absent bool // there is none
	holds  []hold
	calls  int // of the holder, under way

	asking  bool          // a map is being put or read
	pausing time.Duration // the engine has failed: it is not called again before this time, unless the map changes
	wanted  Revision      // the map's revision when a change became necessary,
	wanting time.Duration // and when that was, 0 for nothing
}

// hold is what the member does with a shard.
type hold struct {
	state  holdState
	epoch  uint64
	cancel context.CancelFunc // of the Take or Give under way
	lost   bool               // it has to be dropped when that has returned
	dirty  bool               // it was taken and not given since: parts of it may still run

	retires bool // the member leaves, and no other could take it

	notBefore time.Duration // it is not taken again before this time
}

const (
	callsMost = 16          // calls of a holder at the same time
	takeAgain = time.Second // the wait before a failed Take is retried
	askAgain  = 100 * time.Millisecond
)

type holdState uint8

const (
	holdsNot holdState = iota
	takes
	has
	gives
	gave // and has not told the others
)

// host adds a group.
func (k *keeper) host(ctx *actor.Context[step], s *Shards, holder Holder) {
	g := &group{shards: s, holder: holder, holds: make([]hold, len(s.held))}
	k.groups[s.name] = g
	if holder != nil {
		if s.versions != (Versions{}).withDefaults() {
			k.own.Versions = maps.Clone(k.own.Versions)
			if k.own.Versions == nil {
				k.own.Versions = make(map[string]Versions)
			}
			k.own.Versions[s.name] = s.versions
		}
		k.own.Groups = append(k.own.Groups, s.name)
		k.renew(ctx)
	}
	key := mapPrefix + s.name
	k.watch(ctx, key, func(_ *keeper, _ *actor.Context[step], e Entry) {
		if e.Key == key {
			g.saw(k, e)
		}
	})
	if holder != nil {
		g.ask(ctx, k)
	}
}

// owned returns how many shards the member has, as far as it knows, and how many of them another
// member could take.
func (g *group) owned(id identity) (all, movable int) {
	if g.m == nil {
		return 0, 0
	}
	for i := range g.m.slots {
		if g.m.slots[i].owner == id {
			all++
			if !g.holds[i].retires {
				movable++
			}
		}
	}
	return all, movable
}

// busy reports whether something is under way that must end first.
func (g *group) busy() bool {
	for i := range g.holds {
		if s := g.holds[i].state; s == takes || s == gives {
			return true
		}
	}
	return g.asking
}

// has reports whether the member holds a shard.
func (g *group) has() bool {
	return slices.ContainsFunc(g.holds, func(h hold) bool { return h.state == has })
}

// saw records a map.
func (g *group) saw(k *keeper, e Entry) {
	if e.Revision <= g.rev {
		return
	}
	m, err := decodeMap(e.Value, len(g.holds))
	if err != nil {
		k.m.sys.Log().Error("map of shards is not used", slog.String("group", g.shards.name), slog.String("error", err.Error()))
		return
	}
	g.m, g.rev, g.absent, g.pausing = m, e.Revision, false, 0
	g.shards.known.Store(m)
	k.m.tell(func(ctx *actor.Context[any], r *router) { r.follow(ctx, g.shards.name, m) })
}

// canGive reports whether another member could take a shard of that version.
func (g *group) canGive(c census, id identity, version int) bool {
	others := slices.DeleteFunc(c.taking(g.shards.name), func(other identity) bool { return other == id })
	return len(c.able(others, g.shards.name, version)) > 0
}

// retire records which shards of the member, which is leaving, no other member could take.
func (g *group) retire(c census, id identity) {
	can := make(map[int]bool) // by version
	for i := range g.m.slots {
		v := max(g.m.slots[i].version, c[id.name].versions(g.shards.name).Writes)
		if _, ok := can[v]; !ok {
			can[v] = g.canGive(c, id, v)
		}
		g.holds[i].retires = !can[v]
	}
}

// ask reads the map.
func (g *group) ask(ctx *actor.Context[step], k *keeper) {
	g.asking = true
	k.get(ctx, mapPrefix+g.shards.name, func(_ *actor.Context[step], e Entry, err error) {
		g.asking = false
		switch {
		case err != nil:
			g.pausing = k.now() + askAgain
		case e.Revision == 0:
			g.absent = g.m == nil
		default:
			g.saw(k, e)
		}
	})
}

// act does what the map says, and makes the changes of the map that are up to this member.
func (g *group) act(ctx *actor.Context[step], k *keeper) {
	if g.holder == nil { // the watch is enough
		return
	}
	if g.m == nil {
		if !g.asking && !g.absent && k.now() >= g.pausing {
			g.ask(ctx, k)
		}
		if !g.absent || g.asking || !k.m.Valid() || k.leaving {
			return
		}
	}
	valid := k.m.Valid()
	if g.m != nil {
		if k.leaving {
			g.retire(k.census(), k.id())
		}
		for i := range g.holds {
			g.follow(ctx, k, i, valid)
		}
	}
	if valid && !g.asking && k.now() >= g.pausing {
		g.propose(ctx, k)
	}
}

// follow does what the map says of a shard.
func (g *group) follow(ctx *actor.Context[step], k *keeper, i int, valid bool) {
	s, h := &g.m.slots[i], &g.holds[i]
	mine, moves := valid && s.owner == k.id(), s.next != identity{}
	switch {
	case h.state != holdsNot && (!mine || h.epoch != s.epoch):
		g.drop(i)
	case !mine || g.calls >= callsMost || k.now() < h.notBefore:
	case h.state == has && (moves || h.retires):
		g.give(ctx, k, i)
	case h.retires && !moves:
	case (h.state == holdsNot || h.state == gave) && !moves, h.state == holdsNot && h.dirty:
		g.take(ctx, k, i, s.epoch)
	}
}

func (g *group) shard(i int) Shard { return Shard{g.shards.name, i, g.holds[i].epoch} }

// under calls a method of the holder, and then does the remaining work.
func (g *group) under(ctx *actor.Context[step], k *keeper, i int, call func(ctx context.Context, s Shard) error, then func(err error)) {
	h, shard := &g.holds[i], g.shard(i)
	until, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	g.calls++
	actor.Pipe(ctx, func(context.Context) (struct{}, error) {
		return struct{}{}, call(until, shard)
	}, func(_ struct{}, err error) step {
		return func(*actor.Context[step], *keeper) {
			cancel()
			g.calls--
			if h.lost {
				*h = hold{dirty: true}
				g.holder.Drop(shard)
				return
			}
			if err != nil {
				k.m.sys.Log().Warn("holder of shards has failed", slog.String("group", shard.Group), slog.Int("shard", shard.Number), slog.String("error", err.Error()))
			}
			then(err)
		}
	})
}

// take makes the holder take a shard.
func (g *group) take(ctx *actor.Context[step], k *keeper, i int, epoch uint64) {
	h := &g.holds[i]
	*h = hold{state: takes, epoch: epoch, dirty: true}
	g.under(ctx, k, i, g.holder.Take, func(err error) {
		if err != nil {
			*h = hold{notBefore: k.now() + takeAgain, dirty: true}
			g.holder.Drop(Shard{g.shards.name, i, epoch})
			return
		}
		h.state = has
		g.shards.held[i].Store(epoch)
	})
}

// give makes the holder give a shard away.
func (g *group) give(ctx *actor.Context[step], k *keeper, i int) {
	h := &g.holds[i]
	h.state = gives
	g.shards.held[i].Store(0)
	g.under(ctx, k, i, g.holder.Give, func(err error) {
		if err != nil {
			g.holder.Drop(g.shard(i))
		}
		h.state, h.dirty = gave, false
	})
}

// drop ends the use of a shard. A Take or Give under way has to return first.
func (g *group) drop(i int) {
	h := &g.holds[i]
	g.shards.held[i].Store(0)
	switch h.state {
	case takes, gives:
		if !h.lost {
			h.lost = true
			h.cancel()
		}
	case has:
		shard := g.shard(i)
		*h = hold{dirty: true}
		g.holder.Drop(shard)
	default:
		*h = hold{dirty: h.dirty}
	}
}

// abandon drops all shards at the end of the member, which no longer learns of calls under way. It
// returns the first panic of the holder, which must not keep the other shards from being dropped.
func (g *group) abandon() (first error) {
	for i := range g.holds {
		if err := g.abandonOne(i); first == nil {
			first = err
		}
	}
	return first
}

func (g *group) abandonOne(i int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &actor.PanicError{Value: v}
		}
	}()
	g.drop(i)
	if g.holds[i].lost {
		g.holder.Drop(g.shard(i))
	}
	return nil
}

func (g *group) dropAll() {
	for i := range g.holds {
		g.drop(i)
	}
}

// propose puts a map with the changes that are up to this member.
func (g *group) propose(ctx *actor.Context[step], k *keeper) {
	next := newShardMap(len(g.holds), time.Now().UnixMilli())
	before := next
	if g.m != nil {
		before, next = g.m, g.m.clone()
	}
	changed, c := false, k.census()
	for i := range next.slots {
		s, h := &next.slots[i], &g.holds[i]
		if s.owner == k.id() && s.next != (identity{}) && c.knows(s.next) && (h.state == gave || h.state == holdsNot && !h.dirty) {
			s.own(s.next)
			changed = true
		}
	}
	if g.mayPlan(k, next) {
		changed = true
	}
	if !changed {
		return
	}
	next.wrote(c, g.shards.name)
	k.m.cfg.rules.epochs(before, next)
	g.asking = true
	value := next.encode()
	key := mapPrefix + g.shards.name
	k.put(ctx, key, value, g.rev, func(ctx *actor.Context[step], rev Revision, err error) {
		g.asking = false
		if err != nil {
			g.pausing = k.now() + askAgain
			g.ask(ctx, k)
			return
		}
		g.saw(k, Entry{Key: key, Value: value, Revision: rev})
	})
}

// mayPlan makes the coordinator's changes, if this member is the coordinator or those before it
// have done nothing for a while. It reports whether it has made any.
func (g *group) mayPlan(k *keeper, next *shardMap) bool {
	c := k.census()
	planned := next.clone()
	gone := func(id identity) bool { return k.m.cfg.rules.gone(c, id) }
	if !planned.plan(c, g.shards.name, gone, k.settled()) {
		g.wanting = 0
		return false
	}
	if g.wanting == 0 || g.wanted != g.rev {
		g.wanted, g.wanting = g.rev, k.now()
	}
	if k.now()-g.wanting < time.Duration(k.rank(c, g.shards.name))*rankDelay {
		return false
	}
	*next = *planned
	return true
}
