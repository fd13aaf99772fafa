package entity

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Causes of a PayloadError: why a payload was refused. They are the labels of counters
// and the keys by which a log leaves out repetitions.
const (
	CauseEmpty     = "empty"         // no bytes, no readings, or a reading without values
	CauseTooLarge  = "too_large"     // beyond a limit, which Detail names
	CauseEncoding  = "encoding"      // not UTF-8, or half of a surrogate pair
	CauseSyntax    = "syntax"        // not JSON
	CauseShape     = "shape"         // JSON, but not one of the forms of a payload
	CauseTime      = "time"          // a ts that is not a time in milliseconds
	CauseKey       = "key"           // a key that is not allowed
	CauseDuplicate = "duplicate_key" // a key twice in one reading
	CauseNull      = "null"          // null in place of a value
	CauseNumber    = "number"        // a number beyond float64
)

// PayloadError says why a payload is refused. It wraps ErrInvalid.
type PayloadError struct {
	// Cause is one of the Cause constants: a bounded set, fit for a label.
	Cause string
	// Detail says what is wrong, at which byte, reading and key, and what is expected there. It is
	// never longer than a few hundred bytes.
	Detail string
}

// Error returns the detail.
func (e *PayloadError) Error() string { return "payload: " + e.Detail }

// Unwrap returns ErrInvalid.
func (e *PayloadError) Unwrap() error { return ErrInvalid }

const payloadForms = `{"temperature":21.5}, {"ts":1451649600512,"values":{"temperature":21.5}}, or an array of either`

// ParseReadings reads the payload of a telemetry message: a JSON object in one
// of two forms, or an array of such objects.
//
//	{"temperature":21.5,"door":"open"}                  measured now
//	{"ts":1451649600512,"values":{"temperature":21.5}}  measured at ts
//
// The second form is an object whose "values" is an object and whose "ts" is an integer, in
// milliseconds since the epoch. It may have a third member, "seq", the device's own number for the
// reading, from 1, which identifies repetitions; "seq" may also take the place of "ts". Otherwise
// "ts", "seq" and "values" are keys like any other: {"ts":1} is the reading ts = 1 of now,
// {"values":{"a":1}} the reading values = {"a":1} of now. An object with "ts" and "values" is
// refused if its ts is not an integer or its values is not an object, because that is surely a
// mistake.
//
// Numbers that are written as integers and fit are int64, the others float64; a number beyond
// float64 is refused. Objects and arrays are JSON values. null is refused: it is not a measurement,
// and leaving the key out says the same. A key that occurs twice in a reading is refused, because
// one of its values would be lost silently.
//
// One bad reading refuses the whole payload, with a *PayloadError. The readings do not refer to
// payload.
func ParseReadings(payload []byte, now time.Time) ([]Reading, error) {
	if len(payload) > MaxPayloadBytes {
		return nil, &PayloadError{CauseTooLarge, fmt.Sprintf("%d bytes; at most %d are allowed", len(payload), MaxPayloadBytes)}
	}
	// One copy as a string: keys and texts are parts of it, so that a reading
	// costs three allocations however many keys it has.
	p := parser{s: string(payload), now: now.UnixMilli(), reading: -1, width: 4}
	readings, err := p.payload()
	if err != nil {
		return nil, err
	}
	return readings, nil
}

// parser reads one payload. Its methods return *PayloadError rather than error, so that each
// failure gets its cause and position where it happens.
type parser struct {
	s       string
	i       int    // the next byte
	spaces  int    // bytes of white space skipped so far
	now     int64  // the time of readings without ts
	reading int    // the index in an array, -1 outside one
	key     string // the key whose value is being read, "" if none is
	width   int    // how many samples to expect in a reading
}

func (p *parser) payload() ([]Reading, *PayloadError) {
	if !utf8.ValidString(p.s) {
		return nil, p.encodingError()
	}
	var readings []Reading
	switch p.peek() {
	case '{':
		r, err := p.readReading()
		if err != nil {
			return nil, err
		}
		readings = []Reading{r}
	case '[':
		var err *PayloadError
		if readings, err = p.readArray(); err != nil {
			return nil, err
		}
	default:
		return nil, p.formError()
	}
	if p.peek(); p.i < len(p.s) {
		return nil, p.fail(CauseSyntax, "%s after the end of the payload", p.found())
	}
	return readings, nil
}

// readArray reads an array of readings. REQUIRES: the next byte is '['.
func (p *parser) readArray() ([]Reading, *PayloadError) {
	p.i++
	if p.peek() == ']' {
		return nil, p.fail(CauseEmpty, "an array without readings; send at least one")
	}
	var readings []Reading
	for {
		p.reading = len(readings)
		if p.reading == MaxReadings {
			return nil, p.fail(CauseTooLarge, "more than %d readings in one payload", MaxReadings)
		}
		if p.peek() != '{' {
			return nil, p.formError()
		}
		r, err := p.readReading()
		if err != nil {
			return nil, err
		}
		readings = append(readings, r)
		p.width = len(r.Values)
		if p.peek() == ']' {
			p.i++
			p.reading = -1
			return readings, nil
		}
		if err := p.expect(',', "',' or ']' after a reading"); err != nil {
			return nil, err
		}
	}
}

// readReading reads one reading in either form. REQUIRES: the next byte is '{'.
func (p *parser) readReading() (Reading, *PayloadError) {
	start := p.i
	r, ok, err := p.readEnvelope()
	if err != nil || ok {
		return r, err
	}
	p.i = start
	return p.readFlat()
}

// readEnvelope is the fast path for the second form with ts before values, the usual order. If ok
// is false the object is something else, which readFlat determines.
func (p *parser) readEnvelope() (r Reading, ok bool, err *PayloadError) {
	p.i++
	if p.peek() != '"' || !strings.HasPrefix(p.s[p.i:], `"ts"`) {
		return r, false, nil
	}
	p.i += len(`"ts"`)
	if p.peek() != ':' {
		return r, false, nil
	}
	p.i++
	if c := p.peek(); c != '-' && (c < '0' || c > '9') {
		return r, false, nil
	}
	ts, bad := p.readNumber()
	if bad != nil || ts.Kind() != value.KindInt || p.peek() != ',' {
		return r, false, nil //nolint:nilerr // readFlat finds the same error, if it is one
	}
	p.i++
	if p.peek() != '"' || !strings.HasPrefix(p.s[p.i:], `"values"`) {
		return r, false, nil
	}
	p.i += len(`"values"`)
	if p.peek() != ':' {
		return r, false, nil
	}
	p.i++
	if p.peek() != '{' {
		return r, false, nil
	}
	if err := p.checkTS(ts.Int()); err != nil {
		return r, false, err
	}
	r.TS = ts.Int()
	if r.Values, err = p.readSamples(); err != nil {
		return r, false, err
	}
	if p.peek() == ',' {
		return Reading{}, false, nil // a third member
	}
	return r, true, p.expect('}', "'}' after values")
}

// readFlat reads an object of keys, and the second form with values before ts.
func (p *parser) readFlat() (Reading, *PayloadError) {
	var f flatReading
	samples, err := p.readMembers(&f)
	if err != nil {
		return Reading{}, err
	}
	ts, seq := find(samples, "ts"), find(samples, "seq")
	if ts != nil && f.valuesAt == 0 {
		if values := find(samples, "values"); values != nil {
			return Reading{}, p.fail(CauseShape, `values must be an object of keys, as in {"ts":1451649600512,"values":{"temperature":21.5}}, not %s`, brief(values.String()))
		}
	}
	numbered := seq != nil && seq.Kind() == value.KindInt && seq.Int() > 0
	members := 1
	for _, there := range []bool{ts != nil, seq != nil} {
		if there {
			members++
		}
	}
	if f.valuesAt == 0 || ts == nil && (!numbered || len(samples) > members) {
		return p.closeFlat(samples, &f)
	}
	switch {
	case ts != nil && ts.Kind() != value.KindInt:
		return Reading{}, p.fail(CauseTime, `ts must be an integer of milliseconds since the epoch, such as 1451649600512, not %s`, brief(ts.String()))
	case len(samples) > members:
		return Reading{}, p.thirdMember()
	case seq != nil && !numbered:
		return Reading{}, p.fail(CauseShape, "seq must be an integer from 1 to 9223372036854775807, not %s", brief(seq.String()))
	case f.nestedErr != nil:
		return Reading{}, f.nestedErr
	}
	r := Reading{TS: p.now, Values: f.nested, Arrived: ts == nil}
	if seq != nil {
		r.Number = uint64(seq.Int())
	}
	if ts != nil {
		if err := p.checkTS(ts.Int()); err != nil {
			return Reading{}, err
		}
		r.TS = ts.Int()
	}
	return r, nil
}

// flatReading is what is known about a "values" object before it is clear which form the reading
// has.
type flatReading struct {
	valuesAt  int // the offset of the object, 0 if there is none
	nested    []Sample
	nestedErr *PayloadError
}

// closeFlat decides that the reading has the first form: a "values" object that was read as samples
// is a JSON value after all.
func (p *parser) closeFlat(samples []Sample, f *flatReading) (Reading, *PayloadError) {
	if f.valuesAt > 0 {
		end := p.i
		p.i, p.key = f.valuesAt, "values"
		v, err := p.readJSON()
		if err != nil {
			return Reading{}, err
		}
		p.i, p.key = end, ""
		*find(samples, "values") = v
	}
	return Reading{TS: p.now, Values: samples, Arrived: true}, nil
}

func find(samples []Sample, key string) *value.Value {
	for i := range samples {
		if samples[i].Key == key {
			return &samples[i].Value
		}
	}
	return nil
}

// readSamples reads an object of keys. REQUIRES: the next byte is '{'.
func (p *parser) readSamples() ([]Sample, *PayloadError) { return p.readMembers(nil) }

// readMembers reads an object of keys. If f is not nil, it keeps an object under "values" separate.
// REQUIRES: the next byte is '{'.
func (p *parser) readMembers(f *flatReading) ([]Sample, *PayloadError) {
	p.i++
	if p.peek() == '}' {
		return nil, p.fail(CauseEmpty, "a reading without values; send at least one key")
	}
	samples := make([]Sample, 0, p.width)
	var seen map[string]struct{}
	for {
		key, err := p.readKey()
		if err != nil {
			return nil, err
		}
		if seen, err = p.checkNew(key, samples, seen); err != nil {
			return nil, err
		}
		p.key = key
		var v value.Value
		if f != nil && key == "values" && p.peek() == '{' {
			v, err = p.readNested(f)
		} else {
			v, err = p.readValue()
		}
		if err != nil {
			return nil, err
		}
		p.key = ""
		samples = append(samples, Sample{key, v})
		if p.peek() == '}' {
			p.i++
			return samples, nil
		}
		if err := p.expect(',', "',' or '}' after a value"); err != nil {
			return nil, err
		}
	}
}

// readNested reads the object under "values" as samples or, if that fails, as a JSON value. The
// choice is made at the end of the reading.
func (p *parser) readNested(f *flatReading) (value.Value, *PayloadError) {
	f.valuesAt = p.i
	if f.nested, f.nestedErr = p.readSamples(); f.nestedErr == nil {
		return value.JSON("{}"), nil
	}
	p.i, p.key = f.valuesAt, "values"
	v, err := p.readJSON()
	if err != nil {
		return v, f.nestedErr
	}
	return v, nil
}

// readKey reads a key and the colon after it.
func (p *parser) readKey() (string, *PayloadError) {
	if p.peek() != '"' {
		return "", p.fail(CauseSyntax, `%s where a key is expected; keys are in double quotes`, p.found())
	}
	at := p.i
	key, err := p.readString()
	if err != nil {
		return "", err
	}
	if err := CheckKey(key); err != nil {
		p.i = at
		return "", p.fail(CauseKey, "%s", err)
	}
	if p.peek() != ':' {
		return "", p.fail(CauseSyntax, "%s where ':' is expected after the key %q", p.found(), brief(key))
	}
	p.i++
	return key, nil
}

// checkNew refuses a key that the reading already has, and one beyond the limit. It compares with a
// few keys, and looks up many.
func (p *parser) checkNew(key string, samples []Sample, seen map[string]struct{}) (map[string]struct{}, *PayloadError) {
	const few = 16
	if len(samples) == MaxReadingKeys {
		return nil, p.fail(CauseTooLarge, "more than %d keys in one reading", MaxReadingKeys)
	}
	taken := false
	if len(samples) < few {
		taken = find(samples, key) != nil
	} else {
		if seen == nil {
			seen = make(map[string]struct{}, 4*few)
			for i := range samples {
				seen[samples[i].Key] = struct{}{}
			}
		}
		_, taken = seen[key]
		seen[key] = struct{}{}
	}
	if taken {
		return nil, p.fail(CauseDuplicate, "the key %q occurs twice in a reading; send each key once", brief(key))
	}
	return seen, nil
}

// readValue reads any value of a sample.
func (p *parser) readValue() (value.Value, *PayloadError) {
	switch c := p.peek(); {
	case c == '"':
		at := p.i
		s, err := p.readString()
		if err == nil && len(s) > MaxTextBytes {
			p.i = at
			err = p.textError(len(s))
		}
		return value.String(s), err
	case c == '-' || c >= '0' && c <= '9':
		return p.readNumber()
	case c == '{' || c == '[':
		return p.readJSON()
	case p.literal("true"):
		return value.Bool(true), nil
	case p.literal("false"):
		return value.Bool(false), nil
	case strings.HasPrefix(p.s[p.i:], "null"):
		return value.Value{}, p.fail(CauseNull, "null is not a value; leave the key out")
	case c == 'N' || c == 'I' || c == 'i':
		return value.Value{}, p.fail(CauseSyntax, "%s where a value is expected; JSON has no NaN and no infinity, leave the key out", p.found())
	default:
		return value.Value{}, p.fail(CauseSyntax, "%s where a value is expected", p.found())
	}
}

// readNumber reads a number. REQUIRES: the next byte is '-' or a digit.
func (p *parser) readNumber() (value.Value, *PayloadError) {
	start := p.i
	integer, err := p.skipNumber()
	if err != nil {
		return value.Value{}, err
	}
	text := p.s[start:p.i]
	if integer {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return value.Int(n), nil
		}
	}
	f, ferr := strconv.ParseFloat(text, 64)
	if ferr != nil {
		p.i = start
		return value.Value{}, p.fail(CauseNumber, "the number %s is beyond what a float64 holds", brief(text))
	}
	return value.Float(f), nil
}

// skipNumber skips a number and reports whether it is written as an integer.
func (p *parser) skipNumber() (integer bool, err *PayloadError) {
	if p.s[p.i] == '-' {
		p.i++
	}
	first := p.i
	if p.digits() == 0 {
		return false, p.fail(CauseSyntax, "%s where a digit is expected", p.found())
	}
	if p.s[first] == '0' && p.i-first > 1 {
		p.i = first
		return false, p.fail(CauseSyntax, "a number with a leading zero")
	}
	integer = true
	if p.at('.') {
		integer = false
		p.i++
		if p.digits() == 0 {
			return false, p.fail(CauseSyntax, "%s where a digit is expected after the decimal point", p.found())
		}
	}
	if p.at('e') || p.at('E') {
		integer = false
		p.i++
		if p.at('+') || p.at('-') {
			p.i++
		}
		if p.digits() == 0 {
			return false, p.fail(CauseSyntax, "%s where a digit of the exponent is expected", p.found())
		}
	}
	return integer, nil
}

func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}

// readJSON reads an object or an array as a JSON value. REQUIRES: the next byte
// is '{' or '['.
func (p *parser) readJSON() (value.Value, *PayloadError) {
	start, spaces := p.i, p.spaces
	if err := p.skipValue(1); err != nil {
		return value.Value{}, err
	}
	text := p.s[start:p.i]
	if p.spaces != spaces {
		text = compact(text)
	}
	if len(text) > MaxTextBytes {
		p.i = start
		return value.Value{}, p.textError(len(text))
	}
	return value.JSON(text), nil
}

// skipValue skips and checks any JSON value.
func (p *parser) skipValue(depth int) *PayloadError {
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth > MaxDepth {
			return p.fail(CauseTooLarge, "a JSON value nested deeper than %d", MaxDepth)
		}
		return p.skipContainer(c, depth)
	case c == '"':
		_, err := p.skipString()
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := p.skipNumber()
		return err
	case p.literal("true"), p.literal("false"), p.literal("null"):
		return nil
	default:
		return p.fail(CauseSyntax, "%s where a value is expected", p.found())
	}
}

func (p *parser) skipContainer(open byte, depth int) *PayloadError {
	end := open + 2 // in ASCII ']' and '}' come two after '[' and '{'
	p.i++
	if p.peek() == end {
		p.i++
		return nil
	}
	for {
		if open == '{' {
			if p.peek() != '"' {
				return p.fail(CauseSyntax, "%s where a key is expected; keys are in double quotes", p.found())
			}
			if _, err := p.skipString(); err != nil {
				return err
			}
			p.peek()
			if err := p.expect(':', "':' after a key"); err != nil {
				return err
			}
		}
		if err := p.skipValue(depth + 1); err != nil {
			return err
		}
		if p.peek() == end {
			p.i++
			return nil
		}
		if err := p.expect(',', "',' or '"+string(end)+"'"); err != nil {
			return err
		}
	}
}

// compact removes the white space between the tokens of valid JSON.
func compact(s string) string {
	b := make([]byte, 0, len(s))
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			b = append(b, c)
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && isSpace(c):
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

// peek skips white space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	for p.i < len(p.s) {
		c := p.s[p.i]
		if !isSpace(c) {
			return c
		}
		p.i++
		p.spaces++
	}
	return 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (p *parser) at(c byte) bool { return p.i < len(p.s) && p.s[p.i] == c }

func (p *parser) literal(s string) bool {
	if !strings.HasPrefix(p.s[p.i:], s) {
		return false
	}
	p.i += len(s)
	return true
}

func (p *parser) expect(c byte, what string) *PayloadError {
	if !p.at(c) {
		return p.fail(CauseSyntax, "%s where %s is expected", p.found(), what)
	}
	p.i++
	return nil
}
