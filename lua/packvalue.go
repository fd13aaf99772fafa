package lua

import (
	"maps"
	"slices"

	glua "github.com/yuin/gopher-lua"
)

// composite packs a table of Go.
func (p *packer) composite(v any, depth int) *ValueError {
	if depth == maxDepth {
		return refuse("tables are at most %d deep", maxDepth)
	}
	switch v := v.(type) {
	case *Table:
		if v == nil {
			p.buf = append(p.buf, tagNil)
			return nil
		}
		return p.goTable(v.List, v.Fields, depth)
	case []any:
		return p.goTable(v, nil, depth)
	case map[string]any:
		fields := make([]Field, 0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, Field{k, v[k]})
		}
		return p.goTable(nil, fields, depth)
	}
	return refuse("a %T cannot be sent", v)
}

func (p *packer) goTable(list []any, fields []Field, depth int) *ValueError {
	fields = slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return isNil(f.Value) })
	p.table(len(list), len(fields))
	for i, v := range list {
		if err := p.value(v, depth+1); err != nil {
			return err.within(i + 1)
		}
	}
	for _, f := range fields {
		if err := p.goField(f, depth); err != nil {
			return err.within(f.Key)
		}
	}
	return p.room(0)
}

// isNil reports whether a value of Go is packed as nil.
func isNil(v any) bool {
	t, ok := v.(*Table)
	return v == nil || ok && t == nil
}

func (p *packer) goField(f Field, depth int) *ValueError {
	switch k := f.Key.(type) {
	case string, bool:
	case float64:
		if k != k || isListKey(k) { // NaN
			return refuse("%v cannot be the key of a field: a positive integer belongs into the list", k)
		}
	default:
		return refuse("a %T cannot be the key of a field: it must be a string, a bool or a float64", k)
	}
	if err := p.value(f.Key, depth+1); err != nil {
		return err
	}
	return p.value(f.Value, depth+1)
}

// goMaker makes values of Go.
type goMaker struct{}

func (goMaker) nothing() any            { return nil }
func (goMaker) truth(b bool) any        { return b }
func (goMaker) number(n float64) any    { return n }
func (goMaker) integer(n int64) any     { return n }
func (goMaker) text(s []byte) any       { return string(s) }
func (goMaker) key(_ any, s []byte) any { return string(s) }

func (goMaker) table(list, _ int) any { return &Table{List: make([]any, 0, list)} }

func (goMaker) item(table any, _ int, v any) {
	t := table.(*Table)
	t.List = append(t.List, v)
}

func (goMaker) field(table, key, v any) {
	t := table.(*Table)
	t.Fields = append(t.Fields, Field{key, v})
}

func (goMaker) filled(any) {}

// unpackGo returns packed values as those of Go.
func unpackGo(packed []byte) ([]any, error) {
	return (&unpacker[any]{in: packed, make: goMaker{}}).all(nil)
}

func (goMaker) full() error { return nil }

// scriptMaker makes values of a script.
type scriptMaker struct {
	state   *glua.LState
	int64s  *glua.LTable // the metatable of an int64
	meter   *meter
	scratch *scratch
}

// scratch is what packing and unpacking use again.
type scratch struct {
	bytes  []byte
	values []glua.LValue
	keys   map[string]glua.LValue // of fields: messages of one kind have the same
}

// The limits of the keys that are kept.
const (
	maxKeptKeys = 128
	maxKeptKey  = 32 // bytes
)

func newScriptMaker(state *glua.LState, int64s *glua.LTable, m *meter) scriptMaker {
	return scriptMaker{state, int64s, m, &scratch{keys: map[string]glua.LValue{}}}
}

func (scriptMaker) nothing() glua.LValue     { return glua.LNil }
func (scriptMaker) truth(b bool) glua.LValue { return glua.LBool(b) }

func (m scriptMaker) number(n float64) glua.LValue {
	m.meter.make(numberSize)
	return glua.LNumber(n)
}

func (m scriptMaker) text(s []byte) glua.LValue {
	m.meter.make(int64(len(s)) + stringHeader)
	return glua.LString(s)
}

// string is text of a string of Go.
func (m scriptMaker) string(s string) glua.LValue {
	m.meter.make(int64(len(s)) + stringHeader)
	return glua.LString(s)
}

// key gives the table the list of keys that has this one as well, if there is such a list.
func (m scriptMaker) key(table glua.LValue, s []byte) glua.LValue {
	t := tableOf(table.(*glua.LTable))
	if list := t.shared(); t.keys == nil || list != nil {
		if next := m.meter.afterBytes(list, s); next != nil {
			m.meter.make(int64(len(s)) + stringHeader)
			t.share(next)
			return next.keys[len(next.keys)-1]
		}
	}
	if k := m.scratch.keys[string(s)]; k != nil {
		m.meter.make(int64(len(s)) + stringHeader)
		return k
	}
	return m.newKey(string(s))
}

// newKey makes a text that is the key of a field.
func (m scriptMaker) newKey(s string) glua.LValue {
	k := m.string(s)
	if len(s) <= maxKeptKey {
		if len(m.scratch.keys) >= maxKeptKeys {
			clear(m.scratch.keys)
		}
		m.scratch.keys[s] = k
	}
	return k
}

// keyOf is key of a string of Go.
func (m scriptMaker) keyOf(s string) glua.LValue {
	if k := m.scratch.keys[s]; k != nil {
		m.meter.make(int64(len(s)) + stringHeader)
		return k
	}
	return m.newKey(s)
}

func (m scriptMaker) integer(n int64) glua.LValue {
	m.meter.make(userdataSize)
	return &glua.LUserData{Value: n, Metatable: m.int64s}
}

func (m scriptMaker) table(list, fields int) glua.LValue {
	m.meter.make(tableSize + int64(list)*wordSize + mapSize(fields))
	t := m.state.CreateTable(list, 0)
	if fields > 0 {
		tableOf(t).makeRoom(fields)
	}
	return t
}

func (m scriptMaker) item(table glua.LValue, i int, v glua.LValue) {
	m.meter.make(wordSize * 2)
	table.(*glua.LTable).RawSetInt(i, v)
}

func (m scriptMaker) field(table, key, v glua.LValue) {
	t := table.(*glua.LTable)
	m.meter.make(m.meter.growing(t, key, false).bytes)
	if _, ok := key.(glua.LString); ok && v != glua.LNil {
		tableOf(t).setText(key, v)
		return
	}
	t.RawSet(key, v)
}

// filled takes back the room for fields that came several times.
func (m scriptMaker) filled(table glua.LValue) {
	t := tableOf(table.(*glua.LTable))
	if t.shared() == nil && cap(t.keys) > 2*len(t.keys)+maxRoom {
		t.fit()
	}
}

func (m scriptMaker) full() error {
	if m.meter.full {
		return m.meter.exhausted()
	}
	return nil
}

// unpack returns packed values as those of a script.
func (m scriptMaker) unpack(packed []byte) ([]glua.LValue, error) {
	return m.unpackTo(nil, packed)
}

// unpackScratch is unpack into a list that is valid until the next call.
func (m scriptMaker) unpackScratch(packed []byte) ([]glua.LValue, error) {
	values, err := m.unpackTo(m.scratch.values[:0], packed)
	if cap(values) <= maxHint {
		m.scratch.values = values[:0]
	}
	return values, err
}

func (m scriptMaker) unpackTo(values []glua.LValue, packed []byte) ([]glua.LValue, error) {
	m.meter.making = 0
	values, err := (&unpacker[glua.LValue]{in: packed, make: m}).all(values)
	m.meter.making = 0
	return values, err
}
