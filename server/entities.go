package server

import (
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
)

type latestJSON struct {
	Value entity.Value `json:"value"`
	TS    int64        `json:"ts"`
	Seq   uint64       `json:"seq"`
}

type entityJSON struct {
	ID      string                `json:"id"`
	Created int64                 `json:"created_ms"`
	Updated int64                 `json:"updated_ms"`
	Latest  map[string]latestJSON `json:"latest"`
	Actor   string                `json:"actor,omitempty"`
}

type entityPageJSON struct {
	Entities []entityJSON `json:"entities"`
	Next     string       `json:"next,omitempty"`
}

func newEntityJSON(s *entity.Snapshot) entityJSON {
	e := entityJSON{ID: s.ID, Created: s.Created, Updated: s.Updated, Actor: s.Actor, Latest: make(map[string]latestJSON, len(s.Latest))}
	for _, l := range s.Latest {
		e.Latest[l.Key] = latestJSON{l.Value, l.TS, l.Seq}
	}
	return e
}

func (s *Server) listEntities(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := limitParam(q, entity.MaxPageLimit)
	if err != nil {
		return err
	}
	list, next, err := s.runtime.Entities(r.Context(), entity.Page{After: q.Get("cursor"), Limit: limit, Search: q.Get("search")})
	if err != nil {
		return err
	}
	page := entityPageJSON{Entities: make([]entityJSON, len(list)), Next: next}
	for i := range list {
		page.Entities[i] = newEntityJSON(&list[i])
	}
	return writeJSON(w, page)
}

func (s *Server) getEntity(w http.ResponseWriter, r *http.Request) error {
	snapshot, err := s.runtime.Entity(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, newEntityJSON(&snapshot))
}
