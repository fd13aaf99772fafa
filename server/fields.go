package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// fields says which parts of an entity an answer has, beside its id, type, version
// and times.
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

// fieldNames are the fields in the order of their bits.
var fieldNames = []string{"latest", "attributes", "desired", "reported", "delta", "metadata", "relations"}

func (f fields) has(other fields) bool { return f&other != 0 }

// fieldsParam reads the parameter fields; def stands for its absence.
func fieldsParam(q url.Values, def fields) (fields, error) {
	if !q.Has("fields") {
		return def, nil
	}
	if q.Get("fields") == "" {
		return 0, nil
	}
	return parseFields(strings.Split(q.Get("fields"), ","))
}

func parseFields(names []string) (f fields, err error) {
	for _, name := range names {
		i := slices.Index(fieldNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, problemf(http.StatusBadRequest, "fields has %q; there are %s", shorten(name, 64), strings.Join(fieldNames, ", "))
		}
		f |= 1 << i
	}
	return f, nil
}
