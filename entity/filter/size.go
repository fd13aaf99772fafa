package filter

import (
	"math/bits"

	"github.com/greenroom-go/greenroom/entity/value"
)

// What the parts of a compiled expression take, in bytes: the variables of the closures that
// compile, compileOperand, compileVerdict and the functions make, rounded to the sizes of the
// allocator. A test compares the sums with the heap.
const (
	expressionSize = 64
	pathSize       = 48 // a Path with its name
	leafSize       = 16 // an operand that is one path, or now
	literalSize    = 48
	closureSize    = 40 // of an operator, besides its operands
	testSize       = 16 // of a condition that gives a value
	elementSize    = 8  // of a list of closures
	valueSize      = 40 // in a list that was appended to
	mapSize        = 48

	patternSize     = 32 // a Pattern
	literalTextSize = 24 // of its literals
)

// operandSize returns what a compiled operand takes.
func operandSize(o operand) int {
	switch o.kind {
	case ofLiteral:
		return literalSize
	case ofTime, ofAge:
		return leafSize + closureSize
	case ofComputed:
		if _, ok := o.node.(computation); !ok {
			return testSize + nodeSize(o.node)
		}
		return nodeSize(o.node)
	default:
		return leafSize
	}
}

// nodeSize returns what a compiled node takes, with all below it.
func nodeSize(n node) int {
	size := closureSize
	for _, o := range operandsOf(n) {
		size += operandSize(o)
	}
	switch n := n.(type) {
	case *joined:
		for _, x := range n.list {
			size += elementSize + nodeSize(x)
		}
	case *not:
		size += nodeSize(n.node)
	case *related:
		if n.other != nil {
			size += nodeSize(n.other)
		}
	case *call:
		size += elementSize * len(n.args)
	case *in:
		size += n.size()
	case *textual:
		if n.pattern.Kind() == value.KindString {
			size += newPattern(n.op, n.pattern.Text()).size()
		}
	}
	return size
}

// size returns what the list takes: a set of strings, and other values.
func (n *in) size() int {
	texts := 0
	for _, v := range n.list {
		if v.Kind() == value.KindString {
			texts++
		}
	}
	return closureSize + sizeOfMap(texts, 16) + valueSize*(len(n.list)-texts)
}

// sizeOfMap returns what a map takes, with elements of slot bytes.
func sizeOfMap(n, slot int) int {
	if n == 0 {
		return mapSize
	}
	slots := 8
	if n > slots { // at most seven of eight are used
		slots = 1 << bits.Len(uint(n*8/7)) //nolint:gosec // positive
	}
	return mapSize + slots*(slot+1)
}

// size returns what the pattern takes.
func (p *pattern) size() int {
	const ofPattern, ofPiece, ofSeeker = 32, 48, 128
	size := ofPattern + ofPiece*len(p.pieces)
	for _, x := range p.pieces {
		size += len(x.text) + 4*len(x.runes)
		if x.long == nil {
			continue
		}
		w := &x.long.wild
		size += ofSeeker + 4*cap(x.long.fall) + 8*(cap(w.any)+cap(w.bits)+cap(w.seldom)) + 4*cap(w.often)
	}
	return size
}
