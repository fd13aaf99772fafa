package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// fields is a set of parts of an entity to return, besides its id, type, version and times.
type fields uint8

const (
	fieldLatest fields = 1 << iota
	fieldAttributes
	fieldDesired
	fieldReported
	fieldDelta
	fieldMetadata
	fieldRelations

	allFields = fieldRelations<<1 - 1
)

// fieldNames contains the names of the fields, in the order of their bits.
var fieldNames = []string{"latest", "attributes", "desired", "reported", "delta", "metadata", "relations"}

func (f fields) has(other fields) bool { return f&other != 0 }

// fieldList is a choice of fields: a comma-separated parameter, or a JSON array.
type fieldList struct {
	given  bool
	chosen fields
}

// or returns the choice, or def if there is none.
func (l *fieldList) or(def fields) fields {
	if l.given {
		return l.chosen
	}
	return def
}

func (l *fieldList) parse(text string) error {
	if text == "" {
		return l.set(nil)
	}
	return l.set(strings.Split(text, ","))
}

// UnmarshalJSON accepts an array of names, or null.
func (l *fieldList) UnmarshalJSON(text []byte) error {
	var names []string
	if err := json.Unmarshal(text, &names); err != nil || names == nil {
		return err
	}
	if err := l.set(names); err != nil {
		return fmt.Errorf("fields %w", err)
	}
	return nil
}

func (l *fieldList) set(names []string) error {
	l.given = true
	for _, name := range names {
		i := slices.Index(fieldNames, strings.TrimSpace(name))
		if i < 0 {
			return fmt.Errorf("must be some of %s, not %q", strings.Join(fieldNames, ", "), shorten(name, 64))
		}
		l.chosen |= 1 << i
	}
	return nil
}
