package filter

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Thresholds returns the numbers with which the filter compares the value of a path, each as the
// nearest float64, and whether the filter does nothing else with that value. If so, and as long as
// nothing else changes, its result is the same for any two numbers that have the same thresholds
// below them and neither of which equals one.
func (f *Filter) Thresholds(p *Path) (numbers []float64, only bool) {
	only = true
	looks := func(o operand) bool { return o.looked() && o.path.Root == p.Root && o.path.Name == p.Name }
	compares := func(o operand, with ...value.Value) bool {
		if o.kind != ofPath {
			return false
		}
		for _, v := range with {
			n, ok := v.Number()
			if !ok {
				return false
			}
			numbers = append(numbers, n)
		}
		return true
	}
	walk(f.root, func(n node) {
		if !slices.ContainsFunc(operandsOf(n), looks) {
			return
		}
		switch n := n.(type) {
		case *compare:
			if looks(n.left) {
				only = compares(n.left, n.right.value) && n.right.kind == ofLiteral && only
			} else {
				only = compares(n.right, n.left.value) && n.left.kind == ofLiteral && only
			}
		case *between:
			only = looks(n.operand) && compares(n.operand, n.low.value, n.high.value) && n.low.kind == ofLiteral && n.high.kind == ofLiteral && only
		case *in:
			only = compares(n.operand, n.list...) && only
		default:
			only = false
		}
	})
	slices.Sort(numbers)
	return slices.Compact(numbers), only
}
