package mapping

import (
	"cmp"
	"errors"
	"math"

	"github.com/greenroom-go/greenroom/entity/value"
)

var errSumRange = errors.New("the sum is beyond what a float64 holds")

// tally maintains the result of one Func over the values in numbered slots, while values are added,
// changed and removed: O(1) for sums, means and counts, O(log n) for minima and maxima. The result
// does not depend on their order.
type tally struct {
	fn      Func
	values  []value.Value // by slot; the zero Value for none
	count   int           // values of any kind
	numbers int
	sum     value.Sum
	best    *indexHeap // numbers, the result of Min or Max first
}

// put sets the value of a slot; the zero Value empties it.
func (t *tally) put(slot int32, v value.Value) {
	if t.fn != Last && t.fn != First && textBytes(v) > 0 {
		v = value.Bool(true) // that it is there is all that counts
	}
	for int(slot) >= len(t.values) {
		t.values = append(t.values, value.Value{})
	}
	t.drop(slot)
	if v.Kind() == 0 {
		return
	}
	t.values[slot] = v
	t.count++
	if !v.IsNumber() {
		return
	}
	t.numbers++
	switch t.fn {
	case Sum, Avg:
		t.sum.Add(v)
	case Min, Max:
		if t.best == nil {
			t.best = newIndexHeap(t.before)
		}
		t.best.push(slot)
	default: // the count is all, or the time of the readings
	}
}

// drop empties a slot.
func (t *tally) drop(slot int32) {
	v := t.values[slot]
	if v.Kind() == 0 {
		return
	}
	if t.count--; v.IsNumber() {
		t.numbers--
		switch t.fn {
		case Sum, Avg:
			t.sum.Remove(v)
		case Min, Max:
			t.best.remove(slot)
		default: // see put
		}
	}
	t.values[slot] = value.Value{}
}

// before is the order of the heap.
func (t *tally) before(a, b int32) bool {
	c := compareNumbers(t.values[a], t.values[b])
	return c < 0 && t.fn == Min || c > 0 && t.fn == Max
}

// value returns the result, the zero Value when there is none. It is not for
// Last and First.
func (t *tally) value() (value.Value, error) {
	switch {
	case t.fn == Count:
		return value.Int(int64(t.count)), nil
	case t.numbers == 0:
		return value.Value{}, nil
	case t.fn == Sum:
		if v, ok := t.sum.Value(); ok {
			return v, nil
		}
		return value.Value{}, errSumRange
	case t.fn == Avg:
		if f := t.sum.Float(); !math.IsInf(f, 0) {
			return value.Float(f / float64(t.numbers)), nil
		}
		return value.Value{}, errSumRange
	default:
		return t.values[t.best.first()], nil
	}
}

// compareNumbers is a total order, so that among equal extremes the result is always the same: by
// value, then integers before floats, then -0 before 0.
func compareNumbers(a, b value.Value) int {
	if c := value.CompareNumbers(a, b); c != 0 || a == b {
		return c
	}
	if a.Kind() != b.Kind() {
		return int(b.Kind()) - int(a.Kind())
	}
	return cmp.Compare(b2i(math.Signbit(b.Float())), b2i(math.Signbit(a.Float())))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
