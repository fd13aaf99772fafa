package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// Limits of a request for several entities.
const (
	maxNamedEntities = 1000
	maxFoundEntities = 10_000
	maxHistoryKeys   = 64
	maxGroupBy       = 8
	// maxAllBuckets bounds the buckets of all series in a response, and those of the members of a
	// group before they are combined.
	maxAllBuckets = 1_000_000
)

// manyHistoryAPI reads the histories of several entities together.
type manyHistoryAPI struct {
	runtime *entity.Runtime
	finder  *search.Finder
	reader  *historyReader
}

func (a *manyHistoryAPI) operations() []operation {
	return []operation{
		op("POST", "/v1/history", "postHistory", "Read the history of several entities, grouped and combined.", a.post, needs(seesSome), answersMuch, asks, fails(404, 422)),
	}
}

type manyHistoryRequest struct{ Body historyBody }

// historyBody asks for the history of several entities.
type historyBody struct {
	// The ids of the entities; by default filter or type selects them.
	Entities []string `json:"entities,omitempty" maxItems:"1000"`
	// docs/filter.md has the language; the empty filter matches all.
	Filter *string `json:"filter,omitempty" example:"attributes.building = 'A'"`
	// Only entities of this type or one that extends it.
	Type string   `json:"type,omitempty"`
	Keys []string `json:"keys" minItems:"1" maxItems:"64" example:"[\"temperature\"]"`
	timeRange
	// The aggregates of each step: avg, min, max, sum, count, first, last, rate and percentiles such as p95.
	Agg []string `json:"agg,omitempty" example:"[\"avg\"]"`
	// The length of a step, as in the history of one key.
	Step string `json:"step,omitempty" example:"1h"`
	// The time zone of a step of the calendar.
	TZ string `json:"tz,omitempty"`
	// What to put into buckets without a number: none, null, previous, linear or a number.
	Fill string `json:"fill,omitempty"`
	// entity, key, type, or paths such as attributes.building; by default entity and key.
	GroupBy []string `json:"group_by,omitempty" maxItems:"8" example:"[\"attributes.room\"]"`
	// How the members of a group are combined; pool counts their values together.
	Combine string `json:"combine,omitempty" enum:"pool,sum,avg,min,max"`
	// Instead of agg: reduce each series to this many points, for a chart.
	Points int `json:"points,omitempty" minimum:"2" maximum:"10000"`
}

// seriesListJSON is the history of several entities.
type seriesListJSON struct {
	gridJSON
	// A series for each group.
	Series []groupJSON `json:"series"`
}

// groupJSON is the series of a group.
type groupJSON struct {
	// What the group has in common, by the names of group_by; null for missing values.
	Group map[string]any `json:"group"`
	// How many entities are in it.
	Entities int `json:"entities" example:"3"`
	// How many numbers there are; only with points.
	Total *int `json:"total,omitempty"`
	// Only with agg.
	Buckets []bucketJSON `json:"buckets,omitempty"`
	// Only with points.
	Points []pointJSON `json:"points,omitempty"`
}

func (b *historyBody) check() error {
	switch {
	case len(b.Keys) == 0 || len(b.Keys) > maxHistoryKeys:
		return problemf(http.StatusBadRequest, "keys must have 1 to %d names, not %d", maxHistoryKeys, len(b.Keys))
	case len(b.Entities) == 0 && b.Filter == nil && b.Type == "":
		return problemf(http.StatusBadRequest, "the body must have entities, filter or type")
	case len(b.Entities) > 0 && (b.Filter != nil || b.Type != ""):
		return problemf(http.StatusBadRequest, "entities must not be given with filter or type")
	case len(b.Entities) > maxNamedEntities:
		return problemf(http.StatusBadRequest, "entities must have at most %d ids, not %d", maxNamedEntities, len(b.Entities))
	case len(b.GroupBy) > maxGroupBy:
		return problemf(http.StatusBadRequest, "group_by must have at most %d names, not %d", maxGroupBy, len(b.GroupBy))
	case len(b.Agg) == 0 && b.Points == 0:
		return problemf(http.StatusBadRequest, "the body must have agg or points")
	case len(b.Agg) > 0 && b.Points != 0:
		return problemf(http.StatusBadRequest, "agg must not be given with points")
	case b.Points != 0 && (b.Points < 2 || b.Points > maxDownsampled):
		return problemf(http.StatusBadRequest, "points must be an integer from 2 to %d, not %d", maxDownsampled, b.Points)
	case b.Points != 0 && (b.GroupBy != nil || b.Combine != "" || b.Step != "" || b.TZ != "" || b.Fill != ""):
		return problemf(http.StatusBadRequest, "group_by, combine, step, tz and fill need agg: points are those of one entity and key")
	}
	return nil
}

// across contains the ways to combine the members of a group, except for "pool".
var across = []series.Func{series.Sum, series.Avg, series.Min, series.Max}

// member is a series of the response, or of a group in it.
type member struct {
	id, key string
	group   []byte // the values that it is grouped by, as a JSON object
}

// post returns the history of several entities.
func (a *manyHistoryAPI) post(ctx context.Context, in *manyHistoryRequest) (*answer[seriesListJSON], error) {
	b := &in.Body
	if err := b.check(); err != nil {
		return nil, err
	}
	from, to, err := b.bounds()
	if err != nil {
		return nil, err
	}
	members, err := a.members(ctx, b)
	if err != nil {
		return nil, err
	}
	var body []byte
	if b.Points != 0 {
		body, err = a.appendDownsampled(ctx, members, from, to, b.Points)
	} else {
		body, err = a.appendGroups(ctx, b, members, from, to)
	}
	if err != nil {
		return nil, err
	}
	return encoded[seriesListJSON](append(body, "]}"...)), nil
}

// members returns the series, and the values that they are grouped by.
func (a *manyHistoryAPI) members(ctx context.Context, b *historyBody) ([]member, error) {
	by, err := groupPaths(b.GroupBy)
	if err != nil {
		return nil, err
	}
	var list []member
	entities := 0
	take := func(v entity.View) bool {
		if entities++; entities > maxFoundEntities {
			return false
		}
		for _, key := range b.Keys {
			if _, ok := v.Latest(key); ok {
				list = append(list, member{v.ID(), key, appendGroup(nil, by, v, key)})
			}
		}
		return true
	}
	if len(b.Entities) > 0 {
		for _, id := range b.Entities {
			if err := callerOf(ctx).who.May(ctx, a.runtime, access.Read, id); err != nil {
				return nil, err
			}
		}
		ids := slices.Compact(slices.Sorted(slices.Values(b.Entities)))
		if err := a.runtime.Scan(ctx, entity.ListQuery{IDs: ids}, take); err != nil {
			return nil, err
		}
		if entities < len(ids) {
			return nil, a.whichIsMissing(ctx, ids)
		}
		return list, nil
	}
	f, _, err := visible(ctx, some(b.Filter))
	if err != nil {
		return nil, err
	}
	err = a.finder.Each(ctx, search.Query{Filter: f, Type: b.Type}, func(v entity.View, matched bool) bool { return !matched || take(v) })
	if err == nil && entities > maxFoundEntities {
		err = problemf(http.StatusUnprocessableEntity, "the filter must match at most %d entities", maxFoundEntities)
	}
	return list, err
}

func (a *manyHistoryAPI) whichIsMissing(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := mustExist(ctx, a.runtime, id); err != nil {
			return err
		}
	}
	return nil // they were created meanwhile
}

// groupPath is a value that series are grouped by.
type groupPath struct {
	name string
	path filter.Path
	key  bool
}

// groupPaths parses group_by: key, or paths as in a filter.
func groupPaths(names []string) ([]groupPath, error) {
	if names == nil {
		names = []string{"entity", "key"}
	}
	var list []groupPath
	for _, name := range names {
		g := groupPath{name: name}
		document, rest, deeper := strings.Cut(name, ".")
		root := map[string]filter.Root{"attributes": filter.RootAttributes, "desired": filter.RootDesired, "reported": filter.RootReported}[document]
		switch {
		case name == "key":
			g.key = true
		case name == "entity":
			g.path.Root = filter.RootID
		case name == "type":
			g.path.Root = filter.RootType
		case root != 0 && deeper:
			g.path = filter.Path{Root: root, Name: entity.Pointer(strings.Split(rest, ".")...)}
		default:
			return nil, problemf(http.StatusBadRequest, "group_by must be entity, key, type or paths such as attributes.building, not %q", shorten(name, 64))
		}
		list = append(list, g)
	}
	return list, nil
}

// appendGroup appends the values that a series is grouped by; null for missing values.
func appendGroup(dst []byte, by []groupPath, v entity.View, key string) []byte {
	dst = append(dst, '{')
	for i := range by {
		g := &by[i]
		dst = append(value.String(g.name).AppendJSON(appendComma(dst, i)), ':')
		switch {
		case g.key:
			dst = value.String(key).AppendJSON(dst)
		case g.path.Root == filter.RootID:
			dst = value.String(v.ID()).AppendJSON(dst)
		case g.path.Root == filter.RootType && v.Type() != "":
			dst = value.String(v.Type()).AppendJSON(dst)
		default:
			section, _ := entityview.Section(g.path.Root)
			a, _ := v.Attribute(section, g.path.Name)
			dst = a.Value.AppendJSON(dst)
		}
	}
	return append(dst, '}')
}

// appendDownsampled appends the points of each series, up to the end of the array.
func (a *manyHistoryAPI) appendDownsampled(ctx context.Context, members []member, from, to int64, n int) ([]byte, error) {
	body := []byte(`{"series":[`)
	if len(members)*n > maxAllBuckets {
		return nil, tooManyBuckets(len(members))
	}
	for i := range members {
		m := &members[i]
		points, total, err := a.reader.downsampled(ctx, m.id, m.key, from, to, n)
		if err != nil {
			return nil, err
		}
		body = append(append(appendComma(body, i), `{"group":`...), m.group...)
		body = strconv.AppendInt(append(body, `,"entities":1,"total":`...), int64(total), 10)
		body = append(appendPoints(body, points), '}')
	}
	return body, nil
}

func tooManyBuckets(members int) error {
	return problemf(http.StatusUnprocessableEntity, "the answer needs more than %d buckets or points of %d series; ask for a longer step, a shorter range or fewer entities", maxAllBuckets, members)
}

// appendGroups appends the buckets of each group, up to the end of the array.
func (a *manyHistoryAPI) appendGroups(ctx context.Context, b *historyBody, members []member, from, to int64) ([]byte, error) {
	asked, err := aggregationParam(strings.Join(b.Agg, ","), b.Step, b.TZ, b.Fill, from, to)
	if err != nil {
		return nil, err
	}
	if b.Combine != "" && b.Combine != "pool" && !slices.Contains(across, series.Func(b.Combine)) {
		return nil, problemf(http.StatusBadRequest, "combine must be pool, sum, avg, min or max, not %q", shorten(b.Combine, 32))
	}
	g := grouper{reader: a.reader.open(ctx, &asked), across: series.Func(b.Combine)}
	if err := g.plan(members); err != nil {
		return nil, err
	}
	body := asked.appendGrid([]byte(`{`), nil)
	if len(body) > 1 {
		body = append(body[:1], body[2:]...) // without the comma before the first member
		body = append(body, ',')
	}
	body = append(body, `"series":[`...)
	for i, name := range g.names {
		body = append(append(appendComma(body, i), `{"group":`...), name...)
		body = strconv.AppendInt(append(body, `,"entities":`...), int64(g.entities(name)), 10)
		body = append(body, `,"buckets":[`...)
		list, err := g.buckets(name)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", shorten(name, 200), err)
		}
		buckets := 0
		for bucket, err := range list {
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", shorten(name, 200), err)
			}
			body = asked.appendBucket(appendComma(body, buckets), &bucket)
			buckets++
		}
		body = append(body, "]}"...)
	}
	return body, nil
}
