package actor

// linkedList is threaded through its elements: it allocates nothing, and an element leaves it without
// a look at the others.
type linkedList[T any, E linked[T]] struct {
	first, last *T
	n           int
}

// linked is an element of a linkedList.
type linked[T any] interface {
	*T
	link() *links[T]
}

// links is where an element of a linkedList is. It belongs to who the list belongs to.
type links[T any] struct {
	prev, next *T
	listed     bool
}

func (l *links[T]) link() *links[T] { return l }

// push appends e, which must be in no list.
func (l *linkedList[T, E]) push(e E) {
	at := e.link()
	at.prev, at.listed = l.last, true
	if l.last == nil {
		l.first = e
	} else {
		E(l.last).link().next = e
	}
	l.last = e
	l.n++
}

// remove takes e out, if it is in.
func (l *linkedList[T, E]) remove(e E) {
	at := e.link()
	if !at.listed {
		return
	}
	if at.prev == nil {
		l.first = at.next
	} else {
		E(at.prev).link().next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		E(at.next).link().prev = at.prev
	}
	*at = links[T]{}
	l.n--
}
