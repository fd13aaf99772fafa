package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// frame is what a field is computed from at one moment. A frame whose inputs get
// the same readings has the same value, whether they come as they are measured
// or out of the history: there is no second way to compute.
type frame struct {
	spec   *Field
	values []value.Value // by source
	ts     []int64
	known  []bool
	many   []collection // by source, nil for one value
}

// newFrame returns an empty frame. groups gives the roster of the group that a
// source is over.
func newFrame(spec *Field, groups func(alias string) *roster) *frame {
	n := len(spec.Sources)
	fr := &frame{spec: spec, values: make([]value.Value, n), ts: make([]int64, n), known: make([]bool, n), many: make([]collection, n)}
	for i := range spec.Sources {
		src := &spec.Sources[i]
		switch {
		case src.Group == "" && src.Func != "":
			fr.many[i] = newWindowOf(src, nil)
		case src.windowed():
			fr.many[i] = newWindowOf(src, groups(src.Group))
		case src.Group != "":
			fr.many[i] = newLatestOf(src, groups(src.Group))
		}
	}
	return fr
}

// next returns an empty frame of the same field over single entities, with the
// attributes that have no time.
func (fr *frame) next() *frame {
	n := newFrame(fr.spec, nil)
	for i := range fr.spec.Sources {
		if fr.spec.Sources[i].timeless() {
			n.values[i] = fr.values[i]
		}
	}
	return n
}

// put takes a reading of the source's entity in.
func (fr *frame) put(i int, ts int64, v value.Value) {
	switch {
	case fr.many[i] != nil:
		fr.many[i].put(0, ts, v)
	case fr.spec.Sources[i].timeless():
		fr.values[i] = v
	case !fr.known[i] || ts >= fr.ts[i]:
		fr.values[i], fr.ts[i], fr.known[i] = v, ts, true
	}
}

// newest is the time of the newest reading; false when there is none.
func (fr *frame) newest() (ts int64, ok bool) {
	for i := range fr.values {
		at, has := fr.ts[i], fr.known[i]
		if fr.many[i] != nil {
			at, has = fr.many[i].newest()
		}
		if has && (!ok || at > ts) {
			ts, ok = at, true
		}
	}
	return ts, ok
}

// evaluator runs formulas. It is for one goroutine.
type evaluator struct {
	vm  vm.VM
	env map[string]any
}

func newEvaluator() *evaluator { return &evaluator{env: make(map[string]any)} }

// field returns the value of a frame, the zero Value where it has none: because
// a source is missing, or the expression says so.
func (ev *evaluator) field(fr *frame) (value.Value, error) {
	formula := fr.spec.formula
	absent := false
	for i, c := range fr.many {
		if c != nil {
			v, err := c.value()
			if err != nil {
				return value.Value{}, err
			}
			fr.values[i] = v
		}
		absent = absent || fr.values[i].Kind() == 0
	}
	switch {
	case formula.program == nil:
		return fr.values[0], nil
	case absent && !formula.lazy:
		return value.Value{}, nil
	}
	for i, name := range formula.names {
		ev.env[name] = operand(fr.values[i])
	}
	result, err := ev.vm.Run(formula.program, ev.env)
	if err != nil {
		return value.Value{}, failure(err)
	}
	return toValue(result)
}

// failure takes what an evaluation failed with out of the machine's wrapping.
func failure(err error) error {
	var at *file.Error
	switch {
	case errors.Is(err, errNoValue):
		return nil
	case errors.As(err, &at) && at.Prev != nil:
		return at.Prev
	case errors.As(err, &at):
		return errors.New(at.Message)
	}
	return err
}

// operand is a value as the functions of expressions know it.
func operand(v value.Value) any {
	switch v.Kind() {
	case value.KindInt:
		return v.Int()
	case value.KindFloat:
		return v.Float()
	case value.KindBool:
		return v.Bool()
	case value.KindString:
		return v.Text()
	case value.KindJSON:
		return v
	default:
		return nil
	}
}

// toValue is the way back.
func toValue(result any) (value.Value, error) {
	switch r := result.(type) {
	case nil:
		return value.Value{}, nil
	case int64:
		return value.Int(r), nil
	case int:
		return value.Int(int64(r)), nil
	case bool:
		return value.Bool(r), nil
	case string:
		return value.String(r), nil
	case value.Value:
		return r, nil
	case float64:
		if math.IsNaN(r) || math.IsInf(r, 0) {
			return value.Value{}, fmt.Errorf("the result is %v, which is no measurement", r)
		}
		return value.Float(r), nil
	default:
		return value.Value{}, fmt.Errorf("the result is %T", result)
	}
}

// member takes a member of a JSON value out, the zero Value where there is none.
func member(v value.Value, path []string) value.Value {
	for _, name := range path {
		if v.Kind() != value.KindJSON {
			return value.Value{}
		}
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(v.Text()), &object) != nil {
			return value.Value{} // an array
		}
		v = fromJSON(object[name])
	}
	return v
}

// fromJSON reads a value as entity.ParseReadings does; null and nothing give the
// zero Value.
func fromJSON(raw json.RawMessage) value.Value {
	switch {
	case len(raw) == 0:
		return value.Value{}
	case raw[0] == '{' || raw[0] == '[':
		return entity.ParseJSON(raw)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var scalar any
	if d.Decode(&scalar) != nil {
		return value.Value{}
	}
	switch x := scalar.(type) {
	case bool:
		return value.Bool(x)
	case string:
		return value.String(x)
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return value.Int(i)
		}
		if f, err := x.Float64(); err == nil {
			return value.Float(f)
		}
	}
	return value.Value{}
}
