package server

import (
	"context"
	"encoding/json"
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
)

// Limits of a question for several entities.
const (
	maxNamedEntities = 1000
	maxFoundEntities = 10_000
	maxHistoryKeys   = 64
	maxGroupBy       = 8
	// maxAllBuckets bounds the buckets of all series of an answer together, and
	// those of the members of a group before they are combined.
	maxAllBuckets = 1_000_000
)

// historyBody is a question for the history of several entities.
type historyBody struct {
	Entities []string        `json:"entities"`
	Filter   *string         `json:"filter"`
	Type     string          `json:"type"`
	Keys     []string        `json:"keys"`
	From     json.RawMessage `json:"from"`
	To       json.RawMessage `json:"to"`
	Agg      []string        `json:"agg"`
	Step     string          `json:"step"`
	TZ       string          `json:"tz"`
	Fill     string          `json:"fill"`
	GroupBy  []string        `json:"group_by"`
	Combine  string          `json:"combine"`
	Points   int             `json:"points"`
}

func (b *historyBody) check() error {
	switch {
	case len(b.Keys) == 0 || len(b.Keys) > maxHistoryKeys:
		return problemf(http.StatusBadRequest, "keys has %d names; 1 to %d are right", len(b.Keys), maxHistoryKeys)
	case len(b.Entities) == 0 && b.Filter == nil && b.Type == "":
		return problemf(http.StatusBadRequest, "entities, filter or type says of which entities; none is there")
	case len(b.Entities) > 0 && (b.Filter != nil || b.Type != ""):
		return problemf(http.StatusBadRequest, "entities does not go with filter and type")
	case len(b.Entities) > maxNamedEntities:
		return problemf(http.StatusBadRequest, "entities has %d ids; at most %d are allowed", len(b.Entities), maxNamedEntities)
	case len(b.GroupBy) > maxGroupBy:
		return problemf(http.StatusBadRequest, "group_by has %d names; at most %d are allowed", len(b.GroupBy), maxGroupBy)
	case len(b.Agg) == 0 && b.Points == 0:
		return problemf(http.StatusBadRequest, "agg or points says what is made of the values; none is there")
	case len(b.Agg) > 0 && b.Points != 0:
		return problemf(http.StatusBadRequest, "agg does not go with points")
	case b.Points != 0 && (b.Points < 2 || b.Points > maxDownsampled):
		return problemf(http.StatusBadRequest, "points is %d; 2 to %d is right", b.Points, maxDownsampled)
	case b.Points != 0 && (b.GroupBy != nil || b.Combine != "" || b.Step != "" || b.TZ != "" || b.Fill != ""):
		return problemf(http.StatusBadRequest, "points are those of one entity and key; group_by, combine, step, tz and fill go with agg")
	}
	return nil
}

// across are the ways to combine the members of a group but for "pool".
var across = []series.Func{series.Sum, series.Avg, series.Min, series.Max}

// member is one series of the answer, or of a group of it.
type member struct {
	id, key string
	group   []byte // the values that it is grouped by, as a JSON object
}

// postHistory answers with the history of several entities.
func (s *Server) postHistory(w http.ResponseWriter, r *http.Request) error {
	var b historyBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	from, to, err := rangeMembers(b.From, b.To)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	members, err := s.members(ctx, &b)
	if err != nil {
		return err
	}
	var body []byte
	if b.Points != 0 {
		body, err = s.appendDownsampled(ctx, members, from, to, b.Points)
	} else {
		body, err = s.appendGroups(ctx, &b, members, from, to)
	}
	if err != nil {
		return err
	}
	writeBody(w, append(body, "]}\n"...))
	return nil
}

// members finds the series and what each is grouped by.
func (s *Server) members(ctx context.Context, b *historyBody) ([]member, error) {
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
		ids := slices.Compact(slices.Sorted(slices.Values(b.Entities)))
		if err := s.runtime.Scan(ctx, entity.ListQuery{IDs: ids}, take); err != nil {
			return nil, err
		}
		if entities < len(ids) {
			return nil, s.whichIsMissing(ctx, ids)
		}
		return list, nil
	}
	text := ""
	if b.Filter != nil {
		text = *b.Filter
	}
	f, err := parseFilter(text)
	if err != nil {
		return nil, err
	}
	err = s.finder.Each(ctx, search.Query{Filter: f, Type: b.Type}, func(v entity.View, matched bool) bool { return !matched || take(v) })
	if err == nil && entities > maxFoundEntities {
		err = problemf(http.StatusUnprocessableEntity, "the filter finds more than %d entities; a narrower one is right", maxFoundEntities)
	}
	return list, err
}

func (s *Server) whichIsMissing(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.mustExist(ctx, id); err != nil {
			return err
		}
	}
	return nil // they have come to be since
}

// groupPath is one thing that series are grouped by.
type groupPath struct {
	name string
	path filter.Path
	key  bool
}

// groupPaths reads group_by: key, or a path as a filter has it.
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
			return nil, problemf(http.StatusBadRequest, "group_by has %q; entity, key, type and paths such as attributes.building are right", shorten(name, 64))
		}
		list = append(list, g)
	}
	return list, nil
}

// appendGroup appends what a series is grouped by; null for what is not there.
func appendGroup(dst []byte, by []groupPath, v entity.View, key string) []byte {
	dst = append(dst, '{')
	for i := range by {
		g := &by[i]
		dst = append(entity.String(g.name).AppendJSON(appendComma(dst, i)), ':')
		switch {
		case g.key:
			dst = entity.String(key).AppendJSON(dst)
		case g.path.Root == filter.RootID:
			dst = entity.String(v.ID()).AppendJSON(dst)
		case g.path.Root == filter.RootType && v.Type() != "":
			dst = entity.String(v.Type()).AppendJSON(dst)
		default:
			section, _ := entityview.Section(g.path.Root)
			a, _ := v.Attribute(section, g.path.Name)
			dst = a.Value.AppendJSON(dst)
		}
	}
	return append(dst, '}')
}

// appendDownsampled appends the points of each series, up to the end of the array.
func (s *Server) appendDownsampled(ctx context.Context, members []member, from, to int64, n int) ([]byte, error) {
	body := []byte(`{"series":[`)
	if len(members)*n > maxAllBuckets {
		return nil, tooManyBuckets(len(members))
	}
	for i := range members {
		m := &members[i]
		points, total, err := s.downsampled(ctx, m.id, m.key, from, to, n)
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
	return problemf(http.StatusUnprocessableEntity, "the answer would be made of more than %d buckets or points of %d series; a longer step, a shorter range or fewer entities is right", maxAllBuckets, members)
}

// appendGroups appends the buckets of each group, up to the end of the array.
func (s *Server) appendGroups(ctx context.Context, b *historyBody, members []member, from, to int64) ([]byte, error) {
	a, err := aggregationParam(strings.Join(b.Agg, ","), b.Step, b.TZ, b.Fill, from, to)
	if err != nil {
		return nil, err
	}
	if b.Combine != "" && b.Combine != "pool" && !slices.Contains(across, series.Func(b.Combine)) {
		return nil, problemf(http.StatusBadRequest, "combine is %q; pool, sum, avg, min or max is right", shorten(b.Combine, 32))
	}
	g := grouper{reader: s.newSeriesReader(ctx, &a), across: series.Func(b.Combine)}
	if err := g.plan(members); err != nil {
		return nil, err
	}
	body := a.appendGrid([]byte(`{`), nil)
	if len(body) > 1 {
		body = append(body[:1], body[2:]...) // without the comma before the first member
		body = append(body, ',')
	}
	body = append(body, `"series":[`...)
	n := 0
	for _, name := range g.names {
		body = append(append(appendComma(body, n), `{"group":`...), name...)
		body = strconv.AppendInt(append(body, `,"entities":`...), int64(g.entities(name)), 10)
		body = append(body, `,"buckets":[`...)
		buckets := 0
		for bucket, err := range g.buckets(name) {
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", shorten(name, 200), err)
			}
			body = a.appendBucket(appendComma(body, buckets), &bucket)
			buckets++
		}
		body = append(body, "]}"...)
		n++
	}
	return body, nil
}
