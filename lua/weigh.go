package lua

import (
	"math"
	"math/bits"
	"strings"
	"unsafe"

	glua "github.com/yuin/gopher-lua"
)

// What values take, in bytes, with 64-bit pointers.
const (
	wordSize     = 16 // a value in a list or on a stack: an interface
	numberSize   = 8
	stringHeader = 16
	tableSize    = 96
	functionSize = 80 // with what the walk needs for it
	upvalueSize  = 56
	userdataSize = 64
	threadSize   = 4 << 10                               // without the values and the frames
	nestedSize   = 3 << 10                               // of the stack of Go, which has up to twice what is used
	segmentSize  = int64(unsafe.Sizeof(segmentLayout{})) // of a thread's frames

	bytesPerStep  = 64 // of a string that is read or copied
	valuesPerStep = 16 // that are moved
)

// instruction is one of the interpreter: an operation of 6 bits, and the operands A of 8, C and B of 9.
type instruction uint32

func (i instruction) op() int { return int(i >> 26) }
func (i instruction) a() int  { return int(i>>18) & 0xff }
func (i instruction) b() int  { return int(i & 0x1ff) }
func (i instruction) c() int  { return int(i>>9) & 0x1ff }
func (i instruction) bx() int { return int(i & 0x3ffff) }

// constantBit in an operand says that it is a constant, and not on the stack.
const constantBit = 1 << 8

// The weights of operations.
const (
	free       = iota // no more than a step
	jumps             // the same; every loop has one of these, or of those below but for calculates and divides
	boxes             // makes a number
	compares          // two numbers or texts
	calculates        // makes a number of two operands, which may be texts
	divides           // the same, and takes longer the more bits the result of the division has
	looks             // for a key, also in what a table inherits from
	stores            // a value in a table
	heavy             // may take more than a step's time, or memory
)

// weights are those of all operations. Most instructions of a program are free, or make a number.
var weights = func() (table [64]uint8) {
	for weight, operations := range [][]int{
		jumps:      {glua.OP_JMP},
		boxes:      {glua.OP_FORLOOP},
		compares:   {glua.OP_LT, glua.OP_LE},
		calculates: {glua.OP_ADD, glua.OP_SUB, glua.OP_MUL, glua.OP_DIV, glua.OP_POW},
		divides:    {glua.OP_MOD},
		looks:      {glua.OP_GETTABLE, glua.OP_GETTABLEKS, glua.OP_SELF},
		stores:     {glua.OP_SETTABLE},
		heavy: {
			glua.OP_GETGLOBAL, glua.OP_SETGLOBAL, glua.OP_SETTABLEKS,
			glua.OP_NEWTABLE, glua.OP_UNM, glua.OP_LEN, glua.OP_CONCAT, glua.OP_EQ, glua.OP_CALL, glua.OP_TAILCALL,
			glua.OP_TFORLOOP, glua.OP_SETLIST, glua.OP_CLOSURE, glua.OP_VARARG, glua.OP_RETURN,
		},
	} {
		for _, op := range operations {
			table[op] = uint8(weight)
		}
	}
	return table
}()

// cost is what an instruction takes besides its own step, or why it must not be run.
type cost struct {
	steps int64
	bytes int64
	fault error
}

// weigh returns what an instruction is going to take.
func (c *counter) weigh(f *frameLayout, i instruction) cost {
	switch i.op() {
	case glua.OP_GETTABLE, glua.OP_GETTABLEKS, glua.OP_SELF:
		return cost{steps: reading(c.operand(f, i.c())) + c.inheriting(c.local(f, i.b()))}
	case glua.OP_GETGLOBAL:
		return cost{steps: reading(f.Fn.Proto.Constants[i.bx()]) + c.inheriting(f.Fn.Env)}
	case glua.OP_SETGLOBAL:
		return c.assigning(f.Fn.Env, f.Fn.Proto.Constants[i.bx()], true)
	case glua.OP_SETTABLE, glua.OP_SETTABLEKS:
		return c.assigning(c.local(f, i.a()), c.operand(f, i.b()), i.b()&constantBit != 0)
	case glua.OP_NEWTABLE:
		return cost{bytes: tableSize + int64(i.b())*wordSize + mapSize(i.c())}
	case glua.OP_CONCAT:
		return c.concatenating(f, i)
	case glua.OP_EQ, glua.OP_LT, glua.OP_LE:
		return cost{steps: comparing(c.operand(f, i.b()), c.operand(f, i.c()))}
	case glua.OP_LEN:
		return cost{steps: measuring(c.operand(f, i.b())), bytes: numberSize}
	case glua.OP_UNM:
		return cost{steps: parsing(c.operand(f, i.b())), bytes: numberSize}
	case glua.OP_SETLIST:
		n := c.several(f, i.a()+1, i.b())
		return cost{steps: n / valuesPerStep, bytes: n * wordSize * 2}
	case glua.OP_CLOSURE:
		n := int64(f.Fn.Proto.FunctionPrototypes[i.bx()].NumUpvalues)
		return cost{steps: n * int64(f.LocalBase/32), bytes: functionSize + n*upvalueSize}
	case glua.OP_CALL, glua.OP_TAILCALL, glua.OP_TFORLOOP:
		return c.calling(f, i)
	case glua.OP_VARARG:
		return cost{steps: int64(max(f.NArgs, 0) / valuesPerStep)}
	case glua.OP_RETURN:
		return cost{steps: c.several(f, i.a(), i.b()-1)/valuesPerStep + int64(f.LocalBase/256)}
	case glua.OP_FORLOOP:
		return cost{bytes: numberSize}
	}
	// Arithmetic: a text is read as a number.
	return cost{steps: parsing(c.operand(f, i.b())) + parsing(c.operand(f, i.c())), bytes: numberSize}
}

func (c *counter) local(f *frameLayout, i int) glua.LValue { return c.state.reg.array[f.LocalBase+i] }

func (c *counter) operand(f *frameLayout, i int) glua.LValue {
	if i&constantBit != 0 {
		return f.Fn.Proto.Constants[i&^constantBit]
	}
	return c.local(f, i)
}

// isNumber reports whether an operand is a number.
func (c *counter) isNumber(f *frameLayout, i int) bool {
	_, ok := c.operand(f, i).(glua.LNumber)
	return ok
}

// isPlain reports whether a value is a table that inherits from no other.
func isPlain(v glua.LValue) bool {
	t, ok := v.(*glua.LTable)
	return ok && t.Metatable == glua.LNil
}

// isOfList reports whether a value is a table that inherits from no other, and a key one of those that its list has.
func isOfList(v, key glua.LValue) bool {
	n, ok := key.(glua.LNumber)
	if !ok || !isPlain(v) {
		return false
	}
	return isListKey(float64(n)) && int(n) <= len(tableOf(v.(*glua.LTable)).array) //nolint:forcetypeassert // isPlain
}

// isShort reports whether a key is found in a step.
func isShort(key glua.LValue) bool {
	s, ok := key.(glua.LString)
	return !ok || len(s) < bytesPerStep
}

// dividing returns the steps for the rest of a division of the operands, and whether both are numbers.
func (c *counter) dividing(f *frameLayout, i instruction) (int64, bool) {
	a, ok := c.operand(f, i.b()).(glua.LNumber)
	if !ok {
		return 0, false
	}
	b, ok := c.operand(f, i.c()).(glua.LNumber)
	return dividing(float64(a), float64(b)), ok
}

// dividing returns the steps for the rest of a/b, of which math.Mod finds a bit at a time: there
// are up to two thousand.
func dividing(a, b float64) int64 {
	const exponent, bits = 52, 0x7ff
	longer := int64(math.Float64bits(a)>>exponent&bits) - int64(math.Float64bits(b)>>exponent&bits)
	if longer < 64 {
		return 0
	}
	return longer / 2
}

// stepsPerNumber is what it takes to read a number that has many digits or an exponent. Most of
// them take no longer than others, but those between two numbers, and near zero, are calculated
// with decimals.
const stepsPerNumber = 250

// parsing returns the steps for taking a value as a number.
func parsing(v glua.LValue) int64 {
	s, ok := v.(glua.LString)
	if !ok {
		return 0
	}
	steps := int64(2 + len(s)/bytesPerStep)
	if len(s) > 18 || strings.ContainsAny(string(s), "eEpP") {
		steps += stepsPerNumber
	}
	return steps
}

// isNumeral reports whether a text may be a number whose reading takes long.
func isNumeral(s glua.LString) bool {
	text := strings.TrimLeft(string(s[:min(len(s), bytesPerStep)]), " \t\n+-.")
	return text != "" && text[0] <= '9' && text[0] >= '0' && parsing(s) >= stepsPerNumber
}

// inheriting returns the steps for looking for a key in what a value inherits from beyond the first
// table: the interpreter goes through up to a hundred.
func (c *counter) inheriting(v glua.LValue) (levels int64) {
	t, ok := v.(*glua.LTable)
	if _, isText := v.(glua.LString); isText {
		t, ok = c.state.thread().GetMetaField(v, "__index").(*glua.LTable)
	}
	for ok && levels < int64(glua.MaxTableGetLoop) {
		meta, inherits := t.Metatable.(*glua.LTable)
		if !inherits {
			break
		}
		t, ok = tableOf(meta).strdict["__index"].(*glua.LTable)
		levels++
	}
	return max(levels-1, 0)
}

// reading returns the steps for hashing or parsing a value.
func reading(v glua.LValue) int64 {
	if s, ok := v.(glua.LString); ok {
		return int64(len(s) / bytesPerStep)
	}
	return 0
}

func comparing(a, b glua.LValue) int64 { return min(reading(a), reading(b)) }

// measuring returns the steps for the length of a list, which is searched from its end.
func measuring(v glua.LValue) int64 {
	t, ok := v.(*glua.LTable)
	if !ok {
		return 0
	}
	list := tableOf(t).array
	if n := len(list); n > 0 && list[n-1] == glua.LNil {
		return int64(n / 8)
	}
	return 0
}

// traversing returns the steps for going through a table twice: also through the keys that were
// deleted from it, each of which is looked up, and through its holes.
func traversing(t *glua.LTable) int64 {
	l := tableOf(t)
	steps := int64(len(l.array)+len(l.keys)) / 2
	for _, k := range l.keys {
		steps += 4 * reading(k)
	}
	return steps
}

// stepsPerText is what it takes to write a number.
const stepsPerText = 4

// concatenating returns the cost of a string. What metamethods add is checked by the next instruction.
func (c *counter) concatenating(f *frameLayout, i instruction) cost {
	size, numbers := int64(0), int64(0)
	for at := i.b(); at <= i.c(); at++ {
		switch v := c.local(f, at).(type) {
		case glua.LString:
			size += int64(len(v))
		case glua.LNumber:
			size += 24
			numbers++
		}
	}
	if size > maxString {
		return cost{fault: errString}
	}
	return cost{steps: size/bytesPerStep + stepsPerText*numbers, bytes: size + 2*stringHeader}
}

// mostTailCalls is how many tail calls of a function an error shows. The interpreter writes a line for each, of which
// there may be millions.
const mostTailCalls = 8

// stepsPerArg is what it takes to make the table arg.
const stepsPerArg = 20

// several returns how many values an instruction moves from the register at on: n, or those up to
// the top of the stack if n says so.
func (c *counter) several(f *frameLayout, at, n int) int64 {
	if n > 0 {
		return int64(n)
	}
	return int64(max(c.state.reg.top-f.LocalBase-at, 0))
}

// calling returns the cost of a call: the values that are moved, what small things a function of Go
// may allocate, the texts that it may read or take as numbers, and the table arg of a function in
// the manner of Lua 5.0. The variables of all functions under way that others have captured are one
// list, which is searched when functions are made and when they return.
func (c *counter) calling(f *frameLayout, i instruction) cost {
	f.TailCall = min(f.TailCall, mostTailCalls)
	n := int(c.several(f, i.a()+1, i.b()-1))
	if i.op() == glua.OP_TFORLOOP {
		n = 2
	}
	w := cost{steps: int64(n/valuesPerStep + f.LocalBase/256), bytes: 2 * wordSize}
	fn, ok := c.local(f, i.a()).(*glua.LFunction)
	switch {
	case !ok || fn.IsG:
		w.steps += c.reads(f, i.a()+1, n, fn)
	case fn.Proto.IsVarArg&glua.VarArgNeedsArg != 0:
		w.steps += stepsPerArg
		w.bytes += tableSize + int64(len(c.state.reg.array))*wordSize + mapSize(32)
	}
	return w
}

// reads returns the steps for the texts among the arguments of a function of Go. The text that a
// function of the library of strings is about is not among them: it counts what it reads of that
// itself.
func (c *counter) reads(f *frameLayout, at, n int, fn *glua.LFunction) (steps int64) {
	for k := range n {
		s, ok := c.local(f, at+k).(glua.LString)
		if !ok {
			continue
		}
		numeral := isNumeral(s)
		if len(s) < bytesPerStep && !numeral {
			continue
		}
		if _, about := c.texts[fn]; k == 0 && about {
			continue
		}
		if steps += int64(len(s) / bytesPerStep); numeral {
			steps += stepsPerNumber
		}
	}
	return steps
}

// assigning returns the cost of setting a key, which may be a constant of the program.
func (c *counter) assigning(to, key glua.LValue, constant bool) cost {
	t, levels := c.receiver(to, key)
	if t == nil {
		return cost{steps: levels}
	}
	w := c.growing(t, key, constant)
	w.steps += levels
	return w
}

// stepsPerMap is what it takes to make a map.
const stepsPerMap = 4

// growing returns the cost of setting a key of this table, and prepares the table for that. It makes the maps and the
// list of a new table small: the interpreter would make a map for 32 strings, of 2 KB, for the first one. Keys that
// are constants are shared with other tables.
func (m *meter) growing(t *glua.LTable, key glua.LValue, constant bool) cost {
	l := tableOf(t)
	if n, ok := key.(glua.LNumber); ok && isListKey(float64(n)) {
		return lengthening(l, int(n))
	}
	c := cost{steps: reading(key), bytes: keySize}
	text, isText := key.(glua.LString)
	if isText && l.strdict == nil {
		l.strdict = map[string]glua.LValue{}
	}
	if !isText && l.dict == nil {
		c.steps += stepsPerMap
	}
	list := l.shared()
	switch {
	case l.keys != nil && list == nil:
		if cap(l.keys) < leastKeys {
			l.fit()
		}
		return c
	case list != nil && isText && list.find(string(text)) != nil:
		return c
	case constant && isText:
		if next := m.after(list, string(text)); next != nil {
			l.share(next)
			return c
		}
	}
	if list != nil {
		l.unshare()
		c.bytes += mapSize(len(l.keys))
		return c
	}
	c.steps += stepsPerMap
	l.keys, l.k2i = make([]glua.LValue, 0, leastKeys), map[glua.LValue]int{}
	c.bytes += mapSize(1)
	return c
}

// lengthening returns the cost of setting a key of the list.
func lengthening(l *tableLayout, key int) cost {
	switch holes := key - 1 - len(l.array); {
	case holes < 0:
		return cost{}
	case holes > maxHoles:
		return cost{fault: errHoles}
	case l.array == nil:
		l.array = make([]glua.LValue, 0, min(key, 4))
		return cost{steps: int64(holes / 8), bytes: int64(key) * wordSize * 2}
	case key <= cap(l.array):
		return cost{steps: int64(holes / 8)}
	}
	return cost{steps: int64(key / 64), bytes: int64(key) * wordSize * 2}
}

// receiver returns the table in which an assignment sets a key, nil if a function does it, or
// nobody, and the steps for finding it. It goes the way of the interpreter: not only tables have
// metatables, texts do too.
func (c *counter) receiver(to, key glua.LValue) (*glua.LTable, int64) {
	for level := range int64(glua.MaxTableGetLoop) {
		t, isTable := to.(*glua.LTable)
		if isTable && (t.Metatable == glua.LNil || t.RawGet(key) != glua.LNil) {
			return t, 2 * level
		}
		next := c.state.thread().GetMetaField(to, "__newindex")
		if next == glua.LNil {
			return t, 2 * level
		}
		to = next
	}
	return nil, 2 * int64(glua.MaxTableGetLoop)
}

// keySize is what a key takes in the maps of a table and in its list of keys, at most.
const keySize = 160

// mapSize returns what the maps of a table take that has had so many keys: groups of 8 slots with a
// byte each besides, which are between seven sixteenths and seven eighths full.
func mapSize(keys int) int64 {
	if keys == 0 {
		return 0
	}
	slots := int64(8)
	if keys > 8 {
		slots = 1 << bits.Len64(uint64(keys*8/7))
	}
	return slots*(33+25) + 2*48
}
