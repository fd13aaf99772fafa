package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Placeholders of commands, besides those of the entity's id.
const (
	requestName = "request"
	commandName = "command"
	numberName  = "number"
)

// maxCommandPayload bounds Command.Payload in a template. Once filled in, a message has at most
// entity.MaxPayloadBytes.
const maxCommandPayload = 4 << 10

// route is a compiled Command.
type route struct {
	name    string // "" for any command
	topic   pattern
	to      text
	payload json.RawMessage // with placeholders in its strings; it is decoded for each command, as it then takes many times as much
	text    bool
	answer  *answer
}

// answer is a compiled Answer.
type answer struct {
	topic                 pattern
	number, result, error *expression
	named                 bool
	// The shape of topic.
	shape string
}

func (t *Template) compileCommands(c *compiled) error {
	if len(t.Commands) > MaxCommands {
		return &Error{In: "commands", Text: fmt.Sprintf("%d; at most %d are allowed", len(t.Commands), MaxCommands)}
	}
	for _, name := range c.entity.names() {
		if len(t.Commands) > 0 && (name == requestName || name == commandName || name == numberName) {
			return &Error{In: "entity", Text: fmt.Sprintf("must not have the placeholder {%s}, which is that of a command; give it another name", name)}
		}
	}
	for i := range t.Commands {
		member := fmt.Sprintf("commands[%d]", i)
		if slices.ContainsFunc(c.commands, func(r route) bool { return r.name == t.Commands[i].Name }) {
			return &Error{In: member + ".name", Text: fmt.Sprintf("there is another one for %.64q", t.Commands[i].Name)}
		}
		r, err := t.Commands[i].compile(c, member)
		if err != nil {
			return err
		}
		c.commands = append(c.commands, r)
	}
	return nil
}

func (s *Command) compile(c *compiled, member string) (r route, err error) {
	r = route{name: s.Name, text: s.Text}
	names := c.entity.names()
	if r.topic, err = parsePattern(s.Topic); err != nil {
		return r, in(member+".topic", err)
	}
	if r.to, err = parseText(s.Topic, append(slices.Clone(names), commandName)); err != nil {
		return r, in(member+".topic", err)
	}
	if strings.ContainsAny(s.Topic, "+#") {
		return r, &Error{In: member + ".topic", Text: "must be the topic of a message, without a wildcard"}
	}
	if len(s.Payload) > maxCommandPayload {
		return r, &Error{In: member + ".payload", Text: fmt.Sprintf("must have at most %d bytes, not %d", maxCommandPayload, len(s.Payload))}
	}
	r.payload = s.Payload
	if r.payload == nil {
		r.payload = json.RawMessage(`"{` + requestName + `}"`)
	}
	payload, err := r.decode()
	if err != nil {
		return r, in(member+".payload", err)
	}
	if _, isText := payload.(string); s.Text && !isText {
		return r, &Error{In: member + ".payload", Text: `must be a string such as "{request}", as it is sent as a text`}
	}
	if err := checkPlaceholders(payload, append(slices.Clone(names), requestName, commandName, numberName)); err != nil {
		return r, in(member+".payload", err)
	}
	if s.Answer != nil {
		r.answer, err = s.Answer.compile(c, member+".answer")
	}
	return r, err
}

func (s *Answer) compile(c *compiled, member string) (a *answer, err error) {
	a = &answer{named: s.Named}
	if a.topic, err = parsePattern(s.Topic); err != nil {
		return nil, in(member+".topic", err)
	}
	a.shape = a.topic.shape()
	for _, name := range c.entity.names() {
		if !slices.Contains(a.topic.names(), name) {
			return nil, &Error{In: member + ".topic", Text: fmt.Sprintf("must have the placeholder {%s}, which the id of the entity is made of", name)}
		}
	}
	if s.Named && (s.Number != "" || s.Result != "") {
		return nil, &Error{In: member + ".named", Text: "finds the command and its result by the name of a member; leave number and result out"}
	}
	for _, x := range []struct {
		member, source string
		into           **expression
	}{{"number", s.Number, &a.number}, {"result", s.Result, &a.result}, {"error", s.Error, &a.error}} {
		if x.source == "" {
			continue
		}
		if *x.into, err = compile(x.source, nil); err != nil {
			return nil, in(member+"."+x.member, err)
		}
	}
	return a, nil
}

// decode returns the payload as encoding/json decodes it.
func (r *route) decode() (payload any, err error) {
	d := json.NewDecoder(bytes.NewReader(r.payload))
	d.UseNumber()
	err = d.Decode(&payload)
	return payload, err
}

// checkPlaceholders checks the strings of a payload and the names of its members.
func checkPlaceholders(payload any, names []string) error {
	switch p := payload.(type) {
	case string:
		_, err := parseText(p, names)
		return err
	case []any:
		for _, element := range p {
			if err := checkPlaceholders(element, names); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range p {
			if err := checkPlaceholders(name, names); err != nil {
				return err
			}
			if err := checkPlaceholders(member, names); err != nil {
				return err
			}
		}
	}
	return nil
}

// routeOf returns the route for a command, or nil.
func (c *compiled) routeOf(name string) *route {
	var others *route
	for i := range c.commands {
		switch c.commands[i].name {
		case name:
			return &c.commands[i]
		case "":
			others = &c.commands[i]
		}
	}
	return others
}

// Sent is the message for a command.
type Sent struct {
	Topic   string
	Payload []byte
}

// render returns the message for a command. b binds the placeholders of the entity.
func (r *route) render(command *entity.Command, number int64, b bindings) (m Sent, err error) {
	filled := bindings{commandName: command.Name, numberName: strconv.FormatInt(number, 10), requestName: plain(command.Request)}
	maps.Copy(filled, b)
	if m.Topic = r.to.fill(filled); strings.ContainsAny(m.Topic, "+#\x00") || strings.Count(m.Topic, "/") != len(r.topic.levels)-1 {
		return m, fmt.Errorf("%w: the name %.64q of a command cannot be a level of a topic", entity.ErrInvalid, command.Name)
	}
	payload, err := r.decode()
	if err != nil {
		return m, err // it was decoded when the template was compiled
	}
	f := filler{request: command.Request, number: number, texts: filled}
	switch whole, isText := payload.(string); {
	case r.text:
		m.Payload = []byte(f.text(whole))
	case isText && whole == "{"+requestName+"}" && command.Request.IsZero():
	default:
		m.Payload = f.append(nil, payload)
	}
	if len(m.Payload) > entity.MaxPayloadBytes || f.spent > entity.MaxPayloadBytes {
		return m, fmt.Errorf("%w: the message would have more than %d bytes", entity.ErrInvalid, entity.MaxPayloadBytes)
	}
	return m, nil
}

// plain returns a value as text: strings without quotes.
func plain(v value.Value) string {
	switch v.Kind() {
	case 0:
		return ""
	case value.KindString:
		return v.Text()
	default:
		return v.String()
	}
}

// filler fills in the placeholders of a payload.
type filler struct {
	request value.Value
	number  int64
	texts   bindings
	spent   int // bytes filled in; beyond entity.MaxPayloadBytes, filling stops
}

// text fills in the placeholders of a string.
func (f *filler) text(s string) string {
	t, _ := parseText(s, slices.Collect(maps.Keys(f.texts))) // it was checked when the template was compiled
	var size int
	for _, p := range t.parts {
		size += len(f.texts[p.name])
	}
	if f.spent += size; f.spent > entity.MaxPayloadBytes {
		return ""
	}
	return t.fill(f.texts)
}

// append appends a part of a payload as JSON.
func (f *filler) append(dst []byte, payload any) []byte {
	switch p := payload.(type) {
	case string:
		switch p {
		case "{" + requestName + "}":
			if f.spent += len(f.request.Text()); f.spent > entity.MaxPayloadBytes {
				return dst
			}
			return f.request.AppendJSON(dst)
		case "{" + numberName + "}":
			return strconv.AppendInt(dst, f.number, 10)
		default:
			return value.AppendQuoted(dst, f.text(p))
		}
	case []any:
		dst = append(dst, '[')
		for i, element := range p {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = f.append(dst, element)
		}
		return append(dst, ']')
	case map[string]any:
		return f.appendObject(dst, p)
	default: // a number, true, false or null
		text, _ := json.Marshal(p)
		return append(dst, text...)
	}
}

// appendObject appends an object, with its members sorted by name. It omits a member that is the
// request if the command has none.
func (f *filler) appendObject(dst []byte, object map[string]any) []byte {
	names := make([]string, 0, len(object))
	for name, member := range object {
		if text, _ := member.(string); text != "{"+requestName+"}" || !f.request.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(value.AppendQuoted(dst, f.text(name)), ':')
		dst = f.append(dst, object[name])
	}
	return append(dst, '}')
}
