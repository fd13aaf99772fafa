package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Outcome is the result of applying a template to a message.
type Outcome struct {
	// Entity is the id of the entity. Type is the type to create it with if it does not exist, ""
	// for none.
	Entity, Type string
	Into         Into
	// Values is a JSON object with the values of the message; nil if it is dropped.
	Values []byte
	// TS is the time of the values in milliseconds since the epoch. Timed reports whether the
	// message contains it.
	TS    int64
	Timed bool

	readings []entity.Reading
}

// read applies the template to a message. Its errors wrap entity.ErrInvalid, and name the member of
// the template or the fault of the payload.
func (c *compiled) read(levels []string, payload []byte, now time.Time) (*Outcome, error) {
	b := c.topic.bind(levels)
	o := &Outcome{Into: c.into, Type: c.typeID}
	if len(c.entity.parts) > 0 {
		o.Entity = c.entity.fill(b)
		if err := entity.CheckID(o.Entity); err != nil {
			return nil, err
		}
	}
	if c.into == Nothing {
		return o, nil
	}
	d, err := c.parse(payload)
	if err != nil {
		return nil, err
	}
	if c.when != nil {
		holds, err := c.when.of(d)
		if err != nil {
			return nil, failed("when", err)
		}
		if !holds.Bool() {
			o.Into = Nothing
			return o, nil
		}
	}
	if o.Values, err = c.collect(d, b); err != nil {
		return nil, err
	}
	if err := c.stamp(o, d); err != nil {
		return nil, err
	}
	if c.into == Telemetry {
		return o, o.check(now)
	}
	return o, nil
}

// failed returns the error of an expression in a member of the template.
func failed(member string, err error) error { return &Error{In: member, Text: err.Error()} }

// parse parses a payload in the format that the template names.
func (c *compiled) parse(payload []byte) (*document, error) {
	if len(payload) > MaxPayloadBytes {
		return nil, &entity.PayloadError{Cause: entity.CauseTooLarge, Detail: fmt.Sprintf("%d bytes; a template takes at most %d", len(payload), MaxPayloadBytes)}
	}
	if !utf8.Valid(payload) {
		return nil, &entity.PayloadError{Cause: entity.CauseEncoding, Detail: "must be UTF-8"}
	}
	if c.plain {
		return parsePlain(payload)
	}
	return parseJSON(payload)
}

// parsePlain parses a payload that is a single value: a JSON number, true or false, a string in
// quotes, or any other text as it is.
func parsePlain(payload []byte) (*document, error) {
	trimmed := strings.TrimSpace(string(payload))
	if trimmed == "" {
		return nil, &entity.PayloadError{Cause: entity.CauseEmpty, Detail: "no bytes; there must be a number, true, false or a text"}
	}
	if json.Valid([]byte(trimmed)) && trimmed[0] != '{' && trimmed[0] != '[' {
		if v, ok := value.FromJSON(trimmed); ok {
			return &document{text: v}, nil
		}
	}
	return &document{text: value.String(trimmed)}, nil
}

func parseJSON(payload []byte) (*document, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, payload); err != nil {
		at := ""
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset > 0 {
			at = fmt.Sprintf(" at byte %d", syntax.Offset)
		}
		return nil, &entity.PayloadError{Cause: entity.CauseSyntax, Detail: fmt.Sprintf("must be JSON; %v%s", err, at)}
	}
	d := &document{json: compact.String()}
	if d.json[0] != '{' && d.json[0] != '[' {
		return nil, &entity.PayloadError{Cause: entity.CauseShape, Detail: fmt.Sprintf("must be a JSON object or array, not %.32q; for a single value the template needs payload text", d.json)}
	}
	if deeper(d.json, entity.MaxDepth) {
		return nil, &entity.PayloadError{Cause: entity.CauseTooLarge, Detail: fmt.Sprintf("nested more than %d deep", entity.MaxDepth)}
	}
	return d, nil
}

// deeper reports whether valid JSON is nested more than most levels deep.
func deeper(text string, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// collector builds a JSON object of values.
type collector struct {
	text []byte
	seen map[string]bool
}

func (g *collector) add(key, text string) error {
	if err := entity.CheckKey(key); err != nil {
		return err
	}
	if len(g.seen) == entity.MaxReadingKeys {
		return &entity.PayloadError{Cause: entity.CauseTooLarge, Detail: fmt.Sprintf("more than %d keys", entity.MaxReadingKeys)}
	}
	g.seen[key] = true
	if len(g.text) > 1 {
		g.text = append(g.text, ',')
	}
	g.text = append(append(value.AppendQuoted(g.text, key), ':'), text...)
	return nil
}

// collect returns the values of a message as a JSON object.
func (c *compiled) collect(d *document, b bindings) ([]byte, error) {
	g := &collector{text: []byte{'{'}, seen: map[string]bool{}}
	for i := range c.values {
		key := c.values[i].key.fill(b)
		v, err := c.values[i].value.of(d)
		if err != nil {
			return nil, failed("values."+key, err)
		}
		if v.IsZero() {
			continue // the message does not contain it
		}
		if g.seen[key] {
			return nil, &entity.PayloadError{Cause: entity.CauseDuplicate, Detail: fmt.Sprintf("the key %.64q comes twice", key)}
		}
		if err := g.add(key, string(v.AppendJSON(nil))); err != nil {
			return nil, err
		}
	}
	if c.all {
		whole, ok := find(d.json, c.members)
		if ok && whole[0] != '{' {
			return nil, &Error{In: "members", Text: fmt.Sprintf("the payload must have an object there, not %.32q", whole)}
		}
		if ok {
			own := make(map[string]bool)
			if err := c.take(g, own, "", whole); err != nil {
				return nil, err
			}
		}
	}
	if len(g.seen) == 0 {
		return nil, &entity.PayloadError{Cause: entity.CauseEmpty, Detail: "the message has no value that the template asks for; a condition in when passes over such messages"}
	}
	return append(g.text, '}'), nil
}

// take adds the members of an object, with prefix before their keys. Keys in own are skipped,
// because the template's values set them.
func (c *compiled) take(g *collector, own map[string]bool, prefix, object string) error {
	for name, text := range value.Members(object) {
		if text == "null" {
			continue
		}
		key := prefix + name
		if len(key) > entity.MaxKeyBytes { // nested keys would be longer still
			return entity.CheckKey(key)
		}
		if key == c.timeKey {
			continue
		}
		if c.flatten && text[0] == '{' {
			if err := c.take(g, own, key+".", text); err != nil {
				return err
			}
			continue
		}
		if own[key] {
			return &entity.PayloadError{Cause: entity.CauseDuplicate, Detail: fmt.Sprintf("the key %.64q comes twice", key)}
		}
		own[key] = true
		if g.seen[key] {
			continue // set by the template's values
		}
		if err := g.add(key, text); err != nil {
			return err
		}
	}
	return nil
}

// stamp sets the time of the values.
func (c *compiled) stamp(o *Outcome, d *document) error {
	if c.time == nil {
		return nil
	}
	v, err := c.time.of(d)
	if err != nil {
		return failed("time", err)
	}
	if v.IsZero() {
		return nil
	}
	if o.TS, err = c.millis(v); err != nil {
		return err
	}
	o.Timed = true
	return nil
}

// isoForms are the layouts accepted for the unit iso.
var isoForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}

// millis returns a time in milliseconds since the epoch.
func (c *compiled) millis(v value.Value) (int64, error) {
	wrong := func(want string) error {
		return &entity.PayloadError{Cause: entity.CauseTime, Detail: fmt.Sprintf("the time must be %s, not %.64s", want, v)}
	}
	if c.unit == "iso" {
		for i, form := range isoForms {
			if i > 0 && !c.zoned {
				break // without a zone, only RFC 3339 is unambiguous
			}
			if at, err := time.ParseInLocation(form, v.Text(), c.zone); err == nil && v.Kind() == value.KindString {
				return bounded(float64(at.UnixMilli()), wrong("of the years 1970 to 9999"))
			}
		}
		if !c.zoned {
			return 0, wrong("one of RFC 3339, such as 2016-01-01T12:00:00Z; one without a zone needs time_zone in the template")
		}
		return 0, wrong("such as 2016-01-01T12:00:00")
	}
	n, ok := v.Number()
	if v.Kind() == value.KindString {
		var err error
		n, err = strconv.ParseFloat(v.Text(), 64)
		ok = err == nil
	}
	if !ok || math.IsNaN(n) {
		return 0, wrong("a number")
	}
	if c.unit == "s" {
		n *= 1000
	}
	return bounded(math.Round(n), wrong(fmt.Sprintf("a number in %s of the years 1970 to 9999", c.unit)))
}

// bounded returns ms, or err if it is outside the permitted range.
func bounded(ms float64, err error) (int64, error) {
	if ms < float64(entity.MinTS) || ms > float64(entity.MaxTS) {
		return 0, err
	}
	return int64(ms), nil
}

// check validates the values as it would those of a message in the server's own format.
func (o *Outcome) check(now time.Time) (err error) {
	ts := now.UnixMilli()
	if o.Timed {
		ts = o.TS
	}
	payload := append(strconv.AppendInt([]byte(`{"ts":`), ts, 10), `,"values":`...)
	o.readings, err = entity.ParseReadings(append(append(payload, o.Values...), '}'), now)
	if err != nil {
		return err
	}
	o.readings[0].Arrived = !o.Timed
	return nil
}

// message returns the values as a payload in the server's own format.
func (o *Outcome) message() []byte {
	ambiguous := slices.ContainsFunc(o.readings[0].Values, func(s entity.Sample) bool { return s.Key == "ts" || s.Key == "values" || s.Key == "seq" })
	if !o.Timed && !ambiguous {
		return o.Values
	}
	payload := append(strconv.AppendInt([]byte(`{"ts":`), o.readings[0].TS, 10), `,"values":`...)
	return append(append(payload, o.Values...), '}')
}
