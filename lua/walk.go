package lua

import (
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// walker measures what values keep in memory. Shared ones count once: tables, functions, threads, and strings that are
// long enough to matter. Numbers come in blocks of 256 bytes, each of which stays as long as one of them is used.
type walker struct {
	seen  map[unsafe.Pointer]struct{}
	block map[uintptr]struct{}
	last  uintptr
	todo  []glua.LValue
	size  int64
	limit int64 // it ends when this is exceeded
	count int   // values

	// Both are called for each value of the kind, once; nil for none.
	found  func(*glua.LFunction)
	thread func(*glua.LState)
}

// sharedString is the length from which a string counts once.
const sharedString = 32

func newWalker(limit int64) *walker {
	return &walker{seen: map[unsafe.Pointer]struct{}{}, block: map[uintptr]struct{}{}, limit: limit}
}

// holder is a value of Go behind a userdata that keeps values of the script.
type holder interface{ hold(w *walker) }

// walk returns the size of what was added and of all that it refers to, or of a part that is over the limit.
func (w *walker) walk() int64 {
	for len(w.todo) > 0 && w.size <= w.limit {
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.open(v)
	}
	return w.size
}

// first reports whether a thing is seen for the first time.
func (w *walker) first(p unsafe.Pointer) bool {
	if _, ok := w.seen[p]; ok {
		return false
	}
	w.seen[p] = struct{}{}
	return true
}

// add counts a value, and keeps it if it may refer to others.
func (w *walker) add(value glua.LValue) {
	w.count++
	switch v := value.(type) {
	case nil, *glua.LNilType, glua.LBool:
	case glua.LNumber:
		w.number(&value)
	case glua.LString:
		w.size += stringHeader
		if len(v) < sharedString || w.first(textAt(v)) {
			w.size += int64(len(v))
		}
	case *glua.LTable:
		if v != nil && w.first(unsafe.Pointer(v)) {
			w.todo = append(w.todo, v)
		}
	case *glua.LFunction:
		if v != nil && w.first(unsafe.Pointer(v)) {
			w.todo = append(w.todo, v)
		}
	case *glua.LUserData:
		if v != nil && w.first(unsafe.Pointer(v)) {
			w.todo = append(w.todo, v)
		}
	case *glua.LState:
		if v != nil && w.first(unsafe.Pointer(v)) {
			w.todo = append(w.todo, v)
		}
	}
}

func (w *walker) number(v *glua.LValue) {
	block := numberAt(v) >> 8
	if block == w.last {
		return
	}
	w.last = block
	if _, ok := w.block[block]; !ok {
		w.block[block] = struct{}{}
		w.size += 256
	}
}

// all adds the values of a list.
func (w *walker) all(values []glua.LValue) {
	for _, v := range values {
		w.add(v)
	}
}

// open counts what a value has besides those that it refers to, and adds those.
func (w *walker) open(v glua.LValue) {
	switch v := v.(type) {
	case *glua.LTable:
		w.table(v)
	case *glua.LFunction:
		w.function(v)
	case *glua.LUserData:
		w.size += userdataSize
		w.add(v.Metatable)
		if h, ok := v.Value.(holder); ok {
			h.hold(w)
		}
	case *glua.LState:
		if w.thread != nil {
			w.thread(v)
		}
		l := stateOf(v)
		w.size += threadSize
		w.frames(l.calls())
		w.registry(l.reg)
	}
}

// frames adds the functions that are under way in a thread. It clears what earlier ones have left
// behind them, which keeps these and their variables, also those of other services, in memory.
func (w *walker) frames(s *stackLayout) {
	for i := range int(s.segIdx) + 1 {
		frames := s.segments[i].array[:]
		if i == int(s.segIdx) {
			clear(frames[s.segSp:])
			frames = frames[:s.segSp]
		}
		w.size += segmentSize
		for f := range frames {
			w.add(frames[f].Fn)
			if frames[f].nests() {
				w.size += nestedSize
			}
		}
	}
}

func (w *walker) table(t *glua.LTable) {
	l := tableOf(t)
	if n := cap(l.keys); n > 0 && n < leastKeys && l.shared() == nil {
		l.fit() // it is arg, which has a map for 32 keys
	}
	w.size += tableSize + int64(cap(l.array))*wordSize + int64(cap(l.keys))*wordSize
	w.size += mapSize(len(l.keys))
	if l.dict != nil && l.strdict != nil {
		w.size += mapSize(len(l.keys))
	}
	w.add(t.Metatable)
	w.all(l.array)
	for _, k := range l.keys {
		w.add(k)
		if w.size > w.limit {
			return
		}
		w.add(t.RawGetH(k))
	}
}

func (w *walker) function(f *glua.LFunction) {
	if w.found != nil {
		w.found(f)
	}
	w.size += functionSize + int64(len(f.Upvalues))*8
	if f.IsG {
		w.size += functionSize
	}
	w.add(f.Env)
	for _, u := range f.Upvalues {
		if u == nil || !w.first(unsafe.Pointer(u)) {
			continue
		}
		w.size += upvalueSize
		l := upvalueOf(u)
		w.add(l.value)
		if l.reg != nil {
			w.add(l.reg.thread()) // which the upvalue keeps, even a closed one
		}
	}
}

// registry adds the values on the stack of a thread.
func (w *walker) registry(r *registryLayout) {
	if r == nil || !w.first(unsafe.Pointer(r)) {
		return
	}
	w.size += int64(len(r.array)) * wordSize
	w.all(r.array)
}
