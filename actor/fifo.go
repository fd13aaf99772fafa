package actor

// fifo is a queue in pieces of a bounded size: nothing in it is moved when it grows or shrinks, and
// what a burst has taken is given back. The zero fifo is empty.
type fifo[T any] struct {
	chunks [][]T // all but the last are full
	head   int   // how much of the first is gone
	n      int
}

// most returns how many elements a piece has.
func (*fifo[T]) most() int { return piece[T](bufferBytes, bufferMost) }

func (q *fifo[T]) push(v T) {
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last]) == q.most() {
		q.chunks = append(q.chunks, nil)
		last++
	}
	q.chunks[last] = append(q.chunks[last], v)
	q.n++
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.n == 0 {
		return v, false
	}
	var none T
	first := q.chunks[0]
	v, first[q.head] = first[q.head], none
	q.n--
	switch q.head++; {
	case q.n == 0 && cap(first) <= piece[T](keepBytes, keepQueue):
		q.chunks[0], q.head = first[:0], 0
	case q.n == 0:
		q.chunks, q.head = nil, 0
	case q.head == len(first):
		q.chunks[0] = nil
		q.chunks, q.head = q.chunks[1:], 0
	}
	return v, true
}

// at returns the i-th of those that wait, where it lies.
func (q *fifo[T]) at(i int) *T {
	i += q.head
	return &q.chunks[i/q.most()][i%q.most()]
}

func (q *fifo[T]) len() int { return q.n }

// fifoQueue is the plain order.
type fifoQueue[M any] struct {
	mail  fifo[numbered[M]]
	notes fifo[numbered[M]] // what is outside of the bound, and so is never dropped
	seq   uint64
}

type numbered[M any] struct {
	e   envelope[M]
	seq uint64
}

func (q *fifoQueue[M]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	if as != patient || !c.crowded() {
		v := c.postSpecial(&e, w, nil, as, never, func() (none envelope[M], did bool) {
			q.put(&e)
			return none, false
		})
		if v != verdictWait || as != patient {
			return v, nil
		}
	}
	later := e // a copy, so that only a message that waits is allocated
	return c.postWaiting(&later, w, never, func() (none envelope[M], did bool) {
		q.put(&later)
		return none, false
	})
}

// never is what replaces nothing.
func never() bool { return false }

func (q *fifoQueue[M]) put(e *envelope[M]) {
	q.seq++
	if e.exempt() {
		q.notes.push(numbered[M]{*e, q.seq})
	} else {
		q.mail.push(numbered[M]{*e, q.seq})
	}
}

func (q *fifoQueue[M]) take() (e envelope[M], ok bool) {
	from := &q.mail
	if q.mail.len() == 0 || q.notes.len() > 0 && q.notes.at(0).seq < q.mail.at(0).seq {
		from = &q.notes
	}
	m, ok := from.pop()
	return m.e, ok
}

func (q *fifoQueue[M]) oldest() *envelope[M] {
	if q.mail.len() == 0 {
		return nil
	}
	return &q.mail.at(0).e
}

func (q *fifoQueue[M]) dropOldest() envelope[M] {
	m, _ := q.mail.pop()
	return m.e
}

func (q *fifoQueue[M]) len() int { return q.mail.len() + q.notes.len() }

// span returns how many have come since the oldest that waits, that one included. They may be more than wait: from
// behind a note messages are dropped.
func (q *fifoQueue[M]) span() int {
	first := q.seq + 1
	if q.mail.len() > 0 {
		first = q.mail.at(0).seq
	}
	if q.notes.len() > 0 {
		first = min(first, q.notes.at(0).seq)
	}
	return int(q.seq + 1 - first)
}

func (q *fifoQueue[M]) at(i int) *envelope[M] {
	if n := q.mail.len(); i >= n {
		return &q.notes.at(i - n).e
	}
	return &q.mail.at(i).e
}

func (q *fifoQueue[M]) orderName() string { return "plain" }

func (q *fifoQueue[M]) rest() []envelope[M] { return takeAll(q.take) }

func takeAll[M any](take func() (envelope[M], bool)) (all []envelope[M]) {
	for {
		e, ok := take()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}
