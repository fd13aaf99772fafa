package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Names of the types of values.
const (
	Any      = "any"      // whatever JSON has
	Boolean  = "boolean"  // true or false
	Integer  = "integer"  // a whole number, int64
	Number   = "number"   // any number, float64
	String   = "string"   // text
	Enum     = "enum"     // one of Schema.Values
	Date     = "date"     // 2006-01-02 (RFC 3339)
	DateTime = "dateTime" // 2006-01-02T15:04:05Z (RFC 3339)
	Time     = "time"     // 15:04:05, with or without an offset (RFC 3339)
	Duration = "duration" // P1DT2H (ISO 8601)
	Object   = "object"   // an object of Schema.Fields
	Array    = "array"    // an array of Schema.Element
	Map      = "map"      // an object of any names with Schema.Element
)

var allTypes = []string{Any, Boolean, Integer, Number, String, Enum, Date, DateTime, Time, Duration, Object, Array, Map}

// Schema describes a value.
type Schema struct {
	Type        string `json:"type"`
	Name        string `json:"name,omitempty"` // for people
	Description string `json:"description,omitempty"`
	Unit        string `json:"unit,omitempty"`
	// Semantic is what the value means, such as Temperature.
	Semantic string `json:"semantic,omitempty"`
	// Min and Max are the limits of numbers, both inclusive.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// MaxLength bounds texts, in bytes, and arrays, in elements. 0 means no limit.
	MaxLength int `json:"maxLength,omitempty"`
	// Values are the values of an enumeration: all texts or all integers.
	Values []any `json:"values,omitempty"`
	// Fields are the fields of an object. Other fields are refused.
	Fields map[string]*Schema `json:"fields,omitempty"`
	// Element describes the elements of an array and the values of a map.
	Element *Schema `json:"element,omitempty"`
}

func (s *Schema) check(at string, depth int) error {
	if depth > MaxDepth {
		return invalid(at, "schemas nested deeper than %d", MaxDepth)
	}
	if !slices.Contains(allTypes, s.Type) {
		return invalid(at+".type", "%q; there are %v", s.Type, allTypes)
	}
	if err := s.checkLimits(at); err != nil {
		return err
	}
	switch s.Type {
	case Enum:
		return s.checkValues(at)
	case Object:
		if len(s.Fields) > MaxMembers {
			return invalid(at+".fields", "%d; at most %d are allowed", len(s.Fields), MaxMembers)
		}
		return checkSchemas(at+".fields", s.Fields, depth+1)
	case Array, Map:
		if s.Element == nil {
			return invalid(at+".element", "it is missing; %s has one", s.Type)
		}
		return s.Element.check(at+".element", depth+1)
	}
	return nil
}

// checkLimits refuses what has no meaning for the type: it was meant otherwise.
func (s *Schema) checkLimits(at string) error {
	number := s.Type == Integer || s.Type == Number
	switch {
	case (s.Min != nil || s.Max != nil) && !number:
		return invalid(at, "min and max are for numbers, not for %s", s.Type)
	case s.Min != nil && s.Max != nil && *s.Min > *s.Max:
		return invalid(at, "min %v is more than max %v", *s.Min, *s.Max)
	case s.MaxLength < 0:
		return invalid(at+".maxLength", "must be 0 or more, not %d", s.MaxLength)
	case s.MaxLength > 0 && s.Type != String && s.Type != Array:
		return invalid(at+".maxLength", "it is for strings and arrays, not for %s", s.Type)
	case s.Values != nil && s.Type != Enum:
		return invalid(at+".values", "they are for enumerations, not for %s", s.Type)
	case s.Fields != nil && s.Type != Object:
		return invalid(at+".fields", "they are for objects, not for %s", s.Type)
	case s.Element != nil && s.Type != Array && s.Type != Map:
		return invalid(at+".element", "it is for arrays and maps, not for %s", s.Type)
	}
	return nil
}

// checkValues makes the integers of an enumeration int64, as they are checked.
func (s *Schema) checkValues(at string) error {
	if n := len(s.Values); n == 0 || n > MaxEnum {
		return invalid(at+".values", "must be 1 to %d, not %d", MaxEnum, n)
	}
	texts := 0
	for i, v := range s.Values {
		switch v := v.(type) {
		case string:
			texts++
		case float64:
			if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
				return invalid(fmt.Sprintf("%s.values[%d]", at, i), "must be an integer, not %v", v)
			}
			s.Values[i] = int64(v)
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return invalid(fmt.Sprintf("%s.values[%d]", at, i), "must be an integer, not %v", v)
			}
			s.Values[i] = n
		case int64:
		default:
			return invalid(fmt.Sprintf("%s.values[%d]", at, i), "must be texts or integers, not %T", v)
		}
		if slices.Contains(s.Values[:i], s.Values[i]) {
			return invalid(fmt.Sprintf("%s.values[%d]", at, i), "%v occurs twice", s.Values[i])
		}
	}
	if texts > 0 && texts < len(s.Values) {
		return invalid(at+".values", "must be texts or integers, not both")
	}
	return nil
}

// member returns the schema of what lies under a name in an object.
func (s *Schema) member(name string) (*Schema, bool) {
	switch s.Type {
	case Object:
		f, ok := s.Fields[name]
		return f, ok
	case Map:
		return s.Element, true
	case Any:
		return s, true
	}
	return nil, false
}
