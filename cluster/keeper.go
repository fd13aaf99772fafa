package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// step is something for the keeper to do. One actor does everything that a member does; calls of
// the engine and of holders run on goroutines of their own, and their results come back as steps.
type step func(ctx *actor.Context[step], k *keeper)

// keeper keeps the lease of a member, watches over the others, and holds its shards.
//
// The lease is the member's record: it holds for TTL less Margin from the beginning of the last
// renewal that has certainly succeeded. A member that wants to declare another dead waits TTL after
// it last saw a change of the other's record, and puts its verdict at that revision: if the record
// was renewed meanwhile, that is a conflict. So when the record says "dead" the lease has been over
// for at least Margin, whatever the clocks of the two say, if their speeds differ by less than
// Margin in TTL.
//
// All fields are owned by the actor's turn.
type keeper struct {
	m      *Node
	own    record
	rev    Revision // of this member's record, as far as known
	joined bool     // the record is this member's

	renewing  bool
	declaring bool
	proving   map[identity]time.Duration // members whose end is being proved, and since when
	leaving   bool

	resigned    []func() bool     // callers that wait until this member heeds that they leave; each returns true when it does
	must        map[string]uint64 // the versions of maps that the others must know before it has left, nil while unknown
	departing   bool
	hasDeparted bool

	sightings  map[string]sighting
	knowCopies map[string]func(away []actor.PID) // by the name of what is everywhere
	groups     map[string]*group
	stops      []func() // of watches
	parting    error    // why it ends
	wasDropped bool     // the lease has ended, and everything was dropped
}

// sighting is the record of a member as last seen.
type sighting struct {
	record
	rev   Revision
	at    time.Duration // when this revision was seen
	first time.Duration // when this member was first seen
}

const (
	nodePrefix = "node/"
	mapPrefix  = "map/"
)

func newKeeper(m *Node) *keeper {
	own := record{Join: 1, System: m.sys.Incarnation(), State: stateUp, Since: time.Now().UnixMilli(), TTL: m.cfg.TTL.Milliseconds(), Addr: m.cfg.Advertise, Proc: m.cfg.rules.proc}
	return &keeper{m: m, own: own, sightings: make(map[string]sighting), knowCopies: make(map[string]func([]actor.PID)), proving: make(map[identity]time.Duration), groups: make(map[string]*group), parting: actor.ErrStopped}
}

func (k *keeper) now() time.Duration { return k.m.cfg.rules.clock() }

func (k *keeper) id() identity { return identity{k.m.sys.Name(), k.own.Join} }

func (k *keeper) key() string { return nodePrefix + k.m.sys.Name() }

// Init implements actor.Initializer.
func (k *keeper) Init(ctx *actor.Context[step]) error {
	router, err := k.m.startRouter(ctx, "router")
	if err != nil {
		return err
	}
	if k.m.links != nil {
		k.own.Router = router.String()
	}
	k.watch(ctx, nodePrefix, (*keeper).saw)
	ctx.Every("tick", k.m.cfg.TTL/12, func(ctx *actor.Context[step], k *keeper) { k.tick(ctx) })
	if k.trusts() {
		ctx.Every("proof", proofTick, func(ctx *actor.Context[step], k *keeper) { k.prove(ctx) })
	}
	k.renew(ctx)
	return nil
}

// Receive implements actor.Actor.
func (k *keeper) Receive(ctx *actor.Context[step], do step) error {
	do(ctx, k)
	for _, name := range slices.Sorted(maps.Keys(k.groups)) {
		k.groups[name].act(ctx, k)
	}
	k.resigned = slices.DeleteFunc(k.resigned, func(over func() bool) bool { return over() })
	return nil
}

// heeds reports whether, as far as this member decides, no map after these versions gives anything
// to a member that leaves.
func (k *keeper) heeds(id identity) (versions map[string]uint64, ok bool) {
	c := k.census()
	if !c.is(id, stateLeaving) && !c.gone(id) {
		return nil, false
	}
	versions = make(map[string]uint64)
	for name, g := range k.groups {
		if g.m == nil {
			continue
		}
		if g.asking || slices.ContainsFunc(g.m.slots, func(s slot) bool { return s.next == id }) {
			return nil, false
		}
		versions[name] = g.m.version
	}
	return versions, true
}

// Terminate implements actor.Terminator. The member stops using what it holds at once.
func (k *keeper) Terminate(_ *actor.Context[step], why error) {
	k.m.until.Store(-1)
	if why != nil {
		k.parting = why
	}
	defer func() { // whatever panics here
		k.m.err = k.parting
		close(k.m.over)
	}()
	for _, stop := range k.stops {
		stop()
	}
	for _, name := range slices.Sorted(maps.Keys(k.groups)) {
		if err := k.groups[name].abandon(); err != nil {
			k.m.sys.Log().Error("holder of shards has failed", slog.String("group", name), slog.String("error", err.Error()))
			if why == nil {
				why, k.parting = err, err
			}
		}
	}
}

// watch tells the keeper what it sees.
func (k *keeper) watch(ctx *actor.Context[step], prefix string, saw func(*keeper, *actor.Context[step], Entry)) {
	self := ctx.Self()
	k.stops = append(k.stops, k.m.cfg.Engine.Watch(prefix, func(e Entry) {
		self.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) { saw(k, ctx, e) })
	}))
}

// put sets a key, and then does the remaining work.
func (k *keeper) put(ctx *actor.Context[step], key string, value []byte, was Revision, then func(ctx *actor.Context[step], rev Revision, err error)) {
	engine, patience := k.m.cfg.Engine, min(putPatience, k.m.cfg.TTL/6)
	actor.Pipe(ctx, func(ctx context.Context) (Revision, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return engine.Put(ctx, key, value, was)
	}, func(rev Revision, err error) step {
		return func(ctx *actor.Context[step], _ *keeper) { then(ctx, rev, err) }
	})
}

// get reads a key, and then does the remaining work. A key that does not exist has the revision 0.
func (k *keeper) get(ctx *actor.Context[step], key string, then func(ctx *actor.Context[step], e Entry, err error)) {
	engine, patience := k.m.cfg.Engine, min(putPatience, k.m.cfg.TTL/6)
	actor.Pipe(ctx, func(ctx context.Context) (Entry, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		e, err := engine.Get(ctx, key)
		if errors.Is(err, ErrNotFound) {
			return Entry{Key: key}, nil
		}
		return e, err
	}, func(e Entry, err error) step {
		return func(ctx *actor.Context[step], _ *keeper) { then(ctx, e, err) }
	})
}

// tick does what is due.
func (k *keeper) tick(ctx *actor.Context[step]) {
	k.look()
	if !k.joined || k.now() >= k.renewalDue() {
		k.renew(ctx)
	}
	k.declare(ctx)
}

// look drops all shards when the lease is over.
func (k *keeper) look() {
	if k.m.Valid() {
		k.wasDropped = false
	} else if !k.wasDropped {
		k.wasDropped = true
		k.dropAll()
	}
}

func (k *keeper) dropAll() {
	for _, name := range slices.Sorted(maps.Keys(k.groups)) {
		k.groups[name].dropAll()
	}
}

// renewalDue returns when the lease has to be renewed: a third of TTL after the last renewal.
func (k *keeper) renewalDue() time.Duration {
	cfg := &k.m.cfg
	return time.Duration(k.m.until.Load()) - (cfg.TTL - cfg.Margin) + cfg.TTL/3
}

// renew puts this member's record again.
func (k *keeper) renew(ctx *actor.Context[step]) {
	if k.renewing {
		return
	}
	k.renewing = true
	began, next := k.now(), k.own
	next.Beat++
	next.Groups = slices.Clone(k.own.Groups)
	k.put(ctx, k.key(), next.encode(), k.rev, func(ctx *actor.Context[step], rev Revision, err error) {
		cfg := &k.m.cfg
		if cfg.rules.unsure(err) {
			k.find(ctx)
			return
		}
		k.renewing, k.joined = false, true
		k.rev, k.own.Beat = max(rev, k.rev), next.Beat
		k.m.until.Store(int64(cfg.rules.lease(began, k.now(), cfg.TTL-cfg.Margin)))
		k.look()
		k.routes()
		if next.State != k.own.State || len(next.Groups) != len(k.own.Groups) || !slices.Equal(next.Copies, k.own.Copies) {
			k.renew(ctx)
		}
	})
}

// find reads this member's record after a renewal that failed or whose outcome is unknown, so that
// the next one is put at its revision. That does not extend the lease.
func (k *keeper) find(ctx *actor.Context[step]) {
	k.get(ctx, k.key(), func(ctx *actor.Context[step], e Entry, err error) {
		k.renewing = false
		switch {
		case err != nil: // the next tick tries again
			return
		case e.Revision == 0 && k.joined:
			k.end(ctx, errRecordLost)
			return
		case e.Revision == 0:
			k.rev = 0
			return
		}
		r, ok := k.read(e)
		switch {
		case !ok || e.Revision < k.rev:
		case !k.joined && k.m.links != nil && r.System == k.own.System && r.State == stateDead:
			// The member had joined without knowing, and the others have given up their sessions
			// with this system for good.
			k.end(ctx, ErrDeclaredDead)
		case !k.joined && r.State == stateDead: // a former member, maybe of the same system: its place is free
			k.own.Join, k.rev = r.Join+1, e.Revision
			k.renew(ctx)
		case r.System == k.own.System && (k.joined || r.Join == k.own.Join):
			if r.State == stateDead || r.Join != k.own.Join {
				k.end(ctx, ErrDeclaredDead)
				return
			}
			k.joined, k.rev, k.own.Beat = true, e.Revision, r.Beat
		case k.joined:
			k.end(ctx, ErrDeclaredDead)
		default: // a former member, or another of the same name: declared dead when it is silent, or its process has ended
			k.saw(ctx, e)
			if s := k.sightings[k.m.sys.Name()]; !k.m.cfg.OnlySilence && !k.declaring && s.State != stateDead && k.m.cfg.rules.ended(s.Proc) {
				k.pronounce(ctx, k.m.sys.Name(), "its process, on this machine, has ended")
			}
		}
	})
}

// errRecordLost is for a member that cannot trust the engine's map any more.
var errRecordLost = errors.New("the engine has lost the member's record")

// read reads the record of a member.
func (k *keeper) read(e Entry) (r record, ok bool) {
	if err := json.Unmarshal(e.Value, &r); err != nil {
		k.m.sys.Log().Warn("record of a member cannot be read", slog.String("key", e.Key), slog.String("error", err.Error()))
		return r, false
	}
	return r, true
}

// saw records the record of a member.
func (k *keeper) saw(ctx *actor.Context[step], e Entry) {
	r, ok := k.read(e)
	name := strings.TrimPrefix(e.Key, nodePrefix)
	had := k.sightings[name]
	if !ok || e.Revision <= had.rev {
		return
	}
	s := sighting{record: r, rev: e.Revision, at: k.now(), first: had.first}
	if had.Join != r.Join {
		s.first = s.at
	}
	k.sightings[name] = s
	k.met(name, had, s)
	k.connect(name, r)
	if name == k.m.sys.Name() && k.joined && (r.Join > k.own.Join || r.Join == k.own.Join && r.State == stateDead) {
		k.end(ctx, ErrDeclaredDead)
	}
}

// met updates the connection with a member whose record has changed.
func (k *keeper) met(name string, had, now sighting) {
	if links := k.m.links; links != nil && name != k.m.sys.Name() {
		if now.Addr != "" && now.Addr != had.Addr {
			links.Meet(name, now.Addr)
		}
		if had.System != 0 && had.System != now.System {
			links.Lose(name, had.System)
		}
		if now.State == stateDead && !now.Left && had.State != stateDead {
			links.Lose(name, now.System)
		}
	}
	own := name == k.m.sys.Name() && now.Join == k.own.Join && now.System == k.own.System
	if own && now.State == stateDead { // it ends, and what its router is told now nobody would handle
		return
	}
	if had.Join != now.Join || had.State != now.State || had.Router != now.Router {
		k.routes()
	}
	if had.State != now.State || !slices.Equal(had.Copies, now.Copies) {
		k.tellCopies()
	}
}

// routes tells the router who the members are.
func (k *keeper) routes() {
	all := make(peers)
	for name, s := range k.sightings {
		if s.State == stateDead {
			continue
		}
		router, err := actor.ParsePID(s.Router)
		if err != nil || s.Router == "" {
			continue
		}
		all[identity{name, s.Join}] = peer{node: name, inc: s.System, router: router}
	}
	self := k.id()
	k.m.tell(func(ctx *actor.Context[any], r *router) { r.meet(ctx, self, all) })
}

// declare declares dead a member whose record has not changed for too long.
func (k *keeper) declare(ctx *actor.Context[step]) {
	if k.declaring {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.sightings)) {
		s := k.sightings[name]
		if s.State == stateDead || name == k.m.sys.Name() && k.joined || k.now()-s.at < k.m.cfg.rules.patience(max(k.m.cfg.TTL, s.ttl())) {
			continue
		}
		k.pronounce(ctx, name, "it was silent for too long")
		return
	}
}

// census returns the newest record of each member.
func (k *keeper) census() census {
	c := make(census, len(k.sightings))
	for name, s := range k.sightings {
		c[name] = s.record
	}
	return c
}

// settled reports whether no member has joined recently.
func (k *keeper) settled() bool {
	for _, s := range k.sightings {
		if s.State == stateUp && k.now()-s.first < settleTime {
			return false
		}
	}
	return true
}

// rank returns how many members come before this one as the coordinator of a group.
func (k *keeper) rank(c census, group string) int {
	hosts := slices.DeleteFunc(c.in(stateUp, stateLeaving), func(id identity) bool { return !c[id.name].hosts(group) })
	return max(0, slices.Index(hosts, k.id()))
}

// leave begins to leave.
func (k *keeper) leave(ctx *actor.Context[step]) {
	if k.leaving {
		return
	}
	k.leaving, k.own.State = true, stateLeaving
	k.renew(ctx)
	self := ctx.Self()
	k.m.tell(func(ctx *actor.Context[any], r *router) {
		r.resign(ctx, func(versions map[string]uint64) {
			self.Tell(context.Background(), func(_ *actor.Context[step], k *keeper) { k.must = versions })
		})
	})
	ctx.Every("leave", 50*time.Millisecond, func(ctx *actor.Context[step], k *keeper) { k.part(ctx) })
}

// part ends the membership when nothing is held any more.
func (k *keeper) part(ctx *actor.Context[step]) {
	c := k.census()
	alone := !slices.ContainsFunc(c.up(), func(id identity) bool { return id != k.id() })
	for name, g := range k.groups {
		if !alone && g.m != nil && g.m.version < k.must[name] {
			return
		}
		if _, movable := g.owned(k.id()); !alone && movable > 0 {
			if k.joined && !k.m.Valid() { // the others will take them when they see that as well
				k.end(ctx, errNotGiven)
			}
			return
		}
		if g.busy() || g.has() {
			return
		}
	}
	if k.renewing || k.must == nil || !k.departed(ctx) {
		return
	}
	if !k.joined {
		k.end(ctx, nil)
		return
	}
	k.m.until.Store(-1)
	k.dropAll()
	k.renewing, k.joined = true, false // from now on the record is final
	last := k.own
	last.State, last.Left = stateDead, true
	k.put(ctx, k.key(), last.encode(), k.rev, func(ctx *actor.Context[step], _ Revision, err error) {
		k.renewing = false
		if err != nil { // the others wait for the end of the lease
			k.m.sys.Log().Warn("left the cluster without a word", slog.String("error", err.Error()))
		}
		k.end(ctx, nil)
	})
}

// errNotGiven is for a member whose lease ended while it was leaving.
var errNotGiven = errors.New("left without giving all shards away: the engine has not answered, and the lease is over")

// departed reports whether nothing passes through this node any more, and otherwise works on that.
// It does not wait for messages of a kind whose shards nobody could have.
func (k *keeper) departed(ctx *actor.Context[step]) bool {
	if !k.departing {
		k.departing = true
		self, retired := ctx.Self(), make(map[string]bool)
		for name, g := range k.groups {
			all, movable := g.owned(k.id())
			retired[name] = all > 0 && movable == 0
		}
		k.m.tell(func(rctx *actor.Context[any], r *router) {
			r.depart(rctx, retired, func(error) {
				self.Tell(context.Background(), func(_ *actor.Context[step], k *keeper) { k.hasDeparted = true })
			})
		})
	}
	return k.hasDeparted
}

// end ends the member.
func (k *keeper) end(ctx *actor.Context[step], why error) {
	k.parting = why
	k.m.until.Store(-1)
	k.dropAll()
	ctx.Stop()
}
