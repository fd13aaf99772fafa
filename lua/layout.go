package lua

import (
	"fmt"
	"maps"
	"reflect"
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// What the interpreter does next, and what its values hold, is in fields that it does not show. Without them the
// limits would have holes: the keys that were deleted from a table stay in its memory, and so do the list of a dead
// coroutine and the holes of a list; an assignment may make a list of a gigabyte in one instruction. So these types
// have the fields in the order of gopher-lua 1.1.2, and checkLayout compares them with what it was compiled with:
// another version is refused, not misread.

type stateLayout struct {
	G            *glua.Global
	Parent       *glua.LState
	Env          *glua.LTable
	Panic        func(*glua.LState)
	Dead         bool
	Options      glua.Options
	stop         int32
	reg          *registryLayout
	stack        fmt.Stringer // an interface with methods, of a *stackLayout
	alloc        unsafe.Pointer
	currentFrame *frameLayout
	wrapped      bool
	uvcache      *upvalueLayout // those that are open, by their index
	hasErrorFunc bool
}

type frameLayout struct {
	Idx        int
	Fn         *glua.LFunction
	Parent     *frameLayout
	Pc         int
	Base       int
	LocalBase  int
	ReturnBase int
	NArgs      int
	NRet       int
	TailCall   int
}

// stackLayout is the functions that are under way. Segments beyond segIdx are nil.
type stackLayout struct {
	segments []*segmentLayout
	segIdx   uint16
	segSp    uint8
}

// segmentLayout may have frames beyond those under way, also of other states: the interpreter uses
// segments again as they are.
type segmentLayout struct {
	array [glua.FramesPerSegment]frameLayout
}

type registryLayout struct {
	array   []glua.LValue
	top     int
	growBy  int
	maxSize int
	alloc   unsafe.Pointer
	handler fmt.Stringer // an interface with methods, of the thread
}

type tableLayout struct {
	Metatable glua.LValue
	array     []glua.LValue
	dict      map[glua.LValue]glua.LValue
	strdict   map[string]glua.LValue
	keys      []glua.LValue // all that there ever were
	k2i       map[glua.LValue]int
}

// field returns the value of a key that is not of the list, nil if it was deleted.
func (t *tableLayout) field(key glua.LValue) glua.LValue {
	if s, ok := key.(glua.LString); ok {
		return t.strdict[string(s)]
	}
	return t.dict[key]
}

// makeRoom makes the maps of an empty table, for so many keys that are texts. A few may be shared ones.
func (t *tableLayout) makeRoom(fields int) {
	t.strdict = make(map[string]glua.LValue, fields)
	if fields > maxSharedKeys {
		t.keys, t.k2i = make([]glua.LValue, 0, fields), make(map[glua.LValue]int, fields)
	}
}

// setText is the interpreter's RawSetString of a key that is made already.
func (t *tableLayout) setText(key, v glua.LValue) {
	if t.strdict == nil {
		t.strdict = map[string]glua.LValue{}
	}
	if t.k2i == nil {
		t.k2i = map[glua.LValue]int{}
	}
	before := len(t.strdict)
	t.strdict[string(key.(glua.LString))] = v
	if len(t.strdict) == before {
		return // it was there
	}
	if _, ok := t.k2i[key]; !ok {
		t.k2i[key] = len(t.keys)
		t.keys = append(t.keys, key)
	}
}

type upvalueLayout struct {
	next   *upvalueLayout
	reg    *registryLayout
	index  int
	value  glua.LValue
	closed bool
}

// nests reports whether a function takes of the stack of Go: it is one of Go, or the interpreter
// has called it within an instruction that is no call.
func (f *frameLayout) nests() bool {
	if f.Fn.IsG {
		return true
	}
	caller := f.Parent
	if caller == nil || caller.Fn.IsG {
		return false
	}
	op := instruction(caller.Fn.Proto.Code[caller.Pc-1]).op()
	return op != glua.OP_CALL && op != glua.OP_TAILCALL
}

// fit gives a table that shares no keys maps for those that it has. There may be room for many more
// in the maps that it was made with.
func (t *tableLayout) fit() {
	fields := make(map[string]glua.LValue, len(t.strdict))
	maps.Copy(fields, t.strdict)
	places := make(map[glua.LValue]int, len(t.keys))
	for i, k := range t.keys {
		places[k] = i
	}
	t.strdict, t.k2i = fields, places
	t.keys = append(make([]glua.LValue, 0, max(len(t.keys), leastKeys)), t.keys...)
}

// leastKeys is the least room for keys that a table gets from here. Tables with less have their
// keys from the interpreter.
const leastKeys = 4

func stateOf(l *glua.LState) *stateLayout      { return (*stateLayout)(unsafe.Pointer(l)) }
func (s *stateLayout) calls() *stackLayout     { return (*stackLayout)(behind(&s.stack)) }
func (r *registryLayout) thread() *glua.LState { return (*glua.LState)(behind(&r.handler)) }

// behind returns the pointer that an interface holds.
func behind(i *fmt.Stringer) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(i))[1] }

func (s *stateLayout) thread() *glua.LState    { return (*glua.LState)(unsafe.Pointer(s)) }
func tableOf(t *glua.LTable) *tableLayout      { return (*tableLayout)(unsafe.Pointer(t)) }
func upvalueOf(u *glua.Upvalue) *upvalueLayout { return (*upvalueLayout)(unsafe.Pointer(u)) }
func numberAt(v *glua.LValue) uintptr          { return (*[2]uintptr)(unsafe.Pointer(v))[1] }
func textAt(s glua.LString) unsafe.Pointer     { return unsafe.Pointer(unsafe.StringData(string(s))) }

// checkLayout fails when the interpreter's types are not those that this file describes.
func checkLayout() error {
	state := reflect.TypeFor[glua.LState]()
	frame, reg := pointed(state, "currentFrame"), pointed(state, "reg")
	stack, segment := stackTypes()
	for _, c := range []struct{ ours, theirs reflect.Type }{
		{reflect.TypeFor[stateLayout](), state},
		{reflect.TypeFor[frameLayout](), frame},
		{reflect.TypeFor[stackLayout](), stack},
		{reflect.TypeFor[segmentLayout](), segment},
		{reflect.TypeFor[registryLayout](), reg},
		{reflect.TypeFor[tableLayout](), reflect.TypeFor[glua.LTable]()},
		{reflect.TypeFor[upvalueLayout](), reflect.TypeFor[glua.Upvalue]()},
	} {
		if err := compareLayout(c.ours, c.theirs); err != nil {
			return fmt.Errorf("open lua runtime: this version of gopher-lua is not known: %w", err)
		}
	}
	return nil
}

// stackTypes returns the types of a stack and of its segments, nil for what is not there.
func stackTypes() (stack, segment reflect.Type) {
	l := glua.NewState(glua.Options{SkipOpenLibs: true, MinimizeStackMemory: true, RegistrySize: firstValues, CallStackSize: frameRoom})
	defer l.Close()
	held := reflect.ValueOf(l).Elem().FieldByName("stack")
	if held.Kind() != reflect.Interface || held.Elem().Kind() != reflect.Pointer {
		return nil, nil
	}
	stack = held.Elem().Type().Elem()
	if f, ok := stack.FieldByName("segments"); ok && f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Pointer {
		segment = f.Type.Elem().Elem()
	}
	return stack, segment
}

// pointed returns the type that a field points to, nil if there is no such field.
func pointed(t reflect.Type, field string) reflect.Type {
	if f, ok := t.FieldByName(field); ok && f.Type.Kind() == reflect.Pointer {
		return f.Type.Elem()
	}
	return nil
}

// compareLayout fails unless the fields of ours are the first ones of theirs.
func compareLayout(ours, theirs reflect.Type) error {
	if theirs == nil || theirs.NumField() < ours.NumField() {
		return fmt.Errorf("%s is not there", ours)
	}
	for i := range ours.NumField() {
		a, b := ours.Field(i), theirs.Field(i)
		same := a.Name == b.Name && a.Offset == b.Offset && a.Type.Size() == b.Type.Size()
		opaque := a.Type.Kind() == reflect.UnsafePointer && b.Type.Kind() == reflect.Pointer
		if !same || a.Type.Kind() != b.Type.Kind() && !opaque {
			return fmt.Errorf("field %s of %s is %s %s", a.Name, theirs, b.Name, b.Type)
		}
	}
	return nil
}
