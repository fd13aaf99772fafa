// Package share finds out who is to give something up where there is too much of it: who has most. So
// nobody pushes out what others have.
package share

import "container/list"

// Pool has things of owners, in the order in which they came. The zero value is empty and ready to
// use. It is not safe for concurrent use. All methods take the same time, however many there are.
type Pool[T any] struct {
	all    list.List                   // of *Item[T], the oldest first
	owners map[string]*list.List       // the part of all that each has; none is empty
	ranks  map[int]map[string]struct{} // the owners that have so many; none is empty
	most   int                         // the highest of ranks, 0 for none
}

// Item is a thing in a Pool.
type Item[T any] struct {
	// Value is what was added.
	Value T

	owner        string
	all, ofOwner *list.Element
}

// Len returns how many things there are.
func (p *Pool[T]) Len() int { return p.all.Len() }

// Add adds a thing.
func (p *Pool[T]) Add(owner string, value T) *Item[T] {
	if p.owners == nil {
		p.owners, p.ranks = map[string]*list.List{}, map[int]map[string]struct{}{}
	}
	own := p.owners[owner]
	if own == nil {
		own = list.New()
		p.owners[owner] = own
	}
	it := &Item[T]{Value: value, owner: owner}
	it.all, it.ofOwner = p.all.PushBack(it), own.PushBack(it)
	p.rank(owner, own.Len()-1, own.Len())
	return it
}

// Remove removes a thing that is there.
func (p *Pool[T]) Remove(it *Item[T]) {
	own := p.owners[it.owner]
	p.all.Remove(it.all)
	own.Remove(it.ofOwner)
	if own.Len() == 0 {
		delete(p.owners, it.owner)
	}
	p.rank(it.owner, own.Len()+1, own.Len())
}

// Surplus returns the thing that is to be given up first: the oldest of an owner that has most, and
// where nobody has two the oldest of all. It returns nil where there is none.
func (p *Pool[T]) Surplus() *Item[T] {
	oldest := p.all.Front()
	if p.most > 1 {
		for owner := range p.ranks[p.most] {
			oldest = p.owners[owner].Front()
			break
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.Value.(*Item[T]) //nolint:forcetypeassert // that is what is in it
}

// rank notes that an owner has one more or one less.
func (p *Pool[T]) rank(owner string, was, now int) {
	delete(p.ranks[was], owner)
	if len(p.ranks[was]) == 0 {
		delete(p.ranks, was)
	}
	if now > 0 {
		if p.ranks[now] == nil {
			p.ranks[now] = map[string]struct{}{}
		}
		p.ranks[now][owner] = struct{}{}
	}
	if p.most = max(p.most, now); p.ranks[p.most] == nil {
		p.most = now // it was the only one that had most, and has one less
	}
}
