package actor

// Priority makes a mailbox from which the message with the highest rank is handled first; messages
// of equal rank keep their order. What an actor sends itself, and events, have the rank 0. rank
// runs on the sender's goroutine, concurrently, and must not block. M must be the actor's message
// type; otherwise spawning fails with [ErrNotAccepted].
func Priority[M any](rank func(M) int) SpawnOption {
	required(rank != nil, "Priority: the function that ranks messages is nil")
	return spawnOption(func(c *spawnConfig) { c.order(func() any { return &rankQueue[M]{rank: rank} }, nameOf[M]) })
}

// rankQueue is the order by rank, then by arrival. The messages do not move: order orders their
// numbers.
type rankQueue[M any] struct {
	rank  func(M) int
	mail  []envelope[M] // by number
	order rankOrder
}

func (q *rankQueue[M]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	rank := 0
	if !e.internal() {
		rank = q.rank(e.msg)
	}
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as, never, func() (none envelope[M], did bool) {
			q.put(&e, rank)
			return none, false
		})
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := e
	return c.postWaiting(&later, w, never, func() (none envelope[M], did bool) {
		q.put(&later, rank)
		return none, false
	})
}

// mayEvict says that messages will be dropped. It is called before the first message.
func (q *rankQueue[M]) mayEvict() { q.order.evict = true }

func (q *rankQueue[M]) put(e *envelope[M], rank int) {
	_, drain := e.with.(drainMark)
	n := q.order.put(rank, drain, !e.exempt())
	if int(n) == len(q.mail) {
		q.mail = append(q.mail, *e)
	} else {
		q.mail[n] = *e
	}
}

// remove takes out the message of that number.
func (q *rankQueue[M]) remove(n int32) envelope[M] {
	e := q.mail[n]
	q.mail[n] = envelope[M]{}
	if !q.order.remove(n) {
		return e
	}
	if q.mail = q.mail[:0]; cap(q.mail) > piece[envelope[M]](keepBytes, keepQueue) {
		q.mail = nil
		q.order.shrink()
	}
	return e
}

func (q *rankQueue[M]) take() (e envelope[M], ok bool) {
	if len(q.order.turns) == 0 {
		return e, false
	}
	return q.remove(q.order.turns[0]), true
}

// oldest returns the oldest of those with the lowest rank: what is least urgent.
func (q *rankQueue[M]) oldest() *envelope[M] {
	if len(q.order.drops) == 0 {
		return nil
	}
	return &q.mail[q.order.drops[0]]
}

func (q *rankQueue[M]) dropOldest() envelope[M] { return q.remove(q.order.drops[0]) }

func (q *rankQueue[M]) len() int { return len(q.order.turns) }

func (q *rankQueue[M]) at(i int) *envelope[M] { return &q.mail[q.order.turns[i]] }

func (q *rankQueue[M]) orderName() string { return "priority" }

func (q *rankQueue[M]) rest() []envelope[M] { return takeAll(q.take) }

// rankOrder says which message of a rankQueue is handled next, and which is dropped next: two heaps of
// numbers, of which a mailbox that never evicts has only the first.
type rankOrder struct {
	nodes []ranked   // by number
	free  []int32    // numbers that are not in use
	turns numberHeap // the next to be handled first
	drops numberHeap // the next to be dropped first
	evict bool       // drops is kept; set before the first message
	seq   uint64
}

type ranked struct {
	rank int
	last bool // the drain mark is, whatever the ranks
	seq  uint64
	turn int32 // where it is in turns
	drop int32 // where it is in drops, -1 if it is not
}

// put numbers a message and puts it into the heaps. The number is that of a message that was removed,
// or the next one.
func (q *rankOrder) put(rank int, last, mayDrop bool) (n int32) {
	q.seq++
	r := ranked{rank: rank, last: last, seq: q.seq, drop: -1}
	if most := len(q.free) - 1; most >= 0 {
		n, q.free = q.free[most], q.free[:most]
		q.nodes[n] = r
	} else {
		n = int32(len(q.nodes))
		q.nodes = append(q.nodes, r)
	}
	q.turns.push(n, turnOrder{q})
	if q.evict && mayDrop {
		q.drops.push(n, dropOrder{q})
	}
	return n
}

// remove takes a message out of both heaps. It reports whether none is left: then the numbers begin
// anew.
func (q *rankOrder) remove(n int32) (emptied bool) {
	r := &q.nodes[n]
	q.turns.remove(r.turn, turnOrder{q})
	if r.drop >= 0 {
		q.drops.remove(r.drop, dropOrder{q})
	}
	if len(q.turns) > 0 {
		q.free = append(q.free, n)
		return false
	}
	q.nodes, q.free = q.nodes[:0], q.free[:0]
	return true
}

// shrink gives back what an exceptional burst has taken. REQUIRES: there is no message.
func (q *rankOrder) shrink() { q.nodes, q.free, q.turns, q.drops = nil, nil, nil, nil }

// numberHeap is a heap of the numbers of nodes, which know where in it they are.
type numberHeap []int32

// heapOrder says which node is before which, and is told where a node has gone.
type heapOrder interface {
	before(a, b int32) bool
	moved(n int32, to int)
}

func (h *numberHeap) push(n int32, o heapOrder) {
	*h = append(*h, n)
	h.up(len(*h)-1, o)
}

func (h *numberHeap) remove(at int32, o heapOrder) {
	i, last := int(at), len(*h)-1
	n := (*h)[last]
	if *h = (*h)[:last]; i < last {
		h.set(i, n, o)
		h.down(i, o)
		h.up(i, o)
	}
}

func (h numberHeap) set(i int, n int32, o heapOrder) {
	h[i] = n
	o.moved(n, i)
}

func (h numberHeap) up(i int, o heapOrder) {
	n := h[i]
	for i > 0 && o.before(n, h[(i-1)/2]) {
		h.set(i, h[(i-1)/2], o)
		i = (i - 1) / 2
	}
	h.set(i, n, o)
}

func (h numberHeap) down(i int, o heapOrder) {
	n := h[i]
	for {
		child := 2*i + 1
		if child+1 < len(h) && o.before(h[child+1], h[child]) {
			child++
		}
		if child >= len(h) || !o.before(h[child], n) {
			break
		}
		h.set(i, h[child], o)
		i = child
	}
	h.set(i, n, o)
}

// turnOrder is the order in which messages are handled.
type turnOrder struct{ *rankOrder }

func (o turnOrder) before(i, j int32) bool {
	a, b := &o.nodes[i], &o.nodes[j]
	if a.last != b.last {
		return b.last
	}
	if a.rank != b.rank {
		return a.rank > b.rank
	}
	return a.seq < b.seq
}

func (o turnOrder) moved(n int32, to int) { o.nodes[n].turn = int32(to) }

// dropOrder is the order in which messages are dropped.
type dropOrder struct{ *rankOrder }

func (o dropOrder) before(i, j int32) bool {
	a, b := &o.nodes[i], &o.nodes[j]
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.seq < b.seq
}

func (o dropOrder) moved(n int32, to int) { o.nodes[n].drop = int32(to) }
