package server

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// entityAPI reads and writes entities.
type entityAPI struct {
	runtime *entity.Runtime
	editor  *editor
	finder  *entityFinder
	encoder *entityEncoder
}

func (a *entityAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/entities", "listEntities", "List entities in the order of their ids.", a.list, needs(seesSome), answersMuch, fails(422)),
		op("POST", "/v1/entities", "postEntity", "Create an entity.", a.create, needs(writesSome), answers(201), fails(409, 422)),
		op("GET", "/v1/entities/{id}", "getEntity", "Read one entity, from its actor.", a.get, needs(seesEntity), fails(404)),
		op("PUT", "/v1/entities/{id}", "putEntity", "Replace an entity except its telemetry; relations only if they are given.", a.put, needs(writesEntity), answers(200, 201), fails(404, 409, 422, 428)),
		op("PATCH", "/v1/entities/{id}", "patchEntity", "Merge into the type and the sections of an entity.", a.patch, needs(writesEntity),
			accepts(maxBodyBytes, content{mediaMergePatch, entityPatch{}}), answers(200, 201), fails(404, 409, 422)),
		op("DELETE", "/v1/entities/{id}", "deleteEntity", "Delete an entity with its relations and its history.", a.remove, needs(writesEntity), fails(404)),
		op("POST", "/v1/entities/{id}/traverse", "traverse", "Find the entities that can be reached from an entity, nearest first.", a.traverse, needs(seesEntity), answersMuch, asks, fails(404, 422)),
		op("POST", "/v1/search", "postSearch", "Find entities by a filter that is too long for a URL, or count them.", a.search, needs(seesSome), answersMuch, asks, fails(422)),
	}
}

type entityPath struct {
	// The id of the entity.
	ID string `path:"id" minLength:"1" maxLength:"256" example:"room-1"`
}

// cursorParam is the position in a paged list.
type cursorParam struct {
	// The cursor from the previous page.
	Cursor string `query:"cursor" json:"cursor,omitempty"`
}

// entityJSON is an entity, with the requested parts.
type entityJSON struct {
	ID string `json:"id" example:"room-1"`
	// The id of its type; absent for none.
	Type string `json:"type,omitempty" example:"Room"`
	// The version of everything but the telemetry, for If-Match.
	ETag    string `json:"etag" example:"3k"`
	Created int64  `json:"created_ms" example:"1451606400000"`
	// The newest time of its readings.
	Updated int64 `json:"updated_ms" example:"1451649600512"`
	// Whether its device is online.
	Presence presenceJSON `json:"presence"`
	// The latest value of each key.
	Latest     map[string]latestJSON `json:"latest,omitempty" example:"{\"temperature\":{\"value\":21.5,\"ts\":1451649600512,\"seq\":3}}"`
	Attributes documentJSON          `json:"attributes,omitempty" example:"{\"floor\":2}"`
	Desired    documentJSON          `json:"desired,omitempty"`
	Reported   documentJSON          `json:"reported,omitempty"`
	// The parts of desired that differ from reported.
	Delta     documentJSON        `json:"delta,omitempty"`
	Metadata  *metadataJSON       `json:"metadata,omitempty"`
	Relations *relationCountsJSON `json:"relations,omitempty"`
	// The PID of its actor; absent while it has none.
	Actor string `json:"actor,omitempty" example:"greenroom/entities/room-1#17"`
}

// presenceJSON says whether the device of an entity is online.
type presenceJSON struct {
	// unknown means that it was never heard from.
	State string `json:"state" enum:"online,offline,unknown" example:"online"`
	// It has a connection, its own or that of a gateway.
	Connected bool `json:"connected"`
	// Since when it has had this state; absent if the state is unknown.
	Since int64 `json:"since_ms,omitempty" example:"1451649600512"`
	// When it was last heard from; absent for never.
	Seen int64 `json:"seen_ms,omitempty" example:"1451649660512"`
}

// originJSON says who computed a value; all of it is absent for a device's.
type originJSON struct {
	// The mapping that computed the value.
	Mapping string `json:"mapping,omitempty"`
	// The mapping that computed it.
	Source string `json:"source,omitempty"`
	// The source's number for it: the number of the change that caused it.
	SourceSeq uint64 `json:"source_seq,omitempty"`
}

// latestJSON is the latest value of a key.
type latestJSON struct {
	Value value.Value `json:"value"`
	// When it was measured.
	TS int64 `json:"ts" example:"1451649600512"`
	// The entity's number of the reading that brought it.
	Seq uint64 `json:"seq" example:"3"`
	originJSON
}

// relationCountsJSON is the number of relations by type.
type relationCountsJSON struct {
	Out map[string]int `json:"out"`
	In  map[string]int `json:"in"`
}

// entityPageJSON is a page of entities. It may have fewer entities than requested although there is
// a next page: if they are large, or with a filter, in which case it may even have none.
type entityPageJSON struct {
	Entities []entityJSON `json:"entities"`
	// How many entities match in total; only with count.
	Total *int64 `json:"total,omitempty"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

// entityPatch is what is merged into an entity.
type entityPatch struct {
	// The id of its type; null for none.
	Type typeRef `json:"type,omitzero" example:"\"Room\""`
	sectionsBody
}

type listEntitiesRequest struct {
	// The maximum number of entities to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	cursorParam
	// Only entities whose id contains this, in any case.
	Search string `query:"search" maxLength:"256" example:"room"`
	// Only entities of this type or one that extends it.
	Type string `query:"type" example:"Room"`
	// A filter; docs/filter.md has the language.
	Filter *string   `query:"q" example:"temperature > 20"`
	Fields fieldList `query:"fields" collectionFormat:"csv"`
}

func (a *entityAPI) list(ctx context.Context, in *listEntitiesRequest) (*answer[entityPageJSON], error) {
	f := in.Fields.or(fieldLatest)
	if in.Filter != nil || !callerOf(ctx).who.MayAll(access.Read) {
		return a.finder.find(ctx, &findQuery{filter: some(in.Filter), typ: in.Type, text: in.Search, cursor: in.Cursor, limit: in.Limit, fields: f})
	}
	list, next, err := a.runtime.Entities(ctx, entity.Page{After: in.Cursor, Limit: in.Limit, Search: in.Search, Type: in.Type})
	if err != nil {
		return nil, err
	}
	body := []byte(`{"entities":[`)
	for i := range list {
		if len(body) >= a.finder.bytes {
			next = pageCursor(list[i-1].ID)
			break
		}
		if body, err = a.encoder.append(ctx, appendComma(body, i), &list[i], f); err != nil {
			return nil, err
		}
	}
	return encoded[entityPageJSON](appendNext(append(body, ']'), next)), nil
}

// appendNext appends the end of an object, with the cursor of the next page if there is one.
func appendNext(dst []byte, next string) []byte {
	if next != "" {
		dst = append(dst, `,"next":`...)
		dst = value.String(next).AppendJSON(dst)
	}
	return append(dst, '}')
}

type getEntityRequest struct {
	entityPath
	ifChanged
	Fields fieldList `query:"fields" collectionFormat:"csv"`
}

// get returns an entity from its actor. Its ETag is the version for conditions, a dot, and a hash
// of the response, because telemetry changes without a new version.
func (a *entityAPI) get(ctx context.Context, in *getEntityRequest) (*answer[entityJSON], error) {
	snapshot, err := a.runtime.Entity(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	body, err := a.encoder.append(ctx, nil, &snapshot, in.Fields.or(allFields))
	if err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(body) // a hash does not fail
	return encoded[entityJSON](body).versioned(snapshot.ETag + "." + strconv.FormatUint(sum.Sum64(), 36)), nil
}

// entityEncoder encodes entities in the form of entityJSON. Encoding is a large part of the cost of
// a list, and encoding/json takes several times as long.
type entityEncoder struct{ runtime *entity.Runtime }

// append appends an entity.
func (x *entityEncoder) append(ctx context.Context, dst []byte, e *entity.Snapshot, f fields) ([]byte, error) {
	dst = append(dst, `{"id":`...)
	dst = value.String(e.ID).AppendJSON(dst)
	if e.Type != "" {
		dst = append(dst, `,"type":`...)
		dst = value.String(e.Type).AppendJSON(dst)
	}
	dst = append(dst, `,"etag":"`...)
	dst = append(dst, e.ETag...)
	dst = append(dst, `","created_ms":`...)
	dst = strconv.AppendInt(dst, e.Created, 10)
	dst = append(dst, `,"updated_ms":`...)
	dst = strconv.AppendInt(dst, e.Updated, 10)
	dst = e.Presence.AppendJSON(append(dst, `,"presence":`...))
	if f.has(fieldLatest) {
		dst = appendLatest(dst, e.Latest)
	}
	dst = appendSections(dst, e, f)
	if f.has(fieldRelations) {
		list, err := x.runtime.Relations(ctx, e.ID, entity.Both)
		if err != nil {
			return nil, err
		}
		counts, err := encodeJSON(countRelations(e.ID, list))
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, `,"relations":`...), counts...)
	}
	if e.Actor != "" {
		dst = append(dst, `,"actor":`...)
		dst = value.String(e.Actor).AppendJSON(dst)
	}
	return append(dst, '}'), nil
}

func appendLatest(dst []byte, list []entity.Latest) []byte {
	dst = append(dst, `,"latest":{`...)
	for i := range list {
		l := &list[i]
		dst = value.String(l.Key).AppendJSON(appendComma(dst, i))
		dst = append(dst, `:{"value":`...)
		dst = l.Value.AppendJSON(dst)
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, l.TS, 10)
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, l.Seq, 10)
		dst = append(appendOrigin(dst, l.Origin), '}')
	}
	return append(dst, '}')
}

// appendOrigin appends the members of originJSON.
func appendOrigin(dst []byte, o entity.Origin) []byte {
	if o.IsZero() {
		return dst
	}
	if name, _, ok := mappingOf(o); ok {
		dst = append(dst, `,"mapping":`...)
		dst = value.String(name).AppendJSON(dst)
	}
	dst = append(dst, `,"source":`...)
	dst = value.String(o.Source).AppendJSON(dst)
	dst = append(dst, `,"source_seq":`...)
	return strconv.AppendUint(dst, o.Seq, 10)
}

// mappingOf returns the mapping that has computed a value, and its version. The sources of package
// mapping are mapping:name@version, followed by :again for values that a late reading has changed.
func mappingOf(o entity.Origin) (name string, version int64, ok bool) {
	rest, ok := strings.CutPrefix(o.Source, "mapping:")
	if !ok {
		return "", 0, false
	}
	rest, _, _ = strings.Cut(rest, ":")
	name, text, ok := strings.Cut(rest, "@")
	version, err := strconv.ParseInt(text, 10, 64)
	return name, version, ok && err == nil
}

// appendSections appends the requested attribute documents, each as a member preceded by a comma.
func appendSections(dst []byte, e *entity.Snapshot, f fields) []byte {
	desired, reported := e.Section(entity.Desired), e.Section(entity.Reported)
	sections := []struct {
		field  fields
		leaves []entity.Attribute
	}{
		{fieldAttributes, e.Section(entity.Attributes)},
		{fieldDesired, desired},
		{fieldReported, reported},
		{fieldDelta, entity.Delta(desired, reported)},
	}
	for i, s := range sections {
		if f.has(s.field) {
			dst = append(append(dst, `,"`...), fieldNames[i+1]...)
			dst = entity.AppendAttributes(append(dst, `":`...), s.leaves)
		}
	}
	if !f.has(fieldMetadata) {
		return dst
	}
	dst = append(dst, `,"metadata":{`...)
	for i, s := range sections {
		dst = append(append(appendComma(dst, i), '"'), fieldNames[i+1]...)
		dst = entity.AppendTimes(append(dst, `":`...), s.leaves)
	}
	return append(dst, '}')
}

// countRelations counts the edges of an entity by type.
func countRelations(id string, list []entity.Relation) relationCountsJSON {
	counts := relationCountsJSON{Out: make(map[string]int), In: make(map[string]int)}
	for i := range list {
		if list[i].From == id {
			counts.Out[list[i].Type]++
		}
		if list[i].To == id {
			counts.In[list[i].Type]++
		}
	}
	return counts
}

// snapshotOf copies what the fields need from a view.
func snapshotOf(v entity.View, f fields) entity.Snapshot {
	e := entity.Snapshot{ID: v.ID(), Type: v.Type(), ETag: v.ETag(), Created: v.Created(), Updated: v.Updated(), Presence: v.Presence()}
	if f.has(fieldLatest) {
		for l := range v.EachLatest() {
			e.Latest = append(e.Latest, l)
		}
		slices.SortFunc(e.Latest, func(a, b entity.Latest) int { return strings.Compare(a.Key, b.Key) })
	}
	if f.has(fieldAttributes | fieldDesired | fieldReported | fieldDelta | fieldMetadata) {
		for section := entity.Attributes; section <= entity.Reported; section++ {
			for a := range v.EachAttribute(section) {
				e.Attributes = append(e.Attributes, entity.StoredAttribute{Section: section, Attribute: a})
			}
		}
	}
	return e
}

// pageCursor and pageAfter encode and decode the cursor of a list that is sorted by a string.
func pageCursor(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

func pageAfter(cursor string) (string, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !utf8.Valid(after) {
		return "", problemf(http.StatusBadRequest, "cursor must be the next of an answer, not %q", shorten(cursor, 64))
	}
	return string(after), nil
}
