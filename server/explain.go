package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/mapping"
)

type explainedJSON struct {
	Entity      string       `json:"entity"`
	Key         string       `json:"key"`
	TS          int64        `json:"ts"`
	Value       entity.Value `json:"value"`
	Computed    bool         `json:"computed"`
	Source      string       `json:"source,omitempty"`
	SourceSeq   uint64       `json:"source_seq,omitempty"`
	SameVersion bool         `json:"same_version,omitempty"`
	Mapping     *mappingJSON `json:"mapping,omitempty"`
}

// explainValue tells where a value comes from: a device, or which version of which
// mapping, and the number of the change that it was computed after.
func (s *Server) explainValue(w http.ResponseWriter, r *http.Request) error {
	id, key, q := r.PathValue("id"), r.PathValue("key"), r.URL.Query()
	answer := explainedJSON{Entity: id, Key: key}
	var origin entity.Origin
	var err error
	if q.Has("ts") {
		origin, err = s.valueAt(r, &answer)
	} else {
		err = s.runtime.View(r.Context(), id, func(v entity.View) error {
			l, ok := v.Latest(key)
			if !ok {
				return fmt.Errorf("entity %q has no value of %q: %w", id, shorten(key, 64), entity.ErrNotFound)
			}
			answer.TS, answer.Value, origin = l.TS, l.Value, l.Origin
			return nil
		})
	}
	if err != nil {
		return err
	}
	if !origin.IsZero() {
		answer.Computed, answer.Source, answer.SourceSeq = true, origin.Source, origin.Seq
		if err := s.explainMapping(r, origin, &answer); err != nil {
			return err
		}
	}
	return writeJSON(w, answer)
}

// explainMapping adds the mapping that is in force under the name of the one that
// computed a value.
func (s *Server) explainMapping(r *http.Request, origin entity.Origin, answer *explainedJSON) error {
	name, version, ok := mappingOf(origin)
	if !ok {
		return nil
	}
	ex, err := s.mappings.Explain(r.Context(), name)
	if errors.Is(err, mapping.ErrNotFound) {
		return nil // it has been removed since
	}
	if err != nil {
		return err
	}
	m := newMappingJSON(&ex)
	answer.Mapping, answer.SameVersion = &m, ex.Version == version
	return nil
}

// valueAt finds the value of the history at a time.
func (s *Server) valueAt(r *http.Request, answer *explainedJSON) (origin entity.Origin, err error) {
	if answer.TS, err = timeParam(r.URL.Query(), "ts", 0); err != nil {
		return origin, err
	}
	query := entity.HistoryQuery{ID: answer.Entity, Key: answer.Key, From: answer.TS, To: answer.TS + 1, Limit: 1}
	points, _, err := s.runtime.History(r.Context(), query)
	if err != nil {
		return origin, err
	}
	if len(points) == 0 {
		return origin, fmt.Errorf("entity %q has no value of %q at %d: %w", answer.Entity, shorten(answer.Key, 64), answer.TS, entity.ErrNotFound)
	}
	answer.Value = points[0].Value
	origins, err := s.runtime.Origins(r.Context(), query)
	if err == nil && len(origins) > 0 {
		origin = origins[0].Origin
	}
	return origin, err
}
