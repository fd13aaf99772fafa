package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/greenroom-go/greenroom/actor"
)

// The limits of [Types.Strict].
const (
	// MaxDepth is how deeply the CBOR of a value may be nested.
	MaxDepth = 32
	// MaxGrowth is how many times the memory of their bytes the elements of a value may take. Byte
	// strings and texts do not count, since they take what they have. A reference counts as 640
	// bytes.
	MaxGrowth = 32
	// FreeBytes is how much memory the elements of a value may take in any case.
	FreeBytes = 64 << 10
)

// ErrTooLarge is returned for bytes whose value would take far more memory than they do, see
// [Types.Strict].
var ErrTooLarge = errors.New("value takes too much memory")

var errUnbound = errors.New("it has references to actors, which need a system: see Types.Bind")

// Strict returns a Types with the same registrations for bytes from strangers. It refuses CBOR
// whose values are nested deeper than [MaxDepth], or whose elements would take more memory than
// [FreeBytes] and [MaxGrowth] bytes for each of theirs; the error then wraps [ErrTooLarge].
// Protobuf and the types' own methods have the limits that they have.
func (ts *Types) Strict() *Types {
	strict := *ts
	strict.strict = true
	return &strict
}

// Bind returns a Types with the same registrations whose values may contain references, which are
// fields of the type [actor.Ref]. They are written as addresses and read as references of sys, to
// actors of sys or of other nodes. A reference that cannot be resolved accepts no message: each
// becomes a dead letter. Without a system, such values are neither written nor read.
func (ts *Types) Bind(sys *actor.System) *Types {
	bound := *ts
	bound.sys = sys
	return &bound
}

func (p *plan) hasRefs() bool { return p != nil && p.refs }

// unmarshal reads CBOR into what into points to, a value with that plan.
func (ts *Types) unmarshal(data []byte, into any, p *plan) error {
	decoder := cborDecoder
	if ts.strict {
		decoder = strictDecoder
		if p != nil && p.grows {
			w := weigher{data: data, left: FreeBytes + MaxGrowth*uint64(len(data))}
			w.value(p, MaxDepth)
			if w.over || w.unread() && decoder.Wellformed(data) == nil { // what is not understood is not weighed
				return fmt.Errorf("%w: its elements must take at most %d bytes and %d for each of its %d bytes", ErrTooLarge, FreeBytes, MaxGrowth, len(data))
			}
		}
	}
	if p.hasRefs() && ts.sys == nil {
		return errUnbound
	}
	if err := decoder.Unmarshal(data, into); err != nil {
		return err
	}
	p.bind(reflect.ValueOf(into).Elem(), ts.sys)
	return nil
}

// weigher looks through CBOR for what its elements would take. Bytes that are not CBOR, or are nested
// deeper than the decoder takes, it does not read to the end: the decoder refuses them, before it
// allocates.
type weigher struct {
	data []byte
	left uint64 // that may be taken yet
	over bool   // more would be taken
	bad  bool
}

// unread reports whether there are bytes that the weigher has not looked at.
func (w *weigher) unread() bool { return w.bad || len(w.data) > 0 }

// refSize is about what a reference takes with the proxy and the way that it leads to.
const refSize = 640

// The major types of CBOR.
const (
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	majorTag   = 6
	majorOther = 7
)

// head reads the head of an item.
func (w *weigher) head() (major byte, arg uint64) {
	if len(w.data) == 0 {
		w.bad = true
		return 0, 0
	}
	major, info := w.data[0]>>5, w.data[0]&31
	w.data = w.data[1:]
	if info < 24 {
		return major, uint64(info)
	}
	n := 1 << (info - 24)
	if info > 27 || len(w.data) < n {
		w.bad = true
		return 0, 0
	}
	var full [8]byte
	copy(full[8-n:], w.data)
	w.data = w.data[n:]
	return major, binary.BigEndian.Uint64(full[:])
}

// take counts n elements that are next.
func (w *weigher) take(n, size uint64) {
	if n > uint64(len(w.data)) { // each has a byte at least
		w.bad = true
		return
	}
	w.count(n, size)
}

func (w *weigher) count(n, size uint64) {
	if size > 0 && n > w.left/size {
		w.over = true
		return
	}
	w.left -= n * size
}

// What a map of Go takes: itself, room for the pairs of a group from the first one on, and beyond that
// for up to 16 pairs where it has 7, with a byte about each.
const (
	mapSize   = 48
	groupSize = 8
)

// takeMap counts a map of n pairs.
func (w *weigher) takeMap(n, size uint64) {
	whole := uint64(mapSize)
	if n > 0 {
		whole += groupSize * (size + 1)
	}
	w.count(1, whole)
	w.take(n-min(n, groupSize), (size+1)*16/7)
}

// value looks at an item that will be a value with that plan, nil if it is passed over or takes what
// it has.
func (w *weigher) value(p *plan, depth int) {
	for p != nil && p.t.Kind() == reflect.Pointer {
		if len(w.data) > 0 && w.data[0] != cborNull {
			w.take(1, p.size)
		}
		p = p.elem
	}
	major, arg := w.head()
	if w.bad || w.over {
		return
	}
	if major == majorTag && !w.atTag() {
		w.value(p, depth) // the decoder counts no level for the last tag of a run
		return
	}
	if depth == 0 && major >= majorArray && major != majorOther {
		w.bad = true
		return
	}
	switch major {
	case majorBytes, majorText:
		if p != nil && p.ref && arg > 0 {
			w.take(1, refSize)
		}
		w.pass(arg)
	case majorArray:
		w.array(p, arg, depth-1)
	case majorMap:
		w.pairs(p, arg, depth-1)
	case majorTag:
		w.value(p, depth-1)
	}
}

// atTag reports whether a tag is next.
func (w *weigher) atTag() bool { return len(w.data) > 0 && w.data[0]>>5 == majorTag }

func (w *weigher) pass(n uint64) (passed []byte) {
	if n > uint64(len(w.data)) {
		w.bad = true
		return nil
	}
	passed, w.data = w.data[:n], w.data[n:]
	return passed
}

func (w *weigher) array(p *plan, n uint64, depth int) {
	if p != nil && p.t.Kind() == reflect.Slice {
		w.take(n, p.size)
	}
	for i := uint64(0); i < n && !w.bad && !w.over; i++ {
		var elem *plan
		switch {
		case p == nil:
		case p.t.Kind() != reflect.Struct:
			elem = p.elem
		case i < uint64(len(p.order)):
			elem = p.order[i]
		}
		w.value(elem, depth)
	}
}

func (w *weigher) pairs(p *plan, n uint64, depth int) {
	isMap := p != nil && p.t.Kind() == reflect.Map
	if isMap {
		w.takeMap(n, p.size)
	}
	for i := uint64(0); i < n && !w.bad && !w.over; i++ {
		switch {
		case p == nil:
			w.value(nil, depth)
			w.value(nil, depth)
		case isMap:
			w.value(p.key, depth)
			w.value(p.elem, depth)
		default:
			w.value(p.fields[w.name(depth)], depth)
		}
	}
}

// name reads the key of a field.
func (w *weigher) name(depth int) string {
	before := w.data
	switch major, arg := w.head(); {
	case w.bad:
		return ""
	case major == majorText:
		return string(w.pass(arg))
	case major == 0:
		return strconv.FormatUint(arg, 10)
	case major == 1:
		return "-" + strconv.FormatUint(arg+1, 10)
	default:
		w.data = before
		w.value(nil, depth)
		return ""
	}
}
