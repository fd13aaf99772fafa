package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// traverseBody selects the entities to reach from one.
type traverseBody struct {
	Direction string `json:"direction,omitempty" enum:"out,in,both" default:"out" example:"out"`
	// The types of the relations to follow; all if empty.
	Types []string `json:"types,omitempty" example:"[\"contains\"]"`
	// How many relations to follow one after the other.
	Depth int `json:"depth,omitempty" minimum:"1" maximum:"64" example:"3"`
	// The maximum number of entities to return.
	Limit int `json:"limit,omitempty" minimum:"1" maximum:"100000" example:"100"`
	// A filter for the entities in the answer.
	Match string `json:"match,omitempty" example:"type = 'Sensor'"`
	// A filter for the entities from which the traversal continues.
	Through string `json:"through,omitempty"`
	// A condition on the properties of a relation, such as relation.since > 2020.
	Edge string `json:"edge,omitempty" example:"relation.since > 2020"`
	// The parts of the entities to return; by default none.
	Fields fieldList `json:"fields,omitzero"`
}

type traverseRequest struct {
	entityPath
	Body traverseBody
}

// reachedListJSON is what a traversal has reached, nearest first.
type reachedListJSON struct {
	Reached []reachedJSON `json:"reached"`
	// There are more than the limit.
	More bool `json:"more"`
}

// reachedJSON is an entity that a traversal has reached.
type reachedJSON struct {
	ID string `json:"id" example:"sensor-1"`
	// How many relations lead to it.
	Depth int `json:"depth" example:"1"`
	// The relation by which it was reached; absent for the first.
	By *relationJSON `json:"by,omitempty"`
	// Absent if no fields were requested.
	Entity *entityJSON `json:"entity,omitempty"`
}

// traverse returns the entities that can be reached from one.
func (a *entityAPI) traverse(ctx context.Context, in *traverseRequest) (*answer[reachedListJSON], error) {
	b := &in.Body
	t := entity.Traversal{From: in.ID, Types: b.Types, Depth: b.Depth, Limit: b.Limit}
	var err error
	if b.Direction != "" {
		if t.Direction, err = parseDirection(b.Direction); err != nil {
			return nil, err
		}
	}
	check, err := a.walkFilters(ctx, &t, b)
	if err != nil {
		return nil, err
	}
	reached, more, err := a.runtime.Traverse(ctx, t)
	if cerr := check(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	return a.encodeReached(ctx, reached, more, &b.Fields)
}

// walkFilters sets the filters of a traversal. After the traversal, check returns the error of
// evaluating them.
func (a *entityAPI) walkFilters(ctx context.Context, t *entity.Traversal, b *traverseBody) (check func() error, err error) {
	var used []*search.Matcher
	var parsed []*filter.Filter
	compile := func(text string) (func(entity.View) bool, error) {
		if text == "" {
			return nil, nil //nolint:nilnil // no filter
		}
		f, err := filter.Parse(text)
		if err != nil {
			return nil, err
		}
		m := search.NewMatcher(a.runtime, f)
		used, parsed = append(used, m), append(parsed, f)
		return func(v entity.View) bool { return m.Match(ctx, v) }, nil
	}
	if t.Match, err = compile(b.Match); err != nil {
		return nil, err
	}
	if t.Through, err = compile(b.Through); err != nil {
		return nil, err
	}
	if who := callerOf(ctx).who; !who.MayAll(access.Read) {
		for _, f := range parsed {
			if d := f.Depends(); d.Related || d.Relations {
				return nil, fmt.Errorf("%w: %w", access.ErrForbidden, errRelated)
			}
		}
		t.Match, t.Through = seen(who, t.Match), seen(who, t.Through)
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

// seen restricts a condition to the entities that a principal may read. If the traversal only
// passes through those, both ends of every relation on the way are visible.
func seen(who *access.Principal, condition func(entity.View) bool) func(entity.View) bool {
	return func(v entity.View) bool { return who.Covers(access.Read, v) && (condition == nil || condition(v)) }
}

// edgePrefix and edgeSuffix turn a condition about an edge into a filter: the language has
// properties of relations only within related.
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
		return nil, err
	}
	for _, p := range f.Paths() {
		if p.Root != filter.RootRelation {
			return nil, problemf(http.StatusBadRequest, "edge must be about properties of the relation, such as relation.since, not %v", *p)
		}
	}
	now := time.Now().UnixMilli()
	return func(r entity.Relation) bool {
		return f.Match(edgeView{properties: r.Properties}, &filter.Env{Now: now})
	}, nil
}

// edgeView is an edge, as seen by a filter.
type edgeView struct{ properties value.Value }

// Lookup returns a property.
func (v edgeView) Lookup(p *filter.Path) (value.Value, bool) {
	if p.Root != filter.RootRelation {
		return value.Value{}, false
	}
	return value.At(v.properties.Text(), p.Name)
}

// Time returns false: an edge has no times.
func (v edgeView) Time(*filter.Path) (int64, bool) { return 0, false }

// Is returns false: an edge has no type.
func (v edgeView) Is(string) bool { return false }

// Related evaluates the condition on the edge itself.
func (v edgeView) Related(r *filter.Relation, e *filter.Env) bool { return r.Match(v, e) }

// reachedBytes is the approximate length of a member of the response.
const reachedBytes = 128

// encodeReached encodes the reached entities in the form of reachedListJSON, in their order.
func (a *entityAPI) encodeReached(ctx context.Context, reached []entity.Reached, more bool, wanted *fieldList) (*answer[reachedListJSON], error) {
	var entities map[string][]byte
	if wanted.given {
		var err error
		if entities, err = a.entitiesOf(ctx, reached, wanted.chosen); err != nil {
			return nil, err
		}
	}
	body := append(make([]byte, 0, reachedBytes*(len(reached)+1)), `{"reached":[`...)
	for i := range reached {
		x := &reached[i]
		body = append(appendComma(body, i), `{"id":`...)
		body = value.String(x.ID).AppendJSON(body)
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
	body = value.Bool(more).AppendJSON(append(body, `],"more":`...))
	return encoded[reachedListJSON](append(body, '}')), nil
}

// entitiesOf returns entities as JSON, by id.
func (a *entityAPI) entitiesOf(ctx context.Context, reached []entity.Reached, f fields) (map[string][]byte, error) {
	list := make(map[string][]byte, len(reached))
	for part := range slices.Chunk(reached, entity.MaxPageLimit) {
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = part[i].ID
		}
		var aerr error
		err := a.runtime.Scan(ctx, entity.ListQuery{IDs: ids}, func(v entity.View) bool {
			snapshot := snapshotOf(v, f)
			list[v.ID()], aerr = a.encoder.append(ctx, make([]byte, 0, 2*reachedBytes), &snapshot, f)
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
	dst = value.String(r.From).AppendJSON(dst)
	dst = append(dst, `,"type":`...)
	dst = value.String(r.Type).AppendJSON(dst)
	dst = append(dst, `,"to":`...)
	dst = value.String(r.To).AppendJSON(dst)
	if r.Properties.Kind() != 0 {
		dst = append(dst, `,"properties":`...)
		dst = r.Properties.AppendJSON(dst)
	}
	return append(dst, '}')
}
