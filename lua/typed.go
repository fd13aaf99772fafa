package lua

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// Mailbox lets scripts send messages to Go actors with a certain type of message, and lets scripts
// be such actors: see [Config].Mailboxes and [SpawnTyped]. [Tells] and [Asks] make one; the zero
// Mailbox is refused.
type Mailbox struct {
	accepts reflect.Type
	answer  reflect.Type // nil for Tells
	request reflect.Type // an actor.Request of the answer, nil for Tells
	// find returns the actor of an address.
	find func(sys *actor.System, pid actor.PID, path string) (reached, error)
	// answerer answers requests that were sent to a script; it is an answerer of the type of message, nil for Tells.
	answerer any
}

// Tells opens actors whose messages are of type M to scripts, for messages without an answer:
// greenroom.send("/cart", "cart.clear", {}). The messages are the types of [Config].Types that are
// an M.
func Tells[M any]() Mailbox {
	return Mailbox{
		accepts: reflect.TypeFor[M](),
		find: func(sys *actor.System, pid actor.PID, path string) (reached, error) {
			ref, err := lookup[M](sys, pid, path)
			return tellable[M]{ref}, err
		},
	}
}

// Asks is [Tells] that also opens requests with an R as their answer: greenroom.call("/cart",
// "cart.add", {sku = "apple", n = 3}). A script of [SpawnTyped] answers them. If messages have
// several types of answers, use an Asks for each.
func Asks[M, R any]() Mailbox {
	b := Tells[M]()
	b.answer, b.request = reflect.TypeFor[R](), reflect.TypeFor[actor.Request[R]]()
	b.find = func(sys *actor.System, pid actor.PID, path string) (reached, error) {
		ref, err := lookup[M](sys, pid, path)
		return askable[M, R]{tellable[M]{ref}}, err
	}
	b.answerer = answererOf[M, R]{}
	return b
}

func lookup[M any](sys *actor.System, pid actor.PID, path string) (actor.Ref[M], error) {
	if path != "" {
		return actor.LookupPath[M](sys, path)
	}
	return actor.Lookup[M](sys, pid)
}

// reached is an actor of Go that a script may send to.
type reached interface {
	takes(v any) bool
	asks(v any) bool // whether v is a request that it answers
	backlog() (int, bool)
	answer() reflect.Type
	tell(ctx context.Context, v any) error
	ask(ctx context.Context, v any, limit []actor.WaitOption) (any, error)
	askThen(ctx *actor.Context[Message], v any, wrap func(any, error) Message, limit []actor.WaitOption)
}

type tellable[M any] struct{ ref actor.Ref[M] }

func (a tellable[M]) takes(v any) bool                      { _, ok := v.(M); return ok }
func (a tellable[M]) answer() reflect.Type                  { return nil }
func (a tellable[M]) asks(any) bool                         { return false }
func (a tellable[M]) backlog() (int, bool)                  { return a.ref.Backlog() }
func (a tellable[M]) tell(ctx context.Context, v any) error { return a.ref.TryTell(ctx, v.(M)) }

func (a tellable[M]) ask(context.Context, any, []actor.WaitOption) (any, error) {
	return nil, actor.ErrNotAccepted
}

func (a tellable[M]) askThen(*actor.Context[Message], any, func(any, error) Message, []actor.WaitOption) {
}

type askable[M, R any] struct{ tellable[M] }

func (a askable[M, R]) asks(v any) bool {
	_, ok := v.(actor.Request[R])
	return ok && a.takes(v)
}

func (a askable[M, R]) answer() reflect.Type { return reflect.TypeFor[R]() }

func (a askable[M, R]) ask(ctx context.Context, v any, limit []actor.WaitOption) (any, error) {
	return actor.Ask(ctx, a.ref, v.(actor.Request[R]), limit...)
}

func (a askable[M, R]) askThen(ctx *actor.Context[Message], v any, wrap func(any, error) Message, limit []actor.WaitOption) {
	actor.AskThen(ctx, a.ref, v.(actor.Request[R]), func(r R, err error) Message { return wrap(r, err) }, limit...)
}

// vocabulary is what a runtime knows of messages of Go. It does not change.
type vocabulary struct {
	sys       *actor.System
	types     *codec.Types
	byName    map[string]*word
	byType    map[reflect.Type]*word
	answers   map[reflect.Type]*shape
	mailboxes []Mailbox
}

// word is a type of message with its name.
type word struct {
	name   string
	t      reflect.Type
	shape  *shape // nil if scripts cannot have it
	err    error  // why
	answer string // the name of the answer's type of a request, else ""
}

// newVocabulary makes the plans of all types.
func newVocabulary(sys *actor.System, cfg Config) (*vocabulary, error) {
	v := &vocabulary{
		sys: sys, types: cfg.Types, byName: map[string]*word{}, byType: map[reflect.Type]*word{}, answers: map[reflect.Type]*shape{},
		mailboxes: cfg.Mailboxes,
	}
	if v.types == nil {
		if len(v.mailboxes) > 0 {
			return nil, errors.New("Config.Mailboxes needs Types, which have the names of messages")
		}
		return v, nil
	}
	known := shapes{}
	for _, name := range v.types.Names() {
		t, _ := v.types.TypeOf(name)
		w := &word{name: name, t: t, answer: isRequest(t)}
		w.shape, w.err = known.of(t)
		v.byName[name], v.byType[t] = w, w
	}
	for i, b := range v.mailboxes {
		if b.find == nil {
			return nil, fmt.Errorf("Config.Mailboxes[%d] must be one of lua.Tells or lua.Asks", i)
		}
		if !v.hasMessage(b.accepts) {
			return nil, fmt.Errorf("Config.Mailboxes[%d]: no type of Types is a %v", i, b.accepts)
		}
		if b.answer == nil {
			continue
		}
		s, err := known.of(b.answer)
		if err != nil {
			return nil, fmt.Errorf("Config.Mailboxes[%d]: the answer: %w", i, err)
		}
		v.answers[b.answer] = s
	}
	return v, nil
}

// hasMessage reports whether a registered type is a message of that type.
func (v *vocabulary) hasMessage(m reflect.Type) bool {
	for t := range v.byType {
		if t.AssignableTo(m) {
			return true
		}
	}
	return false
}

// reach returns the actors that an address is, one for each of the mailboxes that fit.
func (v *vocabulary) reach(pid actor.PID, path string) (list []reached, err error) {
	err = fmt.Errorf("%w: no lua.Config.Mailboxes has its messages", actor.ErrNotAccepted)
	for _, b := range v.mailboxes {
		to, failed := b.find(v.sys, pid, path)
		switch {
		case failed == nil:
			list = append(list, to)
		case !errors.Is(failed, actor.ErrNotAccepted):
			err = failed
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	return nil, err
}

// message makes the message that a script has sent as its name and a table. first is the number of
// the name among the arguments.
func (v *vocabulary) message(body []byte, first int) (any, error) {
	values, err := unpackGo(body)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 || len(values) > 2 {
		return nil, refuse("a message to an actor of Go is a name and a table, not %d values", len(values))
	}
	name, ok := values[0].(string)
	if !ok {
		return nil, refuse("it must be the name of a message, not %s", goTypeName(values[0])).of(first)
	}
	w := v.byName[name]
	if w == nil {
		return nil, refuse("no message has the name %.100q", name).of(first)
	}
	if w.err != nil {
		return nil, refuse("%s: %s", name, w.err).of(first)
	}
	var given any
	if len(values) == 2 {
		given = values[1]
	}
	if given == nil && w.shape.isTable() {
		given = &Table{}
	}
	m := reflect.New(w.t).Elem()
	if err := (reader{v.sys}).value(w.shape, given, m); err != nil {
		return nil, err.of(first + 1)
	}
	return m.Interface(), nil
}

// isTable reports whether a value of the shape, or what it points to, is a struct.
func (s *shape) isTable() bool { return s.form == record || s.form == pointer && s.elem.isTable() }

// packMessage packs a message of Go: its name and a table.
func (v *vocabulary) packMessage(m any) ([]byte, error) {
	w := v.byType[reflect.TypeOf(m)]
	switch {
	case w == nil:
		return nil, fmt.Errorf("%w: %T", codec.ErrUnknownType, m)
	case w.err != nil:
		return nil, fmt.Errorf("%s: %w", w.name, w.err)
	}
	var p packer
	p.text(w.name)
	if err := p.goValue(w.shape, reflect.ValueOf(m), 0); err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err.of(2))
	}
	return p.buf, nil
}

// packAnswer packs what an actor of Go has answered: nothing for a struct without fields.
func (v *vocabulary) packAnswer(t reflect.Type, answer any) ([]byte, error) {
	s := v.answers[t]
	if t.Size() == 0 && s.form == record {
		return nil, nil
	}
	value := reflect.New(t).Elem()
	if answer != nil {
		value.Set(reflect.ValueOf(answer))
	}
	var p packer
	if err := p.goValue(s, value, 0); err != nil {
		return nil, err.of(1)
	}
	return p.buf, nil
}

// readAnswer makes what a script has answered to a request.
func (v *vocabulary) readAnswer(body []byte, into reflect.Value) error {
	values, err := unpackGo(body)
	if err != nil {
		return err
	}
	s := v.answers[into.Type()]
	var given any
	switch {
	case len(values) > 1:
		return refuse("the answer must be one value, not %d", len(values))
	case len(values) == 1:
		given = values[0]
	case s.isTable():
		given = &Table{}
	}
	if err := (reader{v.sys}).value(s, given, into); err != nil {
		return err.of(1)
	}
	return nil
}

// sentinelOf returns the sentinel that has a name, nil if there is none.
func (v *vocabulary) sentinelOf(name string) error {
	if v.types == nil {
		return nil
	}
	return v.types.SentinelOf(name)
}

// sentinelName returns the name of the sentinel that an error is, "" if it is none.
func (v *vocabulary) sentinelName(err error) string {
	if v.types == nil {
		return ""
	}
	return v.types.SentinelName(err)
}

// virtualAddress returns the address of the virtual actor that is written as kind:key, and whether that is one.
func virtualAddress(address string) (pid actor.PID, ok bool) {
	kind, key, ok := strings.Cut(address, ":")
	if !ok || kind == "" || strings.ContainsAny(kind, "/~#*") || actor.CheckKey(key) != nil {
		return pid, false
	}
	if key = keyEscapes.Replace(key); key[0] == '$' {
		key = "%24" + key[1:]
	}
	pid, err := actor.ParsePID("*/" + kind + "/" + key + "#0")
	return pid, err == nil
}

// keyEscapes are those of keys in paths.
var keyEscapes = strings.NewReplacer("%", "%25", "/", "%2F", "#", "%23", "*", "%2A")
