package template

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// MaxTemplates is the most templates a server may have.
	MaxTemplates = 256
	// MaxTemplateBytes bounds a template in JSON.
	MaxTemplateBytes = 64 << 10
	// MaxTopicBytes bounds a topic.
	MaxTopicBytes = 512
	// MaxLevels bounds the levels of a topic.
	MaxLevels = 16
	// MaxValues bounds Template.Values.
	MaxValues = 128
	// MaxCommands bounds Template.Commands.
	MaxCommands = 32
	// MaxExpressionBytes bounds an expression.
	MaxExpressionBytes = 4 << 10
	// MaxPayloadBytes bounds a message that a template is applied to.
	MaxPayloadBytes = 256 << 10

	maxPlaceholderBytes = 64
)

// Into says what becomes of the values of a message.
type Into string

// The values of Into.
const (
	Telemetry Into = "telemetry" // a reading
	Reported  Into = "reported"  // members of the reported attributes
	Nothing   Into = "nothing"   // the message is accepted and dropped
)

// Template gives messages with some topics a meaning.
type Template struct {
	// Topic is a topic in which {name} stands for one level, and + for one that does not matter.
	Topic string `json:"topic" example:"zigbee2mqtt/{id}" minLength:"1" maxLength:"512"`
	// Entity is the id of the entity, with placeholders of the topic; by default {id}.
	Entity string `json:"entity,omitempty"`
	// Type is the type of an entity that is created by its first message.
	Type string `json:"type,omitempty"`
	// Into says what the values become; by default telemetry.
	Into Into `json:"into,omitempty" enum:"telemetry,reported,nothing" example:"telemetry"`
	// Payload is json (the default), or text for a payload that is a number, true, false or a text,
	// which expressions use as value.
	Payload string `json:"payload,omitempty" enum:"json,text"`
	// When is a condition; a message for which it does not hold is taken and dropped.
	When string `json:"when,omitempty"`
	// Values are expressions by key; keys may contain placeholders of the topic.
	Values map[string]string `json:"values,omitempty" example:"{\"brightness\":\"brightness / 255\"}"`
	// Members is * for all members of the payload as keys, or path.* for those of an object in it.
	// Values takes precedence.
	Members string `json:"members,omitempty" example:"*"`
	// Flatten turns members of objects into separate keys: energy.power.
	Flatten bool `json:"flatten,omitempty"`
	// Time is an expression for the time of the values; by default, or if a message has none, it is
	// the time of arrival. TimeUnit is ms (the default), s, or iso for RFC 3339. TimeZone is the
	// zone of iso times that have none, such as Europe/Berlin.
	Time     string `json:"time,omitempty"`
	TimeUnit string `json:"time_unit,omitempty" enum:"ms,s,iso"`
	TimeZone string `json:"time_zone,omitempty"`
	// Commands are the ways in which commands of the entity are sent. If there are several, the one
	// with the command's name is used, otherwise the one without a name.
	Commands []Command `json:"commands,omitempty"`
}

// Command says how a command of an entity is sent.
type Command struct {
	// Name is the name of the command; by default, it is for all commands that no other entry
	// names.
	Name string `json:"name,omitempty"`
	// Topic is the topic to which it is sent, with placeholders of the entity's id, and {command}
	// for the name of the command.
	Topic string `json:"topic" example:"zigbee2mqtt/{id}/set"`
	// Payload is any JSON. In its strings {request}, {command} and {number}, a number of the
	// command, are filled in, as are the placeholders; a string that is one of these alone becomes
	// the value itself. By default, it is the request.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Text sends a payload that is a string without its quotes.
	Text bool `json:"text,omitempty"`
	// Answer says what ends the command. By default a command is done when the client has
	// acknowledged the message.
	Answer *Answer `json:"answer,omitempty"`
}

// Answer says how a device answers commands.
type Answer struct {
	// Topic is where the answer arrives, with the placeholders of the entity's id.
	Topic string `json:"topic" example:"zigbee2mqtt/{id}/answer"`
	// Number is an expression for the number of the answered command; by default, the one that was
	// sent first.
	Number string `json:"number,omitempty"`
	// Named says that only a payload with a member of the command's name, in any case, is its
	// answer, and that this member is the result.
	Named bool `json:"named,omitempty"`
	// Result is an expression for the result; by default, it is the payload.
	Result string `json:"result,omitempty"`
	// Error is an expression; if it has a value, the command has failed with that reason.
	Error string `json:"error,omitempty"`
}

// compiled is a Template, checked and compiled.
type compiled struct {
	name     string
	topic    pattern
	entity   text
	into     Into
	plain    bool // the payload is text
	typeID   string
	when     *expression
	values   []keyed
	members  []string // the path to the object whose members become values; nil for the payload itself
	all      bool     // Template.Members is set
	flatten  bool
	time     *expression
	timeKey  string // the key of the member with the time, or ""
	unit     string
	zone     *time.Location
	zoned    bool // the template names a time zone
	commands []route
	size     int // in memory, in bytes, as bytes estimates it
}

// keyed is an expression and the key of its value.
type keyed struct {
	key   text
	value *expression
}

// Parse parses a template in JSON. Its errors wrap entity.ErrInvalid.
func Parse(data []byte) (*Template, error) {
	if len(data) > MaxTemplateBytes {
		return nil, fmt.Errorf("template: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxTemplateBytes, len(data))
	}
	t := &Template{}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf(`template: %w: must be JSON, an object such as {"topic":"zigbee2mqtt/{id}","members":"*"}: %w`, entity.ErrInvalid, err)
	}
	if d.More() {
		return nil, fmt.Errorf("template: %w: something stands after the object", entity.ErrInvalid)
	}
	return t, nil
}

// Check validates a template by itself, without regard to other templates. The error is an *Error.
func (t *Template) Check() error {
	_, err := t.compile("")
	return err
}

func (t *Template) compile(name string) (*compiled, error) {
	c := &compiled{
		name: name, typeID: t.Type, flatten: t.Flatten, plain: t.Payload == "text",
		into: Into(cmp.Or(string(t.Into), string(Telemetry))), unit: cmp.Or(t.TimeUnit, "ms"), zone: time.UTC,
	}
	var err error
	if c.topic, err = parsePattern(t.Topic); err != nil {
		return nil, in("topic", err)
	}
	for _, check := range []func(*compiled) error{t.checkWords, t.compileEntity, t.compileValues, t.compileTime, t.compileCommands, t.checkSize} {
		if err := check(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkWords checks the members that must be one of a few words, and those that exclude one
// another.
func (t *Template) checkWords(*compiled) error {
	for _, w := range []struct {
		in, have string
		words    []string
	}{
		{"into", string(t.Into), []string{string(Telemetry), string(Reported), string(Nothing)}},
		{"payload", t.Payload, []string{"json", "text"}},
		{"time_unit", t.TimeUnit, []string{"ms", "s", "iso"}},
	} {
		if w.have != "" && !slices.Contains(w.words, w.have) {
			return &Error{In: w.in, Text: fmt.Sprintf("must be %s, not %.32q", strings.Join(w.words, ", "), w.have)}
		}
	}
	values := len(t.Values) > 0 || t.Members != ""
	switch {
	case t.Into == Nothing && (values || t.Time != "" || t.Type != "" || t.When != "" || t.Payload != ""):
		return &Error{In: "into", Text: "what goes to nothing has no values, members, time or type, and its payload is not read: leave payload and when out"}
	case t.Into == Reported && t.Time != "":
		return &Error{In: "time", Text: "what is reported has the time of its arrival; leave time out, or use into telemetry"}
	case t.Into != Nothing && !values:
		return &Error{In: "values", Text: `must have a key, as in {"temperature":"AM2301.Temperature"}, or members must be * for all members of the payload`}
	case t.Payload == "text" && t.Members != "":
		return &Error{In: "members", Text: "a payload that is a text has none; its value is named value"}
	case t.TimeZone != "" && t.TimeUnit != "iso":
		return &Error{In: "time_zone", Text: "is for times with time_unit iso"}
	case t.Flatten && t.Members == "":
		return &Error{In: "flatten", Text: "is for members, which must be * or an object.*"}
	}
	return nil
}

func (t *Template) compileEntity(c *compiled) (err error) {
	names := c.topic.names()
	if c.into == Nothing && len(t.Commands) == 0 && t.Entity == "" && !slices.Contains(names, "id") {
		return nil
	}
	if t.Entity == "" && !slices.Contains(names, "id") {
		return &Error{In: "entity", Text: "must be the id of the entity, as the topic has no placeholder {id}"}
	}
	if c.entity, err = parseText(cmp.Or(t.Entity, "{id}"), names); err != nil {
		return in("entity", err)
	}
	filled := bindings{}
	for _, name := range names {
		filled[name] = "x"
	}
	if err := entity.CheckID(c.entity.fill(filled)); err != nil {
		return in("entity", err)
	}
	return nil
}

func (t *Template) compileValues(c *compiled) (err error) {
	if len(t.Values) > MaxValues {
		return &Error{In: "values", Text: fmt.Sprintf("%d keys; at most %d are allowed", len(t.Values), MaxValues)}
	}
	var names []string
	if c.plain {
		names = []string{textName}
	}
	for _, key := range slices.Sorted(maps.Keys(t.Values)) {
		var k keyed
		if k.key, err = parseText(key, c.topic.names()); err == nil {
			err = checkKey(&k.key)
		}
		if err == nil {
			k.value, err = compile(t.Values[key], names)
		}
		if err != nil {
			return in("values."+key, err)
		}
		c.values = append(c.values, k)
	}
	if t.When != "" {
		if c.when, err = compile(t.When, names); err != nil {
			return in("when", err)
		}
	}
	if t.Members == "" {
		return nil
	}
	c.all = true
	path, _ := strings.CutSuffix(t.Members, "*")
	if path, ok := strings.CutSuffix(path, "."); ok {
		whole, err := compile(path, nil)
		if err != nil {
			return in("members", err)
		}
		if whole.Source() == nil {
			return &Error{In: "members", Text: "must be * for all members, or those of one object: params.*"}
		}
		c.members = whole.paths[0]
	} else if t.Members != "*" {
		return &Error{In: "members", Text: fmt.Sprintf("must be * for all members, or those of one object: params.*, not %.64q", t.Members)}
	}
	return nil
}

// checkKey checks that a key is valid, with one character for each placeholder.
func checkKey(key *text) error {
	shown := bindings{}
	for _, name := range key.names() {
		shown[name] = "x"
	}
	return entity.CheckKey(key.fill(shown))
}

func (t *Template) compileTime(c *compiled) (err error) {
	if c.zoned = t.TimeZone != ""; c.zoned {
		if c.zone, err = time.LoadLocation(t.TimeZone); err != nil || t.TimeZone == "Local" {
			return &Error{In: "time_zone", Text: fmt.Sprintf("must be the name of a zone, such as Europe/Berlin, not %.64q", t.TimeZone)}
		}
	}
	if t.Time == "" {
		if t.TimeUnit != "" {
			return &Error{In: "time_unit", Text: "is for time, which must be an expression"}
		}
		return nil
	}
	var names []string
	if c.plain {
		names = []string{textName}
	}
	if c.time, err = compile(t.Time, names); err != nil {
		return in("time", err)
	}
	if c.all && c.time.Source() != nil {
		path := c.time.paths[0]
		if n := len(c.members); n < len(path) && slices.Equal(path[:n], c.members) {
			c.timeKey = strings.Join(path[n:], ".")
		}
	}
	return nil
}
