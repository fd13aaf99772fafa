package entity

import (
	"context"
	"slices"
	"sync"
)

// claims serializes edits that depend on each other, from before they are checked until they are
// committed and in the graph. An edit that puts or removes edges, or sets the type of an entity,
// claims that entity exclusively. An edit that puts edges also claims their other ends, shared with
// other edits that do so; a deletion claims its entity, shared with other deletions. So whatever an
// edge was checked against (that the other end exists, its type, the number of edges) still holds
// when the edge is committed.
//
// Claims on one entity are granted in the order in which they were made, and an edit makes its
// claims in the order of the ids, so that edits cannot deadlock.
type claims struct {
	mu   sync.Mutex
	held map[string]*claim // entities with holders, guarded by mu
}

// claim is the state of the claims on one entity. Its fields are guarded by claims.mu.
type claim struct {
	holders int       // how many edits hold it
	as      claimKind // the kind of all of them
	waiting []*claimant
}

type claimant struct {
	as      claimKind
	granted chan struct{} // closed when it has the claim
}

// claimKind is what an entity is claimed for: exclusively, or shared with claims of the same kind.
type claimKind uint8

const (
	toItself claimKind = iota // exclusive: its type and the edges from it
	asTarget                  // shared: edges to it
	toEnd                     // shared: its deletion
)

func newClaims() *claims { return &claims{held: make(map[string]*claim)} }

// take claims an entity and the targets of its edges, waiting until ctx ends. release releases all
// of these claims.
func (c *claims) take(ctx context.Context, id string, as claimKind, others []Relation) (release func(), err error) {
	ids := make([]string, 0, 1+len(others))
	ids = append(ids, id)
	for i := range others {
		ids = append(ids, others[i].To)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for i := range ids {
		kind := asTarget
		if ids[i] == id {
			kind = as
		}
		if err := c.takeOne(ctx, ids[i], kind); err != nil {
			c.release(ids[:i])
			return nil, err
		}
	}
	return func() { c.release(ids) }, nil
}

func (c *claims) takeOne(ctx context.Context, id string, as claimKind) error {
	c.mu.Lock()
	held := c.held[id]
	if held == nil {
		held = &claim{}
		c.held[id] = held
	}
	if len(held.waiting) == 0 && held.admits(as) {
		held.holders, held.as = held.holders+1, as
		c.mu.Unlock()
		return nil
	}
	me := &claimant{as: as, granted: make(chan struct{})}
	held.waiting = append(held.waiting, me)
	c.mu.Unlock()
	select {
	case <-me.granted:
		return nil
	case <-ctx.Done():
		return c.withdraw(ctx, id, me)
	}
}

// withdraw gives up waiting, unless the claim was granted at the last moment.
func (c *claims) withdraw(ctx context.Context, id string, me *claimant) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held[id]
	if held != nil {
		if i := slices.Index(held.waiting, me); i >= 0 {
			held.waiting = slices.Delete(held.waiting, i, i+1)
			c.grant(id, held) // the next one in line may now be admitted
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *claims) release(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		held := c.held[id]
		held.holders--
		c.grant(id, held)
	}
}

// grant admits waiting claims in order. REQUIRES: c.mu held.
func (c *claims) grant(id string, held *claim) {
	for len(held.waiting) > 0 && held.admits(held.waiting[0].as) {
		next := held.waiting[0]
		held.waiting = held.waiting[1:]
		held.holders, held.as = held.holders+1, next.as
		close(next.granted)
	}
	if held.holders == 0 {
		delete(c.held, id)
	}
}

// admits reports whether one more claim of this kind can be granted. REQUIRES: claims.mu held.
func (h *claim) admits(as claimKind) bool {
	return h.holders == 0 || as == h.as && as != toItself
}
