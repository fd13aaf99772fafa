package session

import (
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Name is the address of an actor of the peer. It remembers its number, so that whoever
// sends to the same actor again needs no lookup: keep one for each. It is safe for
// concurrent use, and may be used with another session later.
type Name struct {
	text   string
	inc    uint32 // of the peer; 0: any
	number atomic.Uint32
}

// NewName returns the name of an address of whichever incarnation of the peer. See [Host.Name].
func NewName(text string) *Name { return &Name{text: text} }

// String returns the address.
func (n *Name) String() string { return n.text }

// Addresser is an actor that can say its address.
type Addresser interface {
	// Address returns the actor's address as the peer will read it. It is asked when the
	// address gets a number, with no lock held.
	Address() string
}

// Sender is the actor that a frame is from. The zero Sender is nobody.
type Sender struct {
	// ID is the number of an actor of this node, which no other actor of the node has or
	// will have; 0 for an actor of another node.
	ID uint64
	Of Addresser
}

// interned is what has a number.
type interned struct {
	name   *Name  // of an address that is kept by a Name
	id     uint64 // of a sender of this node
	class  wire.Class
	text   string
	recent bool   // used since the hand came by
	frame  uint64 // in which it was used last: it must stay until that frame is complete
}

// interner gives numbers to texts. A number is the index of its entry, from 1 on. When all
// are given, one that was not used lately is given to another text, which says so to the
// peer by its position among the frames.
type interner struct {
	entries []interned
	texts   [wire.ClassKey + 1]map[string]uint32 // by class
	ids     map[uint64]uint32                    // of senders
	cache   [256]struct {                        // before ids
		id     uint64
		number uint32
	}
	types [2]struct { // before texts: the last two types
		text   string
		number uint32
	}
	free   []uint32 // numbers that were taken back
	hand   int
	bytes  int    // of all texts
	frame  uint64 // the frame that is being made
	most   int    // highest number
	length int    // bytes of all texts at most

	replaced []replacement // in the frames that are kept
}

// replacement is a text that lost its number to another one.
type replacement struct {
	place  uint64 // of the define
	number uint32
	class  wire.Class
	text   string
}

func newInterner() *interner {
	t := &interner{
		entries: make([]interned, 1, 16),
		ids:     map[uint64]uint32{},
		most:    wire.MaxNumber,
		length:  wire.MaxTextBytes,
	}
	for c := range t.texts {
		t.texts[c] = map[string]uint32{}
	}
	return t
}

func (t *interner) use(number uint32) uint32 {
	e := &t.entries[number]
	e.recent = true
	e.frame = t.frame
	return number
}

// name returns the number of a name, 0 if it has none.
func (t *interner) name(n *Name) uint32 {
	number := n.number.Load()
	if int(number) < len(t.entries) && t.entries[number].name == n {
		return t.use(number)
	}
	return 0
}

// sender returns the number of an actor of this node, 0 if it has none.
func (t *interner) sender(id uint64) uint32 {
	cached := &t.cache[id%uint64(len(t.cache))]
	if cached.id == id {
		if e := &t.entries[cached.number]; e.id == id {
			return t.use(cached.number)
		}
	}
	number := t.ids[id]
	if number == 0 {
		return 0
	}
	cached.id, cached.number = id, number
	return t.use(number)
}

// text returns the number of a text, 0 if it has none.
func (t *interner) text(c wire.Class, text string) uint32 {
	number := t.texts[c][text]
	if number == 0 {
		return 0
	}
	return t.use(number)
}

// typeName returns the number of a type's name, 0 if it has none.
func (t *interner) typeName(text string) uint32 {
	for i := range t.types {
		if c := &t.types[i]; c.text == text && c.number != 0 {
			if e := &t.entries[c.number]; e.class == wire.ClassType && e.text == text {
				return t.use(c.number)
			}
		}
	}
	number := t.text(wire.ClassType, text)
	if number != 0 {
		t.types[1] = t.types[0]
		t.types[0].text, t.types[0].number = text, number
	}
	return number
}

// define gives a text a number: define says so to the peer, and returns its place.
func (t *interner) define(e interned, define func(number uint32, c wire.Class, text string) (place uint64)) uint32 {
	for t.bytes+len(e.text) > t.length { // takes numbers back until it fits
		number := t.victim()
		if number == 0 {
			break
		}
		t.drop(number, define(number, t.entries[number].class, ""))
		t.entries[number] = interned{}
		t.free = append(t.free, number)
	}
	var number uint32
	switch last := len(t.free) - 1; {
	case last >= 0:
		number = t.free[last]
		t.free = t.free[:last]
		t.drop(number, define(number, e.class, e.text))
	case len(t.entries) <= t.most:
		number = uint32(len(t.entries))
		t.entries = append(t.entries, interned{})
		define(number, e.class, e.text)
	default:
		number = t.victim()
		t.drop(number, define(number, e.class, e.text))
	}
	t.entries[number] = e
	t.bytes += len(e.text)
	switch {
	case e.name != nil:
		e.name.number.Store(number)
	case e.id != 0:
		t.ids[e.id] = number
	default:
		t.texts[e.class][e.text] = number
	}
	return t.use(number)
}

// victim returns a number whose text was not used lately and not in this frame: the hand
// passes over the entries and lets go one that was not used since it came by. It returns 0
// if there is none, which takes more numbers in one frame than there are.
func (t *interner) victim() uint32 {
	for range 2 * len(t.entries) {
		t.hand++
		if t.hand >= len(t.entries) {
			t.hand = 1
		}
		e := &t.entries[t.hand]
		switch {
		case e.class == 0, e.frame == t.frame:
		case e.recent:
			e.recent = false
		default:
			return uint32(t.hand)
		}
	}
	return 0
}

// drop forgets what had a number until the frame at a place.
func (t *interner) drop(number uint32, place uint64) {
	e := &t.entries[number]
	t.replaced = append(t.replaced, replacement{place, number, e.class, e.text})
	t.bytes -= len(e.text)
	switch {
	case e.name != nil:
	case e.id != 0:
		delete(t.ids, e.id)
	default:
		delete(t.texts[e.class], e.text)
	}
}

// confirm forgets what only frames that are confirmed have replaced.
func (t *interner) confirm(frames uint64) {
	n := 0
	for n < len(t.replaced) && t.replaced[n].place <= frames {
		n++
	}
	clear(t.replaced[:n])
	t.replaced = t.replaced[n:]
}

// asOf returns what the numbers stood for before the first frame that is not confirmed.
func (t *interner) asOf() []knownText {
	texts := make([]knownText, len(t.entries))
	for i, e := range t.entries {
		texts[i] = knownText{e.class, e.text}
	}
	for _, r := range slices.Backward(t.replaced) {
		texts[r.number] = knownText{r.class, r.text}
	}
	return texts
}

type knownText struct {
	class wire.Class
	text  string
}
