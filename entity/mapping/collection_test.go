package mapping

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// reading is one of a member, for the plain computation.
type reading struct {
	id string
	ts int64
	v  value.Value
}

// plainly computes a function over readings from scratch.
func plainly(fn Func, list []reading) value.Value {
	slices.SortFunc(list, func(a, b reading) int { return cmp.Or(cmp.Compare(a.ts, b.ts), cmp.Compare(a.id, b.id)) })
	var numbers []value.Value
	count := 0
	for _, r := range list {
		if r.v.Kind() != 0 {
			count++
		}
		if r.v.IsNumber() {
			numbers = append(numbers, r.v)
		}
	}
	switch {
	case fn == Count:
		return value.Int(int64(count))
	case fn == Last && len(list) > 0:
		return list[len(list)-1].v
	case fn == First && len(list) > 0:
		return list[0].v
	case len(numbers) == 0 || fn == Last || fn == First:
		return value.Value{}
	case fn == Min:
		return slices.MinFunc(numbers, compareNumbers)
	case fn == Max:
		return slices.MaxFunc(numbers, compareNumbers)
	}
	sum := bigSum(numbers)
	if fn == Avg {
		return value.Float(sum / float64(len(numbers)))
	}
	if !slices.ContainsFunc(numbers, func(v value.Value) bool { return v.Kind() != value.KindInt }) {
		return value.Int(int64(sum)) // the test's integers are small
	}
	return value.Float(sum)
}

// anyValue draws a value, most often a number of modest size.
func anyValue(r *rand.Rand) value.Value {
	switch r.IntN(8) {
	case 0:
		return value.String("text")
	case 1:
		return value.Value{}
	case 2, 3, 4:
		return value.Int(int64(r.IntN(9) - 4))
	default:
		return value.Float(float64(r.IntN(900)-450) / 7)
	}
}

var funcs = [...]Func{Avg, Min, Max, Sum, Count, Last, First}

// The parser, which is that of filters, must know the functions that this package computes, and no others.
func TestTheParserKnowsTheFunctionsOverManyValues(t *testing.T) {
	var names []string
	for _, fn := range funcs {
		names = append(names, string(fn))
	}
	_, err := Parse("insert into e select nonesuch(a.x) as t")
	if want := ", and over many values " + strings.Join(names, ", "); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v: want the end %q", err, want)
	}
}

func TestTheLatestOfAGroupAgreesWithThePlainComputation(t *testing.T) {
	for _, fn := range funcs[:len(funcs)-1] {
		t.Run(string(fn), func(t *testing.T) {
			r := rand.New(rand.NewPCG(9, 9))
			var group roster
			c := newLatestOf(&Source{Func: fn}, &group, nil)
			state := map[string]reading{}
			for step := range 5000 {
				id := fmt.Sprint("m", r.IntN(30))
				if _, in := state[id]; in && r.IntN(20) == 0 {
					c.leave(group.index[id])
					group.remove(id)
					delete(state, id)
				} else {
					rd := reading{id, int64(step/2 + r.IntN(20)), anyValue(r)}
					c.put(group.add(id), rd.ts, rd.v)
					if old, in := state[id]; !in || rd.ts >= old.ts {
						state[id] = rd
					}
				}
				var list []reading
				var newest int64
				for _, rd := range state {
					list = append(list, rd)
					newest = max(newest, rd.ts)
				}
				got, err := c.value()
				if want := plainly(fn, list); err != nil || got != want {
					t.Fatalf("step %d: %v, %v; want %v of %v", step, got, err, want, list)
				}
				if ts, ok := c.newest(); ok != (len(list) > 0) || ts != newest {
					t.Fatalf("step %d: the newest is %d, want %d", step, ts, newest)
				}
			}
		})
	}
}

func TestAWindowAgreesWithThePlainComputation(t *testing.T) {
	for _, fn := range funcs {
		for name, src := range map[string]Source{"last n": {Func: fn, LastN: 7}, "over": {Func: fn, Over: 30 * time.Millisecond}, "over of a group": {Func: fn, Over: 30 * time.Millisecond, Group: "g"}} {
			t.Run(string(fn)+" "+name, func(t *testing.T) {
				r := rand.New(rand.NewPCG(9, 10))
				var group *roster
				ids := []string{""}
				if src.Group != "" {
					group, ids = &roster{}, []string{"a", "b", "c"}
				}
				w := newWindowOf(&src, group, nil)
				all := map[memberTime]reading{}
				var newest int64
				for step := range 2000 {
					n := int32(r.IntN(len(ids)))
					if group != nil {
						group.add(ids[n])
					}
					rd := reading{ids[n], int64(step + r.IntN(40)), anyValue(r)}
					if group != nil {
						n = group.index[rd.id]
					}
					w.put(n, rd.ts, rd.v)
					all[memberTime{n, rd.ts}] = rd
					newest = max(newest, rd.ts)
					got, err := w.value()
					if want := plainly(fn, inWindow(all, &src, newest)); err != nil || got != want {
						t.Fatalf("step %d: %v, %v; want %v", step, got, err, want)
					}
				}
			})
		}
	}
}

// inWindow returns the readings that a window holds.
func inWindow(all map[memberTime]reading, src *Source, newest int64) (list []reading) {
	for key, rd := range all {
		if src.Over == 0 || rd.ts > newest-src.Over.Milliseconds() {
			list = append(list, rd)
		}
		if newest-rd.ts > 100 {
			delete(all, key)
		}
	}
	slices.SortFunc(list, func(a, b reading) int { return cmp.Compare(b.ts, a.ts) })
	if src.LastN > 0 {
		list = list[:min(src.LastN, len(list))]
	}
	return list
}

func TestAWindowThatIsTooFullHasNoValueUntilItIsNot(t *testing.T) {
	src := Source{Func: Count, Over: time.Hour}
	w := newWindowOf(&src, nil, nil)
	for i := range MaxWindowReadings {
		w.put(0, int64(i+1), value.Int(1))
	}
	if v, err := w.value(); err != nil || v != value.Int(MaxWindowReadings) {
		t.Fatalf("full: %v, %v", v, err)
	}
	w.put(0, MaxWindowReadings+1, value.Int(1))
	if v, err := w.value(); err == nil {
		t.Errorf("too full: %v", v)
	}
	if n := w.readings(); n != MaxWindowReadings {
		t.Errorf("it keeps %d", n)
	}
	w.put(0, time.Hour.Milliseconds()+2, value.Int(1)) // the first two are out of it now
	if v, err := w.value(); err != nil || v != value.Int(MaxWindowReadings) {
		t.Errorf("later: %v, %v", v, err)
	}
}

// bigSum is the sum of numbers by the standard library, rounded once.
func bigSum(values []value.Value) float64 {
	sum := new(big.Float).SetPrec(5000)
	for _, v := range values {
		if v.Kind() == value.KindInt {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetInt64(v.Int()))
		} else {
			sum.Add(sum, new(big.Float).SetPrec(5000).SetFloat64(v.Float()))
		}
	}
	f, _ := sum.Float64()
	return f
}
