package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
)

type traverseBody struct {
	Direction string   `json:"direction"`
	Types     []string `json:"types"`
	Depth     int      `json:"depth"`
	Limit     int      `json:"limit"`
	Match     string   `json:"match"`
	Through   string   `json:"through"`
	Edge      string   `json:"edge"`
	Fields    []string `json:"fields"`
}

// traverse answers with the entities that can be reached from one.
func (s *Server) traverse(w http.ResponseWriter, r *http.Request) error {
	var b traverseBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	t := entity.Traversal{From: r.PathValue("id"), Types: b.Types, Depth: b.Depth, Limit: b.Limit}
	var err error
	if b.Direction != "" {
		if t.Direction, err = parseDirection(b.Direction); err != nil {
			return err
		}
	}
	f, err := parseFields(b.Fields)
	if err != nil {
		return err
	}
	check, err := s.walkFilters(ctx, &t, &b)
	if err != nil {
		return err
	}
	reached, more, err := s.runtime.Traverse(ctx, t)
	if cerr := check(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return s.writeReached(ctx, w, reached, more, f, b.Fields != nil)
}

// walkFilters sets the filters of a traversal. check tells afterwards whether they
// could be evaluated.
func (s *Server) walkFilters(ctx context.Context, t *entity.Traversal, b *traverseBody) (check func() error, err error) {
	var used []*search.Matcher
	compile := func(text string) (func(entity.View) bool, error) {
		if text == "" {
			return nil, nil //nolint:nilnil // no filter
		}
		f, err := parseFilter(text)
		if err != nil {
			return nil, err
		}
		m := search.NewMatcher(s.runtime, f)
		used = append(used, m)
		return func(v entity.View) bool { return m.Match(ctx, v) }, nil
	}
	if t.Match, err = compile(b.Match); err != nil {
		return nil, err
	}
	if t.Through, err = compile(b.Through); err != nil {
		return nil, err
	}
	if b.Edge != "" {
		if t.Edge, err = edgeFilter(b.Edge); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, m := range used {
			if err := m.Err(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// edgePrefix and edgeSuffix make a condition about an edge a whole filter: the
// language has the properties of a relation only inside of related.
const (
	edgePrefix = "related any to ("
	edgeSuffix = ")"
)

// edgeFilter compiles a condition about the properties of an edge.
func edgeFilter(text string) (func(entity.Relation) bool, error) {
	f, err := filter.Parse(edgePrefix + text + edgeSuffix)
	if at, ok := errors.AsType[*filter.Error](err); ok {
		at.Offset -= len(edgePrefix)
		at.Column -= len(edgePrefix)
	}
	if err != nil {
		return nil, filterError(err)
	}
	for _, p := range f.Paths() {
		if p.Root != filter.RootRelation {
			return nil, problemf(http.StatusBadRequest, "edge looks at %v; the properties of the edge, such as relation.since, are what it can look at", *p)
		}
	}
	now := time.Now().UnixMilli()
	return func(r entity.Relation) bool {
		return f.Match(edgeView{properties: r.Properties}, &filter.Env{Now: now})
	}, nil
}

// edgeView is nothing but an edge to something that has its properties.
type edgeView struct{ properties entity.Value }

// Lookup returns a property.
func (v edgeView) Lookup(p *filter.Path) (filter.Value, bool) {
	if p.Root != filter.RootRelation {
		return filter.Value{}, false
	}
	return filter.JSONAt(v.properties.Text(), p.Name)
}

// Time knows of none.
func (v edgeView) Time(*filter.Path) (int64, bool) { return 0, false }

// Is knows no type.
func (v edgeView) Is(string) bool { return false }

// Related asks for the edge itself.
func (v edgeView) Related(r *filter.Relation, e *filter.Env) bool { return r.Match(v, e) }

// reachedBytes is about how long a member of the answer is.
const reachedBytes = 128

// writeReached answers with what was reached, in its order.
func (s *Server) writeReached(ctx context.Context, w http.ResponseWriter, reached []entity.Reached, more bool, f fields, whole bool) error {
	var entities map[string][]byte
	if whole {
		var err error
		if entities, err = s.entitiesOf(ctx, reached, f); err != nil {
			return err
		}
	}
	body := append(make([]byte, 0, reachedBytes*(len(reached)+1)), `{"reached":[`...)
	for i := range reached {
		x := &reached[i]
		body = append(appendComma(body, i), `{"id":`...)
		body = entity.String(x.ID).AppendJSON(body)
		body = append(body, `,"depth":`...)
		body = strconv.AppendInt(body, int64(x.Depth), 10)
		if x.Depth > 0 {
			body = append(body, `,"by":`...)
			body = appendRelation(body, &x.By)
		}
		if text, ok := entities[x.ID]; ok {
			body = append(append(body, `,"entity":`...), text...)
		}
		body = append(body, '}')
	}
	body = entity.Bool(more).AppendJSON(append(body, `],"more":`...))
	writeBody(w, append(body, "}\n"...))
	return nil
}

// entitiesOf returns entities as JSON, by id.
func (s *Server) entitiesOf(ctx context.Context, reached []entity.Reached, f fields) (map[string][]byte, error) {
	list := make(map[string][]byte, len(reached))
	for at := 0; at < len(reached); at += entity.MaxPageLimit {
		var ids []string
		for i := at; i < min(at+entity.MaxPageLimit, len(reached)); i++ {
			ids = append(ids, reached[i].ID)
		}
		var aerr error
		err := s.runtime.Scan(ctx, entity.ListQuery{IDs: ids}, func(v entity.View) bool {
			snapshot := snapshotOf(v, f)
			list[v.ID()], aerr = s.appendEntity(ctx, make([]byte, 0, 2*reachedBytes), &snapshot, f)
			return aerr == nil
		})
		if err != nil || aerr != nil {
			return nil, errors.Join(err, aerr)
		}
	}
	return list, nil
}

func appendRelation(dst []byte, r *entity.Relation) []byte {
	dst = append(dst, `{"from":`...)
	dst = entity.String(r.From).AppendJSON(dst)
	dst = append(dst, `,"type":`...)
	dst = entity.String(r.Type).AppendJSON(dst)
	dst = append(dst, `,"to":`...)
	dst = entity.String(r.To).AppendJSON(dst)
	if r.Properties.Kind() != 0 {
		dst = append(dst, `,"properties":`...)
		dst = r.Properties.AppendJSON(dst)
	}
	return append(dst, '}')
}
