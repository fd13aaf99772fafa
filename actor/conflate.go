package actor

// Conflate makes a mailbox that keeps only the newest message of each key, in the place of the
// oldest: an actor that falls behind skips what is out of date. Replaced messages are counted as
// dead letters with the reason [Conflated]. key runs on the sender's goroutine, concurrently, and
// must not block. M must be the actor's message type; otherwise spawning fails with
// [ErrNotAccepted].
func Conflate[M any, K comparable](key func(M) K) SpawnOption {
	required(key != nil, "Conflate: the function that finds a message's key is nil")
	return spawnOption(func(c *spawnConfig) {
		c.order(func() any { return &conflateQueue[M, K]{key: key, places: make(map[K]uint64)} }, nameOf[M])
	})
}

// conflateQueue is the plain order with at most one message a key. The user's function is
// called once for each message, when that comes: later it might say something else.
type conflateQueue[M any, K comparable] struct {
	mail   fifo[conflated[M, K]]
	notes  fifo[numbered[M]] // what is outside of the bound, and so is never dropped
	key    func(M) K
	places map[K]uint64 // the number of the key's message
	first  uint64       // the number of the message at the head of mail
	seq    uint64
	came   uint64 // counts messages by when they came, also those that have waited for room
}

type conflated[M any, K comparable] struct {
	e     envelope[M]
	key   K
	keyed bool // not so for an event, or if the key equals nothing, like NaN
	seq   uint64
	came  uint64 // when it came, which for one that has waited for room is before it was put in
}

func (q *conflateQueue[M, K]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	m := conflated[M, K]{e: e}
	if !e.internal() {
		m.key = q.key(e.msg)
		same := m.key
		m.keyed = same == m.key
	}
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as,
			func() bool { return m.keyed && q.has(m.key) },
			func() (old envelope[M], did bool) { return q.put(m) })
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := m
	return c.postWaiting(&later.e, w,
		func() bool {
			q.number(&later)
			return later.keyed && q.has(later.key)
		},
		func() (old envelope[M], did bool) { return q.put(later) })
}

// has reports whether a message of that key waits.
func (q *conflateQueue[M, K]) has(key K) bool {
	_, ok := q.places[key]
	return ok
}

// number notes when a message has come.
func (q *conflateQueue[M, K]) number(m *conflated[M, K]) {
	if m.came == 0 {
		q.came++
		m.came = q.came
	}
}

// put puts a message into the place of the one with its key, or at the end. It returns the older
// of the two with that key, which may be m: a newer one may have found a place while m waited for
// room.
func (q *conflateQueue[M, K]) put(m conflated[M, K]) (old envelope[M], did bool) {
	q.number(&m)
	n, waits := uint64(0), false
	if m.keyed { // or it may be that it cannot be hashed
		n, waits = q.places[m.key]
	}
	if waits {
		p := q.mail.at(int(n - q.first))
		if m.came < p.came {
			return m.e, true
		}
		old, p.e, p.came = p.e, m.e, m.came
		return old, true
	}
	q.seq++
	if m.seq = q.seq; m.e.exempt() {
		q.notes.push(numbered[M]{m.e, m.seq})
		return old, false
	}
	if m.keyed {
		q.places[m.key] = q.first + uint64(q.mail.len())
	}
	q.mail.push(m)
	return old, false
}

func (q *conflateQueue[M, K]) take() (e envelope[M], ok bool) {
	if q.mail.len() == 0 || q.notes.len() > 0 && q.notes.at(0).seq < q.mail.at(0).seq {
		m, ok := q.notes.pop()
		return m.e, ok
	}
	return q.dropOldest(), true
}

func (q *conflateQueue[M, K]) oldest() *envelope[M] {
	if q.mail.len() == 0 {
		return nil
	}
	return &q.mail.at(0).e
}

func (q *conflateQueue[M, K]) dropOldest() envelope[M] {
	m, _ := q.mail.pop()
	q.first++
	if m.keyed {
		delete(q.places, m.key)
	}
	if q.mail.chunks == nil { // the queue gave its memory back: so does the map
		q.places = make(map[K]uint64)
	}
	return m.e
}

func (q *conflateQueue[M, K]) len() int { return q.mail.len() + q.notes.len() }

func (q *conflateQueue[M, K]) at(i int) *envelope[M] {
	if n := q.mail.len(); i >= n {
		return &q.notes.at(i - n).e
	}
	return &q.mail.at(i).e
}

func (q *conflateQueue[M, K]) orderName() string { return "conflate" }

func (q *conflateQueue[M, K]) rest() []envelope[M] { return takeAll(q.take) }
