package mapping

import (
	"cmp"
	"math"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/depth"
)

// Engine evaluates the mappings, change by change. It is a state machine without goroutines, clock
// or randomness: the same calls give the same results. It reads earlier values through a [Reader],
// and only in the methods that say so. It is not safe for concurrent use.
//
// There are two kinds of fields, which differ in what their value at a time means.
//
// A field over single entities is a function of time: at each reading of one of its sources it has
// a value, computed from each source's value at that moment, and so it has a history as its sources
// do. A late reading changes the past: everything from its time on, up to where it no longer has an
// effect, is recomputed. The resulting history depends on what was measured and not on the order of
// arrival.
//
// A field over a group is about the present: it is computed from the latest values of thousands of
// members once for many changes, and late readings outside its window do not affect it.
type Engine struct {
	mappings map[string]*mapping
	targets  map[valueKey]*field
	byKey    map[string][]*field // by the key that they write, ordered by the id of the target
	entities map[string]*watched
	patterns patterns
	related  map[string][]*group // by the entity whose relations they follow
	room     *budget

	// since they were published
	evaluations, failures uint64

	touched  []*field          // by the current change
	depth    int               // of the current change
	dirty    []*field          // over a group, to be computed at the end of Apply
	stale    bool              // the order of evaluation has to be determined again
	pending  Effects           // the effects being gathered
	made     map[outputKey]int // where in pending.Outputs
	readings int               // in pending.Outputs, about
}

// valueKey names a value of an entity.
type valueKey struct{ entity, key string }

// String returns the name used in errors.
func (k valueKey) String() string { return filter.QuoteName(k.entity) + "." + filter.QuoteName(k.key) }

// Mapping is a statement that is in force under a name.
type Mapping struct {
	Name string
	// Version distinguishes the statements that were in force under the name; it increases.
	Version   int64
	Statement *Statement
}

// mapping is an installed Mapping.
type mapping struct {
	Mapping
	fields []*field
	groups map[string]*group
	room   *account
	// replaying says that the values with which it was loaded are ahead of the changes being
	// applied: these only tell at which times something happened.
	replaying bool
	// notYetInForce says that it was not in force when the replayed changes happened, so that they
	// have no result.
	notYetInForce bool
	// loading says that its sources are still being read: it accepts readings and computes nothing.
	// former is the mapping that it replaces.
	loading bool
	former  *mapping
	// retired says that its replacement is being loaded, until when it keeps computing. silent says
	// that it lacks something and has to be reloaded: until then it has no value.
	retired, silent bool
	// reshaped says that a group or an entity has changed during its load, so that the load has to
	// start over.
	reshaped bool
	depth    int // the greatest depth of the changes that gave no value because of that

	refusals uint64 // readings that the target has refused
	refusal  string // the last reason
}

// muted reports whether nothing is computed until the mapping is loaded.
func (m *mapping) muted() bool { return m.loading || m.silent }

// field is one value that an installed mapping computes.
type field struct {
	*frame
	m      *mapping
	index  int
	fanIn  bool
	lines  []*line // by source, nil if the source is over many values
	newest int64   // the time of the newest reading of its sources
	any    bool    // there was one
	// lastTS is the time of the last value over a group. The next one is not
	// older: a member that leaves may take the newest reading with it.
	lastTS int64

	touchedBy []int // the sources of which the current change has a reading
	isDirty   bool
	depth     int  // the greatest depth of the changes that have made it dirty
	suspended bool // part of a cycle that relations have closed
	rank      int  // the index in the order of evaluation

	evaluations, failures uint64
	failure               string // the last one
	failureTS             int64
	value                 value.Value // the computed value with the newest time
	valueTS               int64
}

// target is the value that the field writes.
func (f *field) target() valueKey { return valueKey{f.m.Statement.Into, f.spec.As} }

// group is a set of entities over which fields of one mapping are computed.
type group struct {
	roster
	m    *mapping
	spec *Group
	uses []fieldSource
}

// fieldSource is one source of a field.
type fieldSource struct {
	f *field
	i int
}

func (u fieldSource) source() *Source { return &u.f.spec.Sources[u.i] }

// watched is what mappings use of one entity.
type watched struct {
	keys map[string][]watch
	// matched says that the entity exists and has been added to the groups whose pattern it
	// matches.
	matched bool
}

// watch is a use of one key.
type watch struct {
	fieldSource
	member int32 // of the group, or -1 for an entity that the source names
}

// Output is what a mapping has computed after one change, or after many.
type Output struct {
	Mapping string
	Version int64
	// Into is the target of the readings.
	Into     string
	Readings []entity.Reading
	// Seq is the number of the newest change that they were computed from. A mapping has at most
	// one Output with this number and Depth that is not Again.
	Seq uint64
	// Depth is how many behaviors stand behind the change, as its origin says; for several changes
	// it is the greatest. It is at least 1, because the computation itself counts.
	Depth int
	// Again says that the readings replace values that a late reading has changed, or are the first
	// after a mapping was installed or loaded. There may be several such Outputs with one number.
	Again bool
}

// Effects are the results of changes.
type Effects struct {
	Outputs []Output
	// Late are the fields to derive from the history: the engine does not
	// remember enough to compute what a late reading changes.
	Late []Span
	// joined are members added by relations, whose values have to be loaded, and reload are
	// mappings that have lost members of a window.
	joined []membership
	reload []*mapping
}

// Settled reports whether there is nothing but Outputs.
func (e *Effects) Settled() bool { return len(e.Late)+len(e.joined)+len(e.reload) == 0 }

// Span is a field with late readings of some of its sources, from which on it has to be recomputed.
type Span struct {
	f       *field
	sources []int
	ts      int64
	depth   int // of the change
}

// NewEngine returns an engine without mappings.
func NewEngine() *Engine {
	return &Engine{
		mappings: make(map[string]*mapping), targets: make(map[valueKey]*field), byKey: make(map[string][]*field),
		entities: make(map[string]*watched), related: make(map[string][]*group),
		made: make(map[outputKey]int), room: &budget{most: MaxValueBytes},
	}
}

// Apply processes committed changes, in the order of their commits, and returns their effects. A
// change may be applied again. Effects that are not settled are for [Engine.Complete].
func (e *Engine) Apply(changes []entity.Change) Effects {
	_, effects := e.applySome(changes, math.MaxInt)
	return effects
}

// applySome applies the first n changes: all of them, or those up to the one with which the limit
// of readings and spans is reached. One change may affect thousands of mappings.
func (e *Engine) applySome(changes []entity.Change, most int) (n int, effects Effects) {
	e.begin()
	e.order()
	for n < len(changes) && e.readings+len(e.pending.Late) < most {
		c := &changes[n]
		n++
		e.depth = depth.Of(c.Origin.Source)
		if c.Edit != nil {
			e.edit(c)
		} else if c.Command == nil && c.Presence == nil {
			e.reading(c)
		}
		e.depth = 0
	}
	var seq uint64
	if n > 0 {
		seq = changes[n-1].Seq
	}
	e.order()
	e.flush(seq, false)
	return n, e.end()
}

// reading applies one reading.
func (e *Engine) reading(c *entity.Change) {
	w := e.find(c.Entity)
	if w == nil {
		return
	}
	e.touched = e.touched[:0]
	for i := range c.Values {
		for _, use := range w.keys[c.Values[i].Key] {
			e.use(use, c.TS, c.Values[i].Value)
		}
	}
	if len(e.touched) > 1 {
		slices.SortFunc(e.touched, func(a, b *field) int { return cmp.Compare(a.rank, b.rank) })
	}
	for _, f := range e.touched {
		e.react(f, c)
		f.touchedBy = f.touchedBy[:0]
	}
}

// find returns what mappings use of an existing entity, nil if nothing. With its first change the
// entity joins the groups whose pattern its id matches.
func (e *Engine) find(id string) *watched {
	w := e.entities[id]
	if w != nil && w.matched {
		return w
	}
	matched := true
	e.patterns.each(id, func(g *group) {
		if matched = matched && !g.m.replaying; !g.m.replaying {
			e.join(g, id)
		}
	})
	if w = e.entities[id]; w != nil {
		w.matched = matched
	}
	return w
}

// use gives a value to a source.
func (e *Engine) use(u watch, ts int64, v value.Value) {
	f, src := u.f, u.source()
	if !f.m.replaying {
		f.take(u, ts, src.extract(v))
	}
	if f.fanIn {
		if !f.m.replaying {
			e.markDirty(f)
		}
		return
	}
	if len(f.touchedBy) == 0 {
		e.touched = append(e.touched, f)
	}
	f.touchedBy = append(f.touchedBy, u.i)
}

// take gives a value to one of the field's sources.
func (f *field) take(u watch, ts int64, v value.Value) {
	if u.member >= 0 {
		f.many[u.i].put(u.member, ts, v)
		return
	}
	f.put(u.i, ts, v)
	if l := f.lines[u.i]; l != nil {
		l.put(ts, v)
	}
}

// markDirty makes sure that a field over a group is computed at the end.
func (e *Engine) markDirty(f *field) {
	if f.m.muted() {
		f.m.depth = max(f.m.depth, e.depth)
		return
	}
	f.depth = max(f.depth, e.depth)
	if !f.isDirty {
		f.isDirty = true
		e.dirty = append(e.dirty, f)
	}
}

// react computes a field over single entities after a reading of some of its
// sources.
func (e *Engine) react(f *field, c *entity.Change) {
	if f.m.replaying && f.m.notYetInForce {
		return
	}
	if f.m.replaying || f.m.muted() || f.any && c.TS < f.newest {
		e.late(f, c)
		return
	}
	f.newest, f.any = c.TS, true
	e.emit(f, f.frame, c.TS, c.Seq, false)
}

// emit evaluates a frame of a field and outputs its value.
func (e *Engine) emit(f *field, fr *frame, ts int64, seq uint64, again bool) {
	if f.suspended || f.m.muted() {
		return
	}
	if v, ok := e.evaluate(f, fr, ts); ok {
		if f.value.Kind() == 0 || ts >= f.valueTS {
			f.value, f.valueTS = v, ts
		}
		e.put(f, ts, v, seq, again)
	}
}

// evaluate returns the value of a field, false where it has none.
func (e *Engine) evaluate(f *field, fr *frame, ts int64) (value.Value, bool) {
	f.evaluations++
	e.evaluations++
	v, err := fr.evaluate()
	if err != nil {
		f.failures++
		e.failures++
		f.failure, f.failureTS = err.Error(), ts
		return v, false
	}
	return v, v.Kind() != 0
}

// put adds a value to the outputs. Those of one mapping and change are one
// output, and those of one time in it one reading.
func (e *Engine) put(f *field, ts int64, v value.Value, seq uint64, again bool) {
	sample := entity.Sample{Key: f.spec.As, Value: v}
	deep := max(e.depth, 1)
	key := outputKey{f.m, seq, deep, again}
	i, ok := e.made[key]
	if !ok {
		i = len(e.pending.Outputs)
		e.made[key] = i
		e.pending.Outputs = append(e.pending.Outputs, Output{
			Mapping: f.m.Name, Version: f.m.Version, Into: f.m.Statement.Into, Seq: seq, Depth: deep, Again: again,
		})
	}
	o := &e.pending.Outputs[i]
	e.readings++
	at, found := slices.BinarySearchFunc(o.Readings, ts, func(r entity.Reading, ts int64) int { return cmp.Compare(r.TS, ts) })
	if found {
		o.Readings[at].Values = append(o.Readings[at].Values, sample)
		return
	}
	o.Readings = slices.Insert(o.Readings, at, entity.Reading{TS: ts, Values: []entity.Sample{sample}})
}

// outputKey says which values are of one output.
type outputKey struct {
	m     *mapping
	seq   uint64
	depth int
	again bool
}

// begin starts to gather effects, and end returns them.
func (e *Engine) begin() {
	e.pending, e.readings = Effects{}, 0
	clear(e.made)
}

func (e *Engine) end() Effects {
	effects := e.pending
	e.begin()
	return effects
}

// flush computes the fields over groups that have changed.
func (e *Engine) flush(seq uint64, again bool) {
	slices.SortFunc(e.dirty, func(a, b *field) int { return cmp.Compare(a.rank, b.rank) })
	for _, f := range e.dirty {
		e.depth = f.depth
		f.isDirty, f.depth = false, 0
		if f.m.muted() {
			continue
		}
		ts, ok := f.frame.newest()
		if !ok && f.lastTS == 0 {
			continue
		}
		f.lastTS = max(f.lastTS, ts)
		e.emit(f, f.frame, f.lastTS, seq, again)
	}
	e.depth = 0
	clear(e.dirty)
	e.dirty = e.dirty[:0]
}

// parametric reports whether the field has attributes beside its sources.
func (f *field) parametric() bool {
	return slices.ContainsFunc(f.spec.Sources, func(s Source) bool { return s.timeless() })
}

// late recomputes what a late reading changes, or leaves that to Complete.
func (e *Engine) late(f *field, c *entity.Change) {
	ts := c.TS
	if f.m.replaying || f.m.muted() { // what of it is written already only the history tells
		e.pending.Late = append(e.pending.Late, Span{f, slices.Clone(f.touchedBy), ts, e.depth})
		return
	}
	if len(f.lines) == 1 && f.lines[0] != nil { // nothing but the reading itself
		fr := f.next(e.room.passing())
		fr.put(0, ts, valueOf(c, &f.spec.Sources[0]))
		e.emit(f, fr, ts, c.Seq, false)
		fr.room.leave()
		return
	}
	for i, l := range f.lines {
		if f.spec.Sources[i].timeless() {
			continue
		}
		if l == nil || !l.covers(ts) {
			e.pending.Late = append(e.pending.Late, Span{f, slices.Clone(f.touchedBy), ts, e.depth})
			return
		}
	}
	end, open := ts, false
	for _, i := range f.touchedBy {
		next, ok := f.lines[i].after(ts)
		end, open = max(end, next), open || !ok
	}
	times := []int64{ts}
	for _, l := range f.lines {
		if l == nil {
			continue
		}
		for _, p := range l.points {
			if p.ts > ts && (open || p.ts < end) {
				times = append(times, p.ts)
			}
		}
	}
	slices.Sort(times)
	for _, at := range slices.Compact(times) {
		fr := f.next(e.room.passing())
		for i, l := range f.lines {
			if l != nil {
				fr.put(i, at, l.at(at))
			}
		}
		e.emit(f, fr, at, c.Seq, at != ts)
		fr.room.leave()
	}
}

// valueOf returns what a reading says about a source.
func valueOf(c *entity.Change, src *Source) value.Value {
	for _, s := range slices.Backward(c.Values) {
		if s.Key == src.Key {
			return src.extract(s.Value)
		}
	}
	return value.Value{}
}
