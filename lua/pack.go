package lua

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/actor"
)

// Packed values are one after the other, each a tag and what belongs to it. Numbers are little
// endian, lengths are unsigned varints.
const (
	tagNil    = iota
	tagFalse  //
	tagTrue   //
	tagSmall  // a number that is an integer within ±2⁵³: a zigzag varint
	tagNumber // another number: 8 bytes
	tagInt64  // a zigzag varint
	tagString // length, bytes
	tagTable  // length of the list, number of fields, the list, keys and values
)

// The limits of a message.
const (
	maxPacked = 1 << 20
	maxDepth  = 32
	maxHint   = 64 // a table is made for so many values at most: the bytes may promise more than they have
)

// packer appends values to buf. It is used once.
type packer struct {
	buf   []byte
	meter *meter       // for values of a script
	state *glua.LState // the thread that packs these
}

// spend takes the steps for what comes next, also where that is refused in the end.
func (p *packer) spend(steps int64) { p.meter.spend(p.state, int(steps)) }

func (p *packer) length(tag byte, n int) {
	p.buf = binary.AppendUvarint(append(p.buf, tag), uint64(n))
}

func (p *packer) text(s string) {
	p.length(tagString, len(s))
	p.buf = append(p.buf, s...)
}

func (p *packer) truth(b bool) {
	tag := byte(tagFalse)
	if b {
		tag = tagTrue
	}
	p.buf = append(p.buf, tag)
}

func (p *packer) number(n float64) {
	if n == math.Trunc(n) && math.Abs(n) <= exact && (n != 0 || !math.Signbit(n)) {
		p.buf = binary.AppendVarint(append(p.buf, tagSmall), int64(n))
		return
	}
	p.buf = binary.LittleEndian.AppendUint64(append(p.buf, tagNumber), math.Float64bits(n))
}

// integer packs an integer of Go, or an int64 of a script: as a number where that is exact.
func (p *packer) integer(n int64) {
	tag := byte(tagInt64)
	if -exact <= n && n <= exact {
		tag = tagSmall
	}
	p.buf = binary.AppendVarint(append(p.buf, tag), n)
}

// room returns an error when more was packed than a message may have, and before that when more
// bytes come than it could have.
func (p *packer) room(more int) *ValueError {
	if len(p.buf)+more > maxPacked {
		return refuse("a message has at most %d bytes", maxPacked)
	}
	return nil
}

// script packs a value of a script.
func (p *packer) script(v glua.LValue, depth int) *ValueError {
	p.spend(1 + reading(v))
	switch v := v.(type) {
	case *glua.LNilType:
		p.buf = append(p.buf, tagNil)
	case glua.LBool:
		p.truth(bool(v))
	case glua.LNumber:
		p.number(float64(v))
	case glua.LString:
		if err := p.room(len(v)); err != nil {
			return err
		}
		p.text(string(v))
	case *glua.LTable:
		return p.scriptTable(v, depth)
	case *glua.LUserData:
		n, ok := v.Value.(int64)
		if !ok {
			return refuse("a %s cannot be sent", typeName(v))
		}
		p.integer(n)
	default:
		return refuse("a %s cannot be sent", v.Type())
	}
	return p.room(0)
}

func (p *packer) scriptTable(t *glua.LTable, depth int) *ValueError {
	if depth == maxDepth {
		return refuse("tables are at most %d deep", maxDepth)
	}
	p.spend(traversing(t))
	n := t.MaxN()
	if err := p.room(n); err != nil { // a hole has one byte
		return err
	}
	l := tableOf(t)
	p.table(n, len(l.strdict)+len(l.dict))
	for i := 1; i <= n; i++ {
		if err := p.script(t.RawGetInt(i), depth+1); err != nil {
			return err.within(i)
		}
	}
	for _, k := range l.keys {
		v := l.field(k)
		if v == nil { // it was deleted
			continue
		}
		if err := p.scriptField(k, v, depth); err != nil {
			return err.within(keyText(k))
		}
	}
	return p.room(0)
}

// table packs the beginning of a table: how long its list is, and how many fields follow that.
func (p *packer) table(list, fields int) {
	p.length(tagTable, list)
	p.buf = binary.AppendUvarint(p.buf, uint64(fields))
}

func (p *packer) scriptField(k, v glua.LValue, depth int) *ValueError {
	switch k.(type) {
	case glua.LString, glua.LNumber, glua.LBool:
	default:
		return refuse("a %s cannot be a key in a message", k.Type())
	}
	if err := p.script(k, depth+1); err != nil {
		return err
	}
	return p.script(v, depth+1)
}

// keyText names a key in an error.
func keyText(k glua.LValue) string {
	if s, ok := k.(glua.LString); ok && len(s) > 64 {
		return string(s[:64]) + "…"
	}
	if k.Type() == glua.LTTable || k.Type() == glua.LTFunction {
		return "[" + k.Type().String() + "]"
	}
	return k.String()
}

// maxScratch is how many bytes are packed in a buffer that is used again.
const maxScratch = 4 << 10

// pack packs values of a script, the arguments of l from the one with the number first.
func (m scriptMaker) pack(l *glua.LState, values []glua.LValue, first int) ([]byte, error) {
	packed, err := m.packScratch(l, first, first+len(values)-1, func(i int) glua.LValue { return values[i-first] })
	return m.own(packed), err
}

// packScratch packs the values with some numbers, and returns bytes that are valid until the next call.
func (m scriptMaker) packScratch(l *glua.LState, first, last int, value func(i int) glua.LValue) ([]byte, error) {
	p := packer{meter: m.meter, state: l, buf: m.scratch.bytes[:0]}
	for i := first; i <= last; i++ {
		if err := p.script(value(i), 0); err != nil {
			return nil, err.of(i)
		}
	}
	if cap(p.buf) <= maxScratch {
		m.scratch.bytes = p.buf
	}
	return p.buf, nil
}

// own returns bytes of packScratch that stay valid.
func (m scriptMaker) own(packed []byte) []byte {
	if cap(packed) > maxScratch {
		return packed // which no other call uses
	}
	return bytes.Clone(packed)
}

// packGo packs values of Go.
func packGo(values []any) ([]byte, error) {
	var p packer
	for i, v := range values {
		if err := p.value(v, 0); err != nil {
			return nil, err.of(i + 1)
		}
	}
	return p.buf, nil
}

// value packs a value of Go.
func (p *packer) value(v any, depth int) *ValueError {
	switch v := v.(type) {
	case nil:
		p.buf = append(p.buf, tagNil)
	case bool:
		p.truth(v)
	case float64:
		p.number(v)
	case float32:
		p.number(float64(v))
	case string:
		if err := p.room(len(v)); err != nil {
			return err
		}
		p.text(v)
	case []byte:
		return p.value(string(v), depth)
	case actor.PID:
		p.text(v.String())
	case *Table, []any, map[string]any:
		return p.composite(v, depth)
	default:
		return p.whole(v)
	}
	return p.room(0)
}

// whole packs an integer of Go.
func (p *packer) whole(v any) *ValueError {
	switch v := v.(type) {
	case int:
		p.integer(int64(v))
	case int64:
		p.integer(v)
	case int32:
		p.integer(int64(v))
	case int16:
		p.integer(int64(v))
	case int8:
		p.integer(int64(v))
	case uint8:
		p.integer(int64(v))
	case uint16:
		p.integer(int64(v))
	case uint32:
		p.integer(int64(v))
	case uint:
		return p.unsigned(uint64(v))
	case uint64:
		return p.unsigned(v)
	default:
		return refuse("a %T cannot be sent: it must be nil, a bool, a number, a string, a *lua.Table, a []any or a map[string]any", v)
	}
	return p.room(0)
}

func (p *packer) unsigned(v uint64) *ValueError {
	if v > math.MaxInt64 {
		return refuse("%d cannot be sent: an integer must be at most %d", v, int64(math.MaxInt64))
	}
	p.integer(int64(v))
	return p.room(0)
}

// unpacker reads packed values into those of a maker.
type unpacker[V any] struct {
	in   []byte
	make maker[V]
}

// maker makes the values of Go, or those of a script, and charges the script for them.
type maker[V any] interface {
	nothing() V
	truth(b bool) V
	number(n float64) V
	integer(n int64) V
	text(s []byte) V
	// key makes a text that is the key of the next field of a table.
	key(table V, s []byte) V
	// table makes an empty table for a list and some fields.
	table(list, fields int) V
	// item sets the next value of the list, the one with the key i.
	item(table V, i int, v V)
	field(table, key, v V)
	// filled is called when a table has all its values.
	filled(table V)
	// full says why no more values may be made.
	full() error
}

// all appends all values.
func (u *unpacker[V]) all(values []V) ([]V, error) {
	if len(u.in) > maxPacked {
		return nil, refuse("a message has at most %d bytes", maxPacked)
	}
	for len(u.in) > 0 {
		v, err := u.value(0)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (u *unpacker[V]) value(depth int) (v V, err error) {
	if err := u.make.full(); err != nil {
		return v, err
	}
	if len(u.in) == 0 {
		return v, errCut()
	}
	tag := u.in[0]
	u.in = u.in[1:]
	switch tag {
	case tagNil:
		return u.make.nothing(), nil
	case tagFalse, tagTrue:
		return u.make.truth(tag == tagTrue), nil
	case tagSmall:
		n, err := u.varint()
		return u.make.number(float64(n)), err
	case tagInt64:
		n, err := u.varint()
		return u.make.integer(n), err
	case tagNumber:
		if len(u.in) < 8 {
			return v, errCut()
		}
		bits := binary.LittleEndian.Uint64(u.in)
		u.in = u.in[8:]
		return u.make.number(math.Float64frombits(bits)), nil
	case tagString:
		s, err := u.text()
		return u.make.text(s), err
	case tagTable:
		return u.table(depth)
	}
	return v, refuse("not packed values: there is no tag %d", tag)
}

func errCut() error { return refuse("not packed values: they end too early") }

func (u *unpacker[V]) varint() (int64, error) {
	n, size := binary.Varint(u.in)
	if size <= 0 {
		return 0, errCut()
	}
	u.in = u.in[size:]
	return n, nil
}

// length reads how many things follow, of which each has at least so many bytes.
func (u *unpacker[V]) length(each int) (int, error) {
	n, size := binary.Uvarint(u.in)
	if size <= 0 || n > uint64((len(u.in)-size)/each) {
		return 0, errCut()
	}
	u.in = u.in[size:]
	return int(n), nil
}

// text reads the bytes of a string, nil with an error.
func (u *unpacker[V]) text() ([]byte, error) {
	n, err := u.length(1)
	if err != nil {
		return nil, err
	}
	s := u.in[:n]
	u.in = u.in[n:]
	return s, nil
}

func (u *unpacker[V]) table(depth int) (t V, err error) {
	if depth == maxDepth {
		return t, refuse("not packed values: tables are at most %d deep", maxDepth)
	}
	n, err := u.length(1)
	if err != nil {
		return t, err
	}
	fields, err := u.length(2)
	if err != nil {
		return t, err
	}
	t = u.make.table(min(n, maxHint), min(fields, maxHint))
	for i := 1; i <= n; i++ {
		v, err := u.value(depth + 1)
		if err != nil {
			return t, err
		}
		u.make.item(t, i, v)
	}
	for range fields {
		if err := u.field(t, depth); err != nil {
			return t, err
		}
	}
	u.make.filled(t)
	return t, nil
}

func (u *unpacker[V]) field(t V, depth int) error {
	if err := u.checkKey(); err != nil {
		return err
	}
	k, err := u.key(t, depth)
	if err != nil {
		return err
	}
	if len(u.in) > 0 && u.in[0] == tagNil {
		return refuse("not packed values: a field is nil")
	}
	v, err := u.value(depth + 1)
	if err != nil {
		return err
	}
	u.make.field(t, k, v)
	return nil
}

// key reads the key of a field.
func (u *unpacker[V]) key(table V, depth int) (v V, err error) {
	if u.in[0] != tagString {
		return u.value(depth + 1)
	}
	if err := u.make.full(); err != nil {
		return v, err
	}
	u.in = u.in[1:]
	s, err := u.text()
	if err != nil {
		return v, err
	}
	return u.make.key(table, s), nil
}

// checkKey looks at the key that comes next. A key of the list would make a list with as many holes.
func (u *unpacker[V]) checkKey() error {
	if len(u.in) == 0 {
		return errCut()
	}
	look := unpacker[any]{in: u.in, make: goMaker{}}
	switch u.in[0] {
	case tagString, tagFalse, tagTrue:
		return nil
	case tagSmall, tagNumber:
		v, err := look.value(0)
		if err != nil {
			return err
		}
		if n, _ := v.(float64); math.IsNaN(n) || isListKey(n) {
			return refuse("not packed values: %v is the key of a field", strconv.FormatFloat(n, 'g', -1, 64))
		}
		return nil
	}
	return refuse("not packed values: the key of a field has the tag %d", u.in[0])
}
