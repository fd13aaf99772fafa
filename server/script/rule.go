package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/lua"
)

// rule is a script in force, with a sandbox for each runner that is created when first needed.
type rule struct {
	file, source string
	reads, ticks bool // which functions it has
	program
	boxes [behavior.MaxRunners]*box // each is its runner's
}

// program is what a rule is run with. The zero program is for one that is checked.
type program struct {
	printed func(line string)               // takes what it prints; nil for nothing
	rest    func(steps int64) time.Duration // says how long to rest after a call of so many steps
}

// box is the sandbox of a runner, and its current call.
type box struct {
	sandbox *lua.Sandbox
	e       *behavior.Entity
	ev      behavior.Event
}

// hostName is what a script's entity is called in errors.
const hostName = "e"

// open creates the sandbox of a runner, and loads the script.
func (r *rule) open(runner int) (*box, error) {
	b := new(box)
	seed := fnv.New64a()
	_, _ = fmt.Fprint(seed, r.file, runner)
	var err error
	b.sandbox, err = lua.NewSandbox(r.file, r.source, lua.SandboxConfig{
		Steps: Steps, MemoryLimit: MemoryBytes, Seed: seed.Sum64(), Hosts: map[string]lua.Host{hostName: b.host()},
		Print: func(line string) {
			if r.printed != nil && b.e != nil {
				r.printed(line)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	r.boxes[runner] = b
	return b, nil
}

// handle calls the script's function for an event.
func (r *rule) handle(e *behavior.Entity, ev behavior.Event) error {
	if ev.Reading() && !r.reads {
		return nil
	}
	b := r.boxes[e.Runner()]
	if b == nil {
		var err error
		if b, err = r.open(e.Runner()); err != nil {
			return failure(err)
		}
	}
	b.e, b.ev = e, ev
	defer func() { b.e = nil }()
	var kept []byte
	var err error
	if ev.Change == nil {
		kept, err = b.sandbox.Call(everyMinute, e.State(), lua.HostName(hostName))
	} else {
		kept, err = b.sandbox.Call(onReading, e.State(), lua.HostName(hostName), values(ev.Change.Values))
	}
	if rest := r.rest(b.sandbox.Used()); rest > 0 {
		_ = pause.For(e.Context(), rest) // the end of the server ends it
	}
	if errors.Is(err, lua.ErrMemory) {
		r.boxes[e.Runner()] = nil // start with a new sandbox
	}
	if err != nil {
		return failure(err)
	}
	if bytes.Equal(kept, e.State()) {
		return nil
	}
	return e.SetState(kept)
}

// failure returns the error of a script with its traceback.
func failure(err error) error {
	if failed, ok := errors.AsType[*lua.Error](err); ok && failed.Stack != "" {
		return fmt.Errorf("%w\n%s", failed, strings.TrimSpace(failed.Stack))
	}
	return err
}

// host returns the entity as the script sees it.
func (b *box) host() lua.Host {
	return lua.Host{
		Methods: map[string]func([]any) (any, error){
			"set":            b.during(b.set),
			"command":        b.during(b.command),
			"set_attributes": b.during(func(args []any) error { return b.patch(entity.Attributes, args) }),
			"desire":         b.during(func(args []any) error { return b.patch(entity.Desired, args) }),
		},
		Field: b.field,
		Fields: map[string]lua.Host{
			"latest": {Field: func(key string) any {
				if b.e == nil {
					return nil
				}
				l, _ := b.e.Latest(key)
				return toScript(l.Value)
			}},
			"attributes": {Field: func(name string) any { return b.attribute(entity.Attributes, name) }},
			"desired":    {Field: func(name string) any { return b.attribute(entity.Desired, name) }},
			"reported":   {Field: func(name string) any { return b.attribute(entity.Reported, name) }},
		},
	}
}

// during returns a method that fails while the script is being loaded.
func (b *box) during(f func(args []any) error) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if b.e == nil {
			return nil, errors.New("there is no entity while the script is loaded")
		}
		return nil, f(args)
	}
}

// entityFields are the fields of e.
var entityFields = map[string]func(b *box) any{
	"id":      func(b *box) any { return b.e.ID() },
	"type":    func(b *box) any { return b.e.View().Type() },
	"created": func(b *box) any { return b.e.View().Created() },
	"ts":      func(b *box) any { return b.ev.TS },
	"late":    func(b *box) any { return b.ev.Late },
	"online":  func(b *box) any { return b.e.View().Presence().State == entity.PresenceOnline },
}

func (b *box) field(name string) any {
	if f := entityFields[name]; f != nil && b.e != nil {
		return f(b)
	}
	return nil
}

// attribute returns a member of a section: a value, or a table of nested members.
func (b *box) attribute(section entity.Section, name string) any {
	if b.e == nil {
		return nil
	}
	v, path := b.e.View(), entity.Pointer(name)
	if a, ok := v.Attribute(section, path); ok {
		return toScript(a.Value)
	}
	if !v.Has(section, path) {
		return nil
	}
	t, looked := &lua.Table{}, 0
	for a := range v.EachAttribute(section) {
		looked++
		if rest, ok := strings.CutPrefix(a.Path, path+"/"); ok {
			put(t, strings.Split(rest, "/"), toScript(a.Value))
		} else if a.Path > path+"/" {
			break // attributes are sorted by path
		}
	}
	return lua.Worked{Value: t, Steps: looked / lookedPerStep}
}

// lookedPerStep is how many attributes can be looked at in the time of a step.
const lookedPerStep = 2

// put sets a value in nested tables. Values must come in the order of their names, so that only the
// last table can exist already.
func put(t *lua.Table, names []string, v any) {
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(names[0])
	if len(names) == 1 {
		t.Fields = append(t.Fields, lua.Field{Key: name, Value: v})
		return
	}
	var inner *lua.Table
	if n := len(t.Fields); n > 0 && t.Fields[n-1].Key == name {
		inner, _ = t.Fields[n-1].Value.(*lua.Table)
	}
	if inner == nil {
		inner = &lua.Table{}
		t.Fields = append(t.Fields, lua.Field{Key: name, Value: inner})
	}
	put(inner, names[1:], v)
}

var errSet = errors.New(`it takes a table, as in e:set { alarm = "dry run" }, and a time in milliseconds if that is another`)

// set implements e:set, which writes a reading.
func (b *box) set(args []any) error {
	if len(args) < 1 || len(args) > 2 {
		return errSet
	}
	t, ok := args[0].(*lua.Table)
	if !ok {
		return errSet
	}
	ts := b.ev.TS
	if len(args) == 2 {
		at, ok := args[1].(float64)
		if !ok || at != math.Trunc(at) {
			return errSet
		}
		ts = int64(at)
	}
	var list []entity.Sample
	err := members(t, func(key string, v any) error {
		x, err := fromScript(v)
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		list = append(list, entity.Sample{Key: key, Value: x})
		return nil
	})
	if err != nil {
		return err
	}
	return b.e.SetAt(ts, list...)
}

// patch sets members of a section.
func (b *box) patch(section entity.Section, args []any) error {
	if len(args) != 1 {
		return errors.New(`it takes a table, as in { site = "A" }`)
	}
	t, ok := args[0].(*lua.Table)
	if !ok || len(t.List) > 0 {
		return errors.New(`it takes a table with names, as in { site = "A" }`)
	}
	body, err := appendJSON(nil, t, true)
	if err != nil {
		return err
	}
	return b.e.Patch(entity.Patch{Section: section, Form: entity.MergePatch, Body: body})
}

// command implements e:command.
func (b *box) command(args []any) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New(`it takes a name and what the device is told, as in e:command("stop", { now = true })`)
	}
	name, ok := args[0].(string)
	if !ok {
		return errors.New("its name must be a string")
	}
	c := entity.NewCommand{Name: name}
	if len(args) == 2 && args[1] != nil {
		var err error
		if c.Request, err = fromScript(args[1]); err != nil {
			return err
		}
	}
	return b.e.Command(c)
}

// values returns the values of a reading as a table.
func values(samples []entity.Sample) *lua.Table {
	t := &lua.Table{Fields: make([]lua.Field, len(samples))}
	for i := range samples {
		t.Fields[i] = lua.Field{Key: samples[i].Key, Value: toScript(samples[i].Value)}
	}
	return t
}

// toScript converts a value of an entity to one of a script; nil if there is none.
func toScript(v value.Value) any {
	switch v.Kind() {
	case value.KindBool:
		return v.Bool()
	case value.KindInt, value.KindTime, value.KindDuration:
		return v.Int()
	case value.KindFloat:
		return v.Float()
	case value.KindString:
		return v.Text()
	case value.KindJSON:
		var x any
		if json.Unmarshal([]byte(v.Text()), &x) != nil {
			return nil
		}
		return fromJSON(x)
	default:
		return nil
	}
}

// fromJSON converts a decoded JSON value to one of a script.
func fromJSON(x any) any {
	switch x := x.(type) {
	case []any:
		t := &lua.Table{}
		for _, v := range x {
			t.List = append(t.List, fromJSON(v))
		}
		return t
	case map[string]any:
		t := &lua.Table{}
		for _, key := range sortedKeys(x) {
			t.Fields = append(t.Fields, lua.Field{Key: key, Value: fromJSON(x[key])})
		}
		return t
	default:
		return x
	}
}
