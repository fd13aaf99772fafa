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

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/text"
)

// Check reports whether a value conforms to the schema: nil, or an error that
// wraps ErrMismatch and says what the value must be.
func (s *Schema) Check(v value.Value) error {
	switch s.Type {
	case Number, Integer:
		return s.checkNumber(v)
	case Any:
		return nil
	case Boolean:
		if v.Kind() == value.KindBool {
			return nil
		}
	case Enum:
		return s.checkEnum(v)
	case String, Date, DateTime, Time, Duration:
		if v.Kind() == value.KindString {
			return s.checkText(v.Text())
		}
	case Object, Array, Map:
		if v.Kind() == value.KindJSON {
			return s.checkJSON(v.Text())
		}
	}
	return s.mismatch("%s", show(v))
}

func (s *Schema) mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: must be %s, not %s", ErrMismatch, s.describe(), fmt.Sprintf(format, args...))
}

// describe says what a value must be.
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

// show returns a value as an error has it.
func show(v value.Value) string {
	switch v.Kind() {
	case value.KindString:
		return strconv.Quote(brief(v.Text()))
	case value.KindJSON:
		return brief(v.Text())
	default:
		return v.String()
	}
}

func brief(s string) string { return text.Shorten(s, 64) }

func (s *Schema) checkNumber(v value.Value) error {
	switch {
	case !v.IsNumber(), s.Type == Integer && v.Kind() == value.KindFloat && !whole(v.Float()),
		s.Min != nil && value.Compare(v, value.Float(*s.Min)) == value.Less,
		s.Max != nil && value.Compare(v, value.Float(*s.Max)) == value.Greater:
		return s.mismatch("%s", show(v))
	}
	return nil
}

// whole reports whether a float is an integer that no other one is rounded to.
func whole(f float64) bool { return f == math.Trunc(f) && math.Abs(f) <= 1<<53 }

func (s *Schema) checkEnum(v value.Value) error {
	var x any
	switch {
	case v.Kind() == value.KindString:
		x = v.Text()
	case v.Kind() == value.KindInt:
		x = v.Int()
	case v.Kind() == value.KindFloat && whole(v.Float()):
		x = int64(v.Float())
	}
	if slices.Contains(s.Values, x) {
		return nil
	}
	return s.mismatch("%s", show(v))
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
		return s.mismatch("%q", brief(text))
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
	d, ok := valueOf(v)
	if !ok {
		return s.within(at, "null")
	}
	if err := s.Check(d); err != nil {
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

// valueOf returns the value of a decoded scalar.
func valueOf(v any) (value.Value, bool) {
	switch v := v.(type) {
	case bool:
		return value.Bool(v), true
	case string:
		return value.String(v), true
	case json.Number:
		return value.FromJSON(v.String())
	}
	return value.Value{}, false
}
