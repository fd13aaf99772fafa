package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Versions says which version of the state a node writes for the shards of a group, and which
// versions it can read. The map of the group records the greatest version that an owner of a shard
// has written. A shard goes only to a node that can read that version, and to one that writes a
// lower version only if no node that can read it writes that version or a later one. So while nodes
// are replaced one by one by those of a later version, shards that these have taken are not given
// back.
//
// A later version that older nodes cannot read needs no preparation, if enough of the later nodes
// can exist at the same time: a shard waits if all nodes that could take it are gone. To be able to
// go back, first replace all nodes by ones that read the next version and still write the present
// one.
//
// The zero value writes and reads version 1, which is also the default.
type Versions struct {
	// Writes is the version that the node writes, 1 by default.
	Writes int `json:"writes"`
	// Oldest and Newest are the versions that it reads, Writes by default. Writes must be among them.
	Oldest int `json:"oldest"`
	Newest int `json:"newest"`
}

// Versioned is implemented by a [Holder] whose nodes do not all write the same version, see [Host].
type Versioned interface {
	// Versions returns what this node writes and reads. The result must not change.
	Versions() Versions
}

// versionsOf returns what a holder writes and reads. It may be nil.
func versionsOf(holder Holder) (v Versions) {
	if h, ok := holder.(Versioned); ok {
		v = h.Versions()
	}
	return v.withDefaults()
}

// Version sets which version of their state the actors of a kind write on this node, and which they
// can read, see [Versions]. It panics if Writes is negative, or not among the versions that are
// read.
func Version(v Versions) KindOption {
	v = v.withDefaults()
	required(v.valid(), "Version(%+v): Writes must be positive, and from Oldest to Newest", v)
	return func(c *kindConfig) { c.versions = v }
}

func (v Versions) withDefaults() Versions {
	if v.Writes == 0 {
		v.Writes = 1
	}
	if v.Oldest == 0 {
		v.Oldest = v.Writes
	}
	if v.Newest == 0 {
		v.Newest = v.Writes
	}
	return v
}

func (v Versions) valid() bool { return 0 < v.Oldest && v.Oldest <= v.Writes && v.Writes <= v.Newest }

// reads reports whether a version can be read. Version 0 is that of a shard that never had an
// owner.
func (v Versions) reads(version int) bool {
	return version == 0 || v.Oldest <= version && version <= v.Newest
}

// versions returns what the member says about a group.
func (r record) versions(group string) Versions { return r.Versions[group].withDefaults() }

// able returns the members to which a shard of that version may go: of those that can read it, the
// ones that write it or a later version, or all if there are no such.
func (c census) able(members []identity, group string, version int) []identity {
	able := slices.DeleteFunc(slices.Clone(members), func(id identity) bool { return !c[id.name].versions(group).reads(version) })
	writes := slices.DeleteFunc(slices.Clone(able), func(id identity) bool { return c[id.name].versions(group).Writes < version })
	if len(writes) > 0 {
		return writes
	}
	return able
}

// wrote records the versions of the known owners.
func (m *shardMap) wrote(c census, group string) {
	for i := range m.slots {
		s := &m.slots[i]
		if r, ok := c[s.owner.name]; ok && r.Join == s.owner.gen {
			s.version = max(s.version, r.versions(group).Writes)
		}
	}
}

// Upgrade says what a rolling upgrade may do at a moment, see [Node.Upgrade].
type Upgrade struct {
	// Waits says why no node may be replaced now: something is under way. It is nil if nothing is.
	Waits []string
	// Nodes are the nodes that are up, by name, each with the reason why it cannot be replaced,
	// because no other node could take some of its shards; "" if it may be replaced.
	Nodes map[string]string
}

// Ready reports whether a node may be replaced now.
func (u Upgrade) Ready(node string) bool {
	why, ok := u.Nodes[node]
	return len(u.Waits) == 0 && ok && why == ""
}

// Upgrade reports whether a step of a rolling upgrade may be taken now: one node leaves
// ([Node.Leave]), and one of a later version takes its place. It may if all members are up and have
// been for a while, no shard is moving, each shard has an owner, and other nodes could take the
// node's shards, see [Versions]. Check before each step.
//
// It reads the maps of all groups from the engine, and blocks as long as that takes. It fails if the node is alone or
// has ended, if the engine does, and with the cause of ctx.
func (n *Node) Upgrade(ctx context.Context) (u Upgrade, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("check an upgrade: %w", err)
		}
	}()
	if n.alone {
		return u, errors.New("the node is alone: there are no others to take its shards")
	}
	seen := make(chan outlook, 1)
	n.keeper.Tell(ctx, func(_ *actor.Context[step], k *keeper) { seen <- k.outlook() })
	select {
	case v := <-seen:
		return v.upgrade(ctx, n.cfg.Engine)
	case <-n.over:
		return u, actor.ErrStopped
	case <-ctx.Done():
		return u, context.Cause(ctx)
	}
}

// outlook is what a member knows about the others.
type outlook struct {
	c     census
	waits []string // what keeps nodes from being replaced
}

func (k *keeper) outlook() (v outlook) {
	v.c = k.census()
	if !k.settled() {
		v.waits = append(v.waits, fmt.Sprintf("a member has joined within the last %v", settleTime))
	}
	for _, name := range slices.Sorted(maps.Keys(k.sightings)) {
		s := k.sightings[name]
		silent := k.now() - s.at
		switch {
		case s.State == stateLeaving:
			v.waits = append(v.waits, name+" is leaving")
		case s.State == stateUp && silent > max(k.m.cfg.TTL, s.ttl())*2/3: // it has missed a renewal
			v.waits = append(v.waits, fmt.Sprintf("%s has been silent for %v", name, silent.Round(time.Millisecond)))
		}
	}
	return v
}

// upgrade determines what may be done, from the maps in the engine.
func (v outlook) upgrade(ctx context.Context, engine Engine) (Upgrade, error) {
	u := Upgrade{Waits: v.waits, Nodes: make(map[string]string)}
	for _, id := range v.c.up() {
		u.Nodes[id.name] = ""
	}
	for _, group := range v.c.groups() {
		e, err := engine.Get(ctx, mapPrefix+group)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return u, fmt.Errorf("the map of %q: %w", group, err)
		}
		u.look(v.c, group, e)
	}
	return u, nil
}

// groups returns the groups of which members that are up take shards, in order.
func (c census) groups() (all []string) {
	for _, id := range c.up() {
		all = append(all, c[id.name].Groups...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// look adds what the map of a group says. The zero Entry stands for a map that does not exist yet.
func (u *Upgrade) look(c census, group string, e Entry) {
	var size mapJSON
	_ = json.Unmarshal(e.Value, &size) // decodeMap says what is wrong
	m, err := decodeMap(e.Value, len(size.Shards))
	if err != nil {
		u.Waits = append(u.Waits, fmt.Sprintf("%s has no map that can be read", group))
		return
	}
	moves, orphans := 0, 0
	members := c.taking(group)
	for i := range m.slots {
		s := &m.slots[i]
		switch {
		case s.next != (identity{}):
			moves++
		case !slices.Contains(members, s.owner):
			orphans++
		}
	}
	if moves > 0 {
		u.Waits = append(u.Waits, fmt.Sprintf("%d shards of %s move", moves, group))
	}
	if orphans > 0 {
		u.Waits = append(u.Waits, fmt.Sprintf("%d shards of %s have no owner that is up", orphans, group))
	}
	m.wrote(c, group)
	for _, id := range members {
		others := slices.DeleteFunc(slices.Clone(members), func(o identity) bool { return o == id })
		for i := range m.slots {
			if s := &m.slots[i]; s.owner == id && u.Nodes[id.name] == "" && len(c.able(others, group, s.version)) == 0 {
				u.Nodes[id.name] = fmt.Sprintf("no other node can read version %d of shard %d of %s", s.version, i, group)
			}
		}
	}
}
