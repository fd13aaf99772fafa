package lua

import (
	"fmt"
	"maps"
	"math"
	"slices"

	glua "github.com/yuin/gopher-lua"
)

// joiner gives the functions of a file the code of another version. A function gets the code of the
// one that is in its place in the new version, and keeps its variables, by their names: so whoever
// has the function, a table or a timer, has the new code, and values stay where they are. Functions
// under way keep their code: their frames get a copy of the old function.
//
// A place is a path of names: of local variables of the file, fields and globals. Functions that
// are written inside of others are in the same place when these are and their order is.
type joiner struct {
	s    *service
	l    *glua.LState
	file string
	dry  bool

	found   []*glua.LFunction // that the service has of the old version
	fresh   []*glua.LFunction // of the new one
	threads []*glua.LState

	oldCode, newCode   map[*glua.FunctionProto]bool
	oldCells, newCells map[string]*glua.Upvalue // local variables of the file

	heirs map[*glua.FunctionProto]*glua.FunctionProto // the new code, by the old
	names map[*glua.FunctionProto]string              // of old code
	seen  map[[2]glua.LValue]bool

	added, joined []string
	undoes        []func()
}

func newJoiner(s *service, l *glua.LState, file string, before, after *glua.FunctionProto, dry bool) *joiner {
	j := &joiner{
		s: s, l: l, file: file, dry: dry,
		oldCode: map[*glua.FunctionProto]bool{}, newCode: map[*glua.FunctionProto]bool{},
		heirs: map[*glua.FunctionProto]*glua.FunctionProto{}, names: map[*glua.FunctionProto]string{}, seen: map[[2]glua.LValue]bool{},
	}
	addCode(j.oldCode, before)
	addCode(j.newCode, after)
	w := newWalker(math.MaxInt64)
	w.thread = func(t *glua.LState) { j.threads = append(j.threads, t) }
	j.found = j.functions(w, s.roots, j.oldCode)
	j.oldCells = cellsOf(j.found, before)
	return j
}

// addCode adds the code of a file.
func addCode(code map[*glua.FunctionProto]bool, p *glua.FunctionProto) {
	code[p] = true
	for _, inner := range p.FunctionPrototypes {
		addCode(code, inner)
	}
}

// functions returns those with that code that the roots lead to.
func (j *joiner) functions(w *walker, roots func(*walker), code map[*glua.FunctionProto]bool) (list []*glua.LFunction) {
	w.found = func(f *glua.LFunction) {
		if f.Proto != nil && code[f.Proto] {
			list = append(list, f)
		}
	}
	roots(w)
	w.walk()
	j.s.meter.spend(j.l, w.count/2)
	return list
}

// cellsOf returns the local variables of a file that its functions use: those of the functions that
// are written at its top. Of two with a name it is the one that is found first.
func cellsOf(functions []*glua.LFunction, file *glua.FunctionProto) map[string]*glua.Upvalue {
	cells := map[string]*glua.Upvalue{}
	for _, f := range functions {
		if !slices.Contains(file.FunctionPrototypes, f.Proto) {
			continue
		}
		for i, u := range f.Upvalues {
			if name := f.Proto.DbgUpvalues[i]; u != nil && cells[name] == nil {
				cells[name] = u
			}
		}
	}
	return cells
}

// join takes over what the file has left when it was run again.
func (j *joiner) join(again *rerun, after *glua.FunctionProto) {
	s := j.s
	j.fresh = j.functions(newWalker(math.MaxInt64), again.roots, j.newCode)
	j.newCells = cellsOf(j.fresh, after)
	globals := s.root.G.Global

	j.pair("start", function(s.begin), function(again.begin))
	for i := range min(len(s.inits), len(again.inits)) {
		j.pair(fmt.Sprint("init", i+1), s.inits[i], again.inits[i])
	}
	j.pair("dispatch", function(s.handler), function(again.handler))
	j.pair("info_func", function(s.info), function(again.info))
	for _, name := range slices.Sorted(maps.Keys(j.newCells)) {
		if old := j.oldCells[name]; old != nil {
			j.joined = append(j.joined, name)
			j.pair(name, old.Value(), j.newCells[name].Value())
		} else {
			j.added = append(j.added, name)
		}
	}
	again.globals.ForEach(func(k, v glua.LValue) { j.pair(keyText(k), globals.RawGet(k), v) })
	module := s.modules[moduleName(j.file)]
	j.pair("return", module, again.value)
	if s.handler != nil && j.heirs[s.handler.Proto] != nil {
		j.names[s.handler.Proto] = "dispatch"
	}

	for _, name := range j.joined {
		j.take(name, j.oldCells[name].Value(), j.newCells[name].Value(), j.oldCells[name].SetValue)
	}
	again.globals.ForEach(func(k, v glua.LValue) {
		j.take(keyText(k), globals.RawGet(k), v, func(v glua.LValue) { globals.RawSet(k, v) })
	})
	if module != nil {
		j.take("return", module, again.value, func(v glua.LValue) { s.modules[moduleName(j.file)] = v })
	}
	j.adopt(again)
}

// function returns a function as a value, nil if there is none.
func function(f *glua.LFunction) glua.LValue {
	if f == nil {
		return glua.LNil
	}
	return f
}

// maxPlace is how long the name of a place may be. What is further away, in tables within tables, is not looked for.
const maxPlace = 512

// pair notes that a value of the new version is in the place of one of the old.
func (j *joiner) pair(name string, before, after glua.LValue) {
	key := [2]glua.LValue{before, after}
	if before == nil || after == nil || j.seen[key] || len(name) > maxPlace {
		return
	}
	j.s.meter.spend(j.l, 1)
	switch old := before.(type) {
	case *glua.LFunction:
		if f, ok := after.(*glua.LFunction); ok && j.oldCode[old.Proto] && j.newCode[f.Proto] {
			j.pairCode(name, old.Proto, f.Proto)
		}
	case *glua.LTable:
		t, ok := after.(*glua.LTable)
		if !ok {
			return
		}
		j.seen[key] = true
		t.ForEach(func(k, v glua.LValue) { j.pair(name+"."+keyText(k), old.RawGet(k), v) })
		j.pair(name+" (metatable)", old.Metatable, t.Metatable)
	}
}

// pairCode notes that code takes the place of other code, and so does what is written inside.
func (j *joiner) pairCode(name string, before, after *glua.FunctionProto) {
	if j.heirs[before] != nil || len(name) > maxPlace {
		return
	}
	j.heirs[before], j.names[before] = after, name
	next := 0
	for i, inner := range before.FunctionPrototypes {
		at := i
		if len(before.FunctionPrototypes) != len(after.FunctionPrototypes) {
			at = next
			for at < len(after.FunctionPrototypes) && !alike(inner, after.FunctionPrototypes[at]) {
				at++
			}
		}
		if at < len(after.FunctionPrototypes) {
			j.pairCode(fmt.Sprint(name, "/", i+1), inner, after.FunctionPrototypes[at])
			next = at + 1
		}
	}
}

// alike reports whether two functions, of which one may be new, have the same parameters and variables of others.
func alike(a, b *glua.FunctionProto) bool {
	return a.NumParameters == b.NumParameters && a.IsVarArg == b.IsVarArg && slices.Equal(a.DbgUpvalues, b.DbgUpvalues)
}

// change does something that undo takes back.
func (j *joiner) change(do, undo func()) {
	if !j.dry {
		j.undoes = append(j.undoes, undo)
		do()
	}
}

// undo takes back what was changed.
func (j *joiner) undo() {
	for _, f := range slices.Backward(j.undoes) {
		f()
	}
	j.undoes = nil
}

// take adds what a value of the new version has more than the one in its place: functions, and
// tables with some. Other values stay as they are.
func (j *joiner) take(name string, before, after glua.LValue, set func(glua.LValue)) {
	j.s.meter.spend(j.l, 1)
	old, isTable := before.(*glua.LTable)
	t, ok := after.(*glua.LTable)
	switch {
	case isTable && ok:
		j.takeFields(name, old, t)
	case before != nil && before.Type() == glua.LTFunction:
	case j.hasCode(after, 0):
		j.added = append(j.added, name)
		j.change(func() { set(after) }, func() { set(before) })
	}
}

func (j *joiner) takeFields(name string, old, t *glua.LTable) {
	key := [2]glua.LValue{t, old} // the other way round than pair
	if old == t || j.seen[key] || len(name) > maxPlace {
		return
	}
	j.seen[key] = true
	t.ForEach(func(k, v glua.LValue) {
		j.take(name+"."+keyText(k), old.RawGet(k), v, func(v glua.LValue) {
			j.s.meter.take(j.l, int(j.s.meter.growing(old, k, false).bytes))
			old.RawSet(k, v)
		})
	})
	meta, ok := t.Metatable.(*glua.LTable)
	switch had, has := old.Metatable.(*glua.LTable); {
	case !ok:
	case has:
		j.takeFields(name+" (metatable)", had, meta)
	default:
		before := old.Metatable
		j.change(func() { old.Metatable = meta }, func() { old.Metatable = before })
	}
}

// maxCodeDepth is how deep functions are looked for in a table that is new.
const maxCodeDepth = 8

// hasCode reports whether a value is a function of the new version, or a table that has one.
func (j *joiner) hasCode(v glua.LValue, depth int) (has bool) {
	j.s.meter.spend(j.l, 1)
	switch v := v.(type) {
	case *glua.LFunction:
		return j.newCode[v.Proto]
	case *glua.LTable:
		if depth < maxCodeDepth {
			v.ForEach(func(_, field glua.LValue) { has = has || j.hasCode(field, depth+1) })
		}
	}
	return has
}

// adopt gives functions their code and their variables.
func (j *joiner) adopt(again *rerun) {
	s := j.s
	old := map[*glua.Upvalue]*glua.Upvalue{}
	for _, name := range j.joined {
		old[j.newCells[name]] = j.oldCells[name]
	}
	for _, f := range j.fresh {
		if j.dry {
			break // they are dropped
		}
		if f.Env == again.env {
			f.Env = s.root.G.Global
		}
		for i, u := range f.Upvalues {
			if cell := old[u]; cell != nil {
				f.Upvalues[i] = cell
			}
		}
	}
	j.keepFrames()
	for _, f := range j.found {
		variables, ok := j.variables(f)
		if !ok {
			delete(j.names, f.Proto)
			delete(j.heirs, f.Proto)
			continue
		}
		before, heir := *f, j.heirs[f.Proto]
		j.change(func() { f.Proto, f.Upvalues = heir, variables }, func() { *f = before })
	}
	begin, inits, handler, info := s.begin, s.inits, s.handler, s.info
	j.change(func() {
		if s.begin == nil {
			s.begin = again.begin
		}
		if len(again.inits) > len(s.inits) {
			s.inits = append(slices.Clip(s.inits), again.inits[len(s.inits):]...)
		}
		if s.handler == nil {
			s.handler = again.handler
		}
		if s.info == nil {
			s.info = again.info
		}
	}, func() { s.begin, s.inits, s.handler, s.info = begin, inits, handler, info })
}

// variables returns those of an old function in the order in which its new code has them, and
// whether there is new code and all of them are there.
func (j *joiner) variables(f *glua.LFunction) ([]*glua.Upvalue, bool) {
	heir := j.heirs[f.Proto]
	if heir == nil {
		return nil, false
	}
	list := make([]*glua.Upvalue, len(heir.DbgUpvalues))
	for i, name := range heir.DbgUpvalues {
		if own := slices.Index(f.Proto.DbgUpvalues, name); own >= 0 {
			list[i] = f.Upvalues[own]
		} else if list[i] = j.oldCells[name]; list[i] == nil {
			list[i] = j.newCells[name]
		}
		if list[i] == nil {
			return nil, false
		}
	}
	return list, true
}

// keepFrames has what is under way go on with the old code.
func (j *joiner) keepFrames() {
	if j.dry {
		return
	}
	copies := map[*glua.LFunction]*glua.LFunction{}
	for _, t := range j.threads {
		for frame := stateOf(t).currentFrame; frame != nil; frame = frame.Parent {
			f := frame.Fn
			if f == nil || f.Proto == nil || !j.oldCode[f.Proto] {
				continue
			}
			if copies[f] == nil {
				same := *f
				copies[f] = &same
			}
			frame.Fn = copies[f]
		}
	}
}

// report says what was done, or would be.
func (j *joiner) report(r *ReloadedService) {
	mended, left := map[string]bool{}, map[string]bool{}
	for _, p := range j.found {
		code := p.Proto
		if j.newCode[code] { // it has it already
			continue
		}
		if j.heirs[code] == nil {
			left[fmt.Sprintf("%s:%d", code.SourceName, code.LineDefined)] = true
		}
	}
	for _, name := range j.names {
		mended[name] = true
	}
	r.Mended, r.Left = slices.Sorted(maps.Keys(mended)), slices.Sorted(maps.Keys(left))
	r.Added, r.Joined = slices.Compact(slices.Sorted(slices.Values(j.added))), j.joined
}
