package model

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/internal/text"
)

// Kind tells what a Datum is.
type Kind uint8

// The kinds. They have the numbers of package entity's.
const (
	KindFloat  Kind = 1
	KindInt    Kind = 2
	KindBool   Kind = 3
	KindString Kind = 4
	KindJSON   Kind = 5
)

// Datum is a value to be checked.
type Datum struct {
	Kind  Kind
	Float float64 // KindFloat
	Int   int64   // KindInt
	Bool  bool    // KindBool
	Text  string  // KindString, KindJSON
}

// CheckDatum tells whether a value is as the schema wants it. The error wraps
// ErrMismatch and says what would be right.
func (s *Schema) CheckDatum(d Datum) error {
	switch s.Type {
	case Number, Integer:
		return s.checkNumber(d)
	case Any:
		return nil
	case Boolean:
		if d.Kind == KindBool {
			return nil
		}
	case Enum:
		return s.checkEnum(d)
	case String, Date, DateTime, Time, Duration:
		if d.Kind == KindString {
			return s.checkText(d.Text)
		}
	case Object, Array, Map:
		if d.Kind == KindJSON {
			return s.checkJSON(d.Text)
		}
	}
	return s.mismatch("%v", d)
}

func (s *Schema) mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s; %s is right", ErrMismatch, fmt.Sprintf(format, args...), s.describe())
}

// describe says what would be right.
func (s *Schema) describe() string {
	var b strings.Builder
	switch s.Type {
	case Enum:
		fmt.Fprintf(&b, "one of %v", s.Values)
	case Integer, Object, Array:
		b.WriteString("an " + s.Type)
	default:
		b.WriteString("a " + s.Type)
	}
	switch {
	case s.Min != nil && s.Max != nil:
		fmt.Fprintf(&b, " from %v to %v", *s.Min, *s.Max)
	case s.Min != nil:
		fmt.Fprintf(&b, " from %v", *s.Min)
	case s.Max != nil:
		fmt.Fprintf(&b, " up to %v", *s.Max)
	case s.MaxLength > 0:
		fmt.Fprintf(&b, " of at most %d", s.MaxLength)
	}
	if s.Unit != "" {
		b.WriteString(" " + s.Unit)
	}
	return b.String()
}

// String returns the value as it stands in an error.
func (d Datum) String() string {
	switch d.Kind {
	case KindFloat:
		return strconv.FormatFloat(d.Float, 'g', -1, 64)
	case KindInt:
		return strconv.FormatInt(d.Int, 10)
	case KindBool:
		return strconv.FormatBool(d.Bool)
	case KindString:
		return strconv.Quote(brief(d.Text))
	case KindJSON:
		return brief(d.Text)
	}
	return "nothing"
}

func brief(s string) string { return text.Shorten(s, 64) }

func (s *Schema) checkNumber(d Datum) error {
	f := d.Float
	switch d.Kind {
	case KindInt:
		f = float64(d.Int)
	case KindFloat:
		if s.Type == Integer && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
			return s.mismatch("%v", d)
		}
	default:
		return s.mismatch("%v", d)
	}
	if s.Min != nil && f < *s.Min || s.Max != nil && f > *s.Max {
		return s.mismatch("%v", d)
	}
	return nil
}

func (s *Schema) checkEnum(d Datum) error {
	var v any
	switch {
	case d.Kind == KindString:
		v = d.Text
	case d.Kind == KindInt:
		v = d.Int
	case d.Kind == KindFloat && d.Float == math.Trunc(d.Float) && math.Abs(d.Float) <= 1<<53:
		v = int64(d.Float)
	}
	if slices.Contains(s.Values, v) {
		return nil
	}
	return s.mismatch("%v", d)
}

var (
	isoDuration = regexp.MustCompile(`^-?P(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)$`)
	timeForms   = []string{"15:04:05", "15:04:05Z07:00"}
)

func (s *Schema) checkText(text string) error {
	ok := true
	switch s.Type {
	case String:
		ok = s.MaxLength == 0 || len(text) <= s.MaxLength
	case Date:
		_, err := time.Parse(time.DateOnly, text)
		ok = err == nil
	case DateTime:
		_, err := time.Parse(time.RFC3339, text)
		ok = err == nil
	case Time:
		ok = slices.ContainsFunc(timeForms, func(form string) bool {
			_, err := time.Parse(form, text)
			return err == nil
		})
	case Duration:
		ok = isoDuration.MatchString(text) && !strings.HasSuffix(text, "P") && !strings.HasSuffix(text, "T")
	}
	if !ok {
		return s.mismatch("%v", Datum{Kind: KindString, Text: text})
	}
	return nil
}

func (s *Schema) checkJSON(text string) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return s.mismatch("%s", brief(text))
	}
	return s.checkAny("", v)
}

// checkAny checks a decoded value; at is its path within the value.
func (s *Schema) checkAny(at string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if s.Type == Any {
			return nil
		}
		if s.Type != Object && s.Type != Map {
			return s.within(at, "an object")
		}
		for name, inner := range v {
			f, ok := s.member(name)
			if !ok {
				return fmt.Errorf("%s/%s: %w: the object has no such field", at, name, ErrMismatch)
			}
			if err := f.checkAny(at+"/"+name, inner); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if s.Type == Any {
			return nil
		}
		if s.Type != Array {
			return s.within(at, "an array")
		}
		if s.MaxLength > 0 && len(v) > s.MaxLength {
			return s.within(at, fmt.Sprintf("%d elements", len(v)))
		}
		for i := range v {
			if err := s.Element.checkAny(fmt.Sprintf("%s/%d", at, i), v[i]); err != nil {
				return err
			}
		}
		return nil
	}
	d, ok := datumOf(v)
	if !ok {
		return s.within(at, "null")
	}
	if err := s.CheckDatum(d); err != nil {
		if at != "" {
			return fmt.Errorf("%s: %w", at, err)
		}
		return err
	}
	return nil
}

func (s *Schema) within(at, what string) error {
	if at == "" {
		return s.mismatch("%s", what)
	}
	return fmt.Errorf("%s: %w", at, s.mismatch("%s", what))
}

// datumOf makes a Datum of a decoded scalar.
func datumOf(v any) (Datum, bool) {
	switch v := v.(type) {
	case bool:
		return Datum{Kind: KindBool, Bool: v}, true
	case string:
		return Datum{Kind: KindString, Text: v}, true
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return Datum{Kind: KindInt, Int: i}, true
		}
		f, err := v.Float64()
		return Datum{Kind: KindFloat, Float: f}, err == nil
	}
	return Datum{}, false
}
