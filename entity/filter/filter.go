package filter

import "slices"

// Filter is a condition about entities. It is immutable and safe for concurrent use. The zero
// Filter is not valid: [Parse] makes one.
type Filter struct {
	text  string // the canonical form
	root  node   // folded
	match condition
	paths []*Path
	first int // how many of the conditions of root are evaluated before the others, see Within
}

// Parse reads a filter. The empty text is the filter that every entity matches. An error is an
// [*Error] that says where and what is wrong.
func Parse(text string) (*Filter, error) {
	written, paths, err := parse(text)
	if err != nil {
		return nil, err
	}
	canonical := string(written.append(nil))
	if len(canonical) > MaxBytes {
		return nil, errorAt(text, len(text), "the canonical form of the filter has %d bytes; at most %d are allowed", len(canonical), MaxBytes)
	}
	root := fold(written)
	return &Filter{text: canonical, root: root, match: compile(root), paths: paths}, nil
}

// Within returns the filter that matches what both match, and evaluates scope first: of an entity
// that scope does not match it examines nothing else, so its cost reveals nothing about that
// entity. An error is an [*Error]: together they may be too long or too deep.
func (f *Filter) Within(scope *Filter) (*Filter, error) {
	text := scope.text
	if f.text != "" { // in parentheses, so that nothing in the text is outside of scope
		text = "(" + text + ") and (" + f.text + ")"
	}
	both, err := Parse(text)
	if err != nil {
		return nil, err
	}
	both.lookFirst(len(conjuncts(scope.root)))
	return both, nil
}

// lookFirst makes the filter evaluate the first n of its conditions before the others.
func (f *Filter) lookFirst(n int) {
	list := conjuncts(f.root)
	if n == 0 || n >= len(list) {
		return
	}
	f.first = n
	scope, rest := compileJoined(false, sorted(list[:n])), compileJoined(false, sorted(list[n:]))
	f.match = func(v View, e *Env) bool { return scope(v, e) && rest(v, e) }
}

// conjuncts returns the conditions that must all hold.
func conjuncts(n node) []node {
	switch n := n.(type) {
	case *joined:
		if !n.any {
			return n.list
		}
	case constant:
		if n {
			return nil
		}
	}
	return []node{n}
}

// String returns the filter in its canonical form: words in lower case, single spaces, no
// unnecessary parentheses, literals in their shortest form. Parsing it gives an equal filter.
func (f *Filter) String() string { return f.text }

// Match reports whether an entity matches the filter. It allocates nothing of its own. After it
// returns false, and with related in the filter also after true, [Env.Err] reports whether the
// budget of e was used up.
func (f *Filter) Match(v View, e *Env) bool { return f.match(v, e) }

// Paths returns the paths that the filter uses, also of related entities, each once. The caller
// must not change them.
func (f *Filter) Paths() []*Path { return slices.Clone(f.paths) }

// Bind returns the filter with the Slot of each of its paths set to the result of resolve, so that
// a [View] finds a value without looking up its name.
func (f *Filter) Bind(resolve func(p Path) int) *Filter {
	bound, err := Parse(f.text) // paths of its own; f may be in use
	if err != nil {
		return f // which cannot be: the canonical form is a filter
	}
	for _, p := range bound.paths {
		p.Slot = resolve(*p)
	}
	bound.lookFirst(f.first)
	return bound
}

// Depends says what can change the result of a filter besides the entity's own values.
type Depends struct {
	// Clock says that the time can: the filter contains now or an age.
	Clock bool
	// Relations says that the entity's relations can, and Related that the
	// values of related entities can.
	Relations, Related bool
}

// Depends returns what can change the filter's result for an entity that has not changed itself. A
// stream that evaluates a filter only when its entity changes is complete if this is the zero
// Depends.
func (f *Filter) Depends() Depends {
	var d Depends
	walk(f.root, func(n node) {
		for _, o := range operandsOf(n) {
			d.Clock = d.Clock || o.kind == ofNow || o.kind == ofAge
		}
		if n, ok := n.(*related); ok {
			d.Relations = true
			d.Related = d.Related || n.other != nil
		}
	})
	return d
}

// walk visits a node and all below it.
func walk(n node, visit func(node)) {
	visit(n)
	for _, o := range operandsOf(n) {
		if o.kind == ofComputed {
			walk(o.node, visit)
		}
	}
	switch n := n.(type) {
	case *joined:
		for _, x := range n.list {
			walk(x, visit)
		}
	case *not:
		walk(n.node, visit)
	case *related:
		if n.other != nil {
			walk(n.other, visit)
		}
	}
}
