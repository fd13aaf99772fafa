package server

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/mqtt"
	"github.com/greenroom-go/greenroom/server/script"
)

// transferAPI exports and imports data.
type transferAPI struct {
	runtime  *entity.Runtime
	mappings *mapping.Service
	scripts  *script.Service
	book     *access.Book
	alarms   *alarm.Service
	finder   *search.Finder
	queries  *queryBook
	retainer *retention.Retainer
	broker   *mqtt.Broker
	serving  context.Context //nolint:containedctx // the server's own life
	log      *slog.Logger
}

func (a *transferAPI) operations() []operation {
	lines, table := content{mediaNDJSON, ""}, content{mediaCSV, ""}
	return []operation{
		rawOp("GET", "/v1/export", "export", "Export all data of one kind, one record a line.", a.export, needs(seesSome), takesLong, sends(lines, table, content{mediaParquet, ""}), fails(422)),
		rawOp("POST", "/v1/import", "importData", "Import what an export has written. Invalid lines are counted and skipped.", a.load, needs(writesAll),
			takesLong, accepts(0, lines, content{"application/ndjson", ""}, table, content{mediaJSON, ""}, content{mediaText, ""}), sends(content{mediaJSON, importedJSON{}})),
	}
}

// Kinds of data that can be exported or imported.
const (
	whatHistory   = "history"
	whatLatest    = "latest"
	whatEntities  = "entities"
	whatRelations = "relations"
	whatTypes     = "types"
	whatMappings  = "mappings"
	whatScripts   = "scripts"
	whatQueries   = "queries"
	whatRetention = "retention"
	whatAlarms    = "alarm-rules"
)

// exportFlush is how many bytes of an export are buffered before they are sent.
const exportFlush = 64 << 10

// Formats besides NDJSON.
const (
	formatCSV     = "csv"
	formatParquet = "parquet"
)

// About as many points, or bytes of text, are read at a time and then written. Nothing is sent while
// reading, because a slow client must not hold a connection of the store.
const (
	exportPoints = 1 << 16
	exportBytes  = 4 << 20
)

// exporter writes one export.
type exporter struct {
	*transferAPI
	ctx      context.Context //nolint:containedctx // of the export that it lives for
	in       *exportRequest
	from, to int64
	out      *bufio.Writer
	csv      *csv.Writer    // nil for another format
	parquet  *parquetWriter // nil for another format
	line     []byte
	page     int // exportPoints except in tests
}

type exportRequest struct {
	What string `query:"what" required:"true" enum:"history,latest,entities,relations,types,mappings,scripts,queries,retention,alarm-rules" example:"entities"`
	// csv is for history, latest and entities; parquet is for history.
	Format string `query:"format" enum:"ndjson,csv,parquet" default:"ndjson"`
	// A filter; docs/filter.md has the language. Not for types, mappings, scripts, queries, retention and alarm-rules.
	Filter string `query:"q"`
	// Only entities of this type or one that extends it. Not for types, mappings, scripts, queries,
	// retention and alarm-rules.
	Type string `query:"type"`
	// Only these entities; may be repeated. Not for types, mappings, scripts, queries, retention and
	// alarm-rules.
	Entities []string `query:"entity" collectionFormat:"multi"`
	// Only these keys; may be repeated. Only for history and latest.
	Keys []string `query:"key" collectionFormat:"multi"`
	// Only for history.
	timeRange
}

// export streams the requested data. An error after the first byte ends the connection: a partial
// export must not look complete.
func (a *transferAPI) export(w http.ResponseWriter, r *http.Request, in *exportRequest) error {
	rc := http.NewResponseController(w)
	ctx, end := a.serveLong(r.Context(), rc.SetWriteDeadline)
	defer end()
	x := &exporter{transferAPI: a, ctx: ctx, in: in, page: exportPoints}
	write, head, err := x.plan()
	if err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(&patientWriter{ctx, w, rc}, exportFlush)
	h := w.Header()
	h.Set("Content-Type", mediaNDJSON)
	switch {
	case in.Format == formatParquet:
		h.Set("Content-Type", mediaParquet)
		x.parquet = newParquetWriter(x.out)
	case head != nil:
		h.Set("Content-Type", mediaCSV+"; charset=utf-8")
		x.csv = csv.NewWriter(x.out)
		if err := x.csv.Write(head); err != nil {
			return err
		}
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err = write(); err == nil {
		err = x.end()
	}
	if err == nil {
		return nil
	}
	if x.ctx.Err() == nil {
		a.log.LogAttrs(x.ctx, slog.LevelWarn, "export interrupted", slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// end writes the remaining data.
func (x *exporter) end() error {
	if x.csv != nil {
		x.csv.Flush()
		if err := x.csv.Error(); err != nil {
			return err
		}
	}
	if x.parquet != nil {
		if err := x.parquet.Close(); err != nil {
			return err
		}
	}
	return x.out.Flush()
}

// patientWriter waits for a reader while it keeps reading and ctx has not ended.
type patientWriter struct {
	ctx context.Context //nolint:containedctx // of the request that it lives for
	w   io.Writer
	rc  *http.ResponseController
}

// Write writes each part within streamWriteTimeout.
func (p *patientWriter) Write(b []byte) (int, error) {
	err := inParts(p.ctx, b, func(part []byte) error {
		err := p.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
		if err == nil {
			err = p.ctx.Err() // after setting the deadline, so that serveLong's comes last
		}
		if err == nil {
			_, err = p.w.Write(part)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// unfit returns the name of a parameter that is not permitted for the requested kind of data, or
// "".
func (in *exportRequest) unfit() string {
	ofEntities := slices.Contains([]string{whatHistory, whatLatest, whatEntities, whatRelations}, in.What)
	ofKeys := in.What == whatHistory || in.What == whatLatest
	for _, p := range []struct {
		name       string
		given, fit bool
	}{
		{"q", in.Filter != "", ofEntities},
		{"type", in.Type != "", ofEntities},
		{"entity", in.Entities != nil, ofEntities},
		{"key", in.Keys != nil, ofKeys},
		{"from", in.From != "", in.What == whatHistory},
		{"to", in.To != "", in.What == whatHistory},
	} {
		if p.given && !p.fit {
			return p.name
		}
	}
	return ""
}

// plan returns how to write the requested data, and the header of a CSV.
func (x *exporter) plan() (write func() error, head []string, err error) {
	what := x.in.What
	setup := setupExports[what]
	one, head := x.ofEntity(what)
	if one == nil && setup == nil {
		return nil, nil, problemf(http.StatusBadRequest, "what must be history, latest, entities, relations, types, mappings, scripts, queries, retention or alarm-rules")
	}
	if name := x.in.unfit(); name != "" {
		return nil, nil, problemf(http.StatusBadRequest, "%s must not be given with what=%s", name, what)
	}
	if x.from, x.to, err = x.in.bounds(); err != nil {
		return nil, nil, err
	}
	switch {
	case x.in.Format == formatParquet && what != whatHistory:
		return nil, nil, problemf(http.StatusBadRequest, "format must be ndjson or csv for %s: only history has a form in Parquet", what)
	case x.in.Format != formatCSV:
		head = nil
	case head == nil:
		return nil, nil, problemf(http.StatusBadRequest, "format must be ndjson for %s, which has no form in CSV", what)
	}
	if setup != nil && what != whatTypes && !callerOf(x.ctx).who.MayAll(access.Read) {
		return nil, nil, fmt.Errorf("%w: %s are about all entities, and you may not read all", access.ErrForbidden, what)
	}
	if setup != nil {
		return func() error { return setup(x) }, nil, nil
	}
	f, _, err := visible(x.ctx, x.in.Filter)
	return func() error { return x.each(search.Query{Filter: f, Type: x.in.Type}, one) }, head, err
}

// ofEntity returns how to write the requested data of one entity, with the header of its CSV, or
// nil if the data is not about entities or has no CSV form.
func (x *exporter) ofEntity(what string) (write func(entity.View) error, head []string) {
	switch what {
	case whatHistory:
		return x.history, []string{"entity", "ts", "key", "value"}
	case whatLatest:
		return x.latest, []string{"entity", "ts", "key", "value"}
	case whatEntities:
		return x.entity, []string{"id", "type", "attributes", "desired", "reported"}
	case whatRelations:
		return x.relations, nil
	default:
		return nil, nil
	}
}

// each writes the requested data of all selected entities.
func (x *exporter) each(q search.Query, write func(entity.View) error) error {
	named := make(map[string]bool)
	for _, id := range x.in.Entities {
		named[id] = true
	}
	var failed error
	err := x.finder.Each(x.ctx, q, func(v entity.View, matched bool) bool {
		if matched && (len(named) == 0 || named[v.ID()]) {
			if failed = write(v); errors.Is(failed, entity.ErrNotFound) { // deleted since
				failed = nil
			}
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// keys returns the selected keys of an entity.
func (x *exporter) keys(v entity.View) []string {
	snapshot := snapshotOf(v, fieldLatest)
	var list []string
	for i := range snapshot.Latest {
		key := snapshot.Latest[i].Key
		if x.in.Keys == nil || slices.Contains(x.in.Keys, key) {
			list = append(list, key)
		}
	}
	return list
}

func (x *exporter) history(v entity.View) error {
	for _, key := range x.keys(v) {
		for from := x.from; from < x.to; {
			some, next, err := x.read(v.ID(), key, from)
			if err != nil {
				return err
			}
			for i := range some {
				if err := x.points(v.ID(), key, &some[i]); err != nil {
					return err
				}
			}
			from = next
		}
	}
	return nil
}

// read returns some points of a key from a time on, and the time from which there are more.
func (x *exporter) read(id, key string, from int64) (some []block.Columns, next int64, err error) {
	points, bytes, last := 0, 0, from
	next = x.to
	err = x.runtime.ScanHistory(x.ctx, entity.HistoryQuery{ID: id, Key: key, From: from, To: x.to}, func(c *entity.Chunk) error {
		enough := points >= x.page || bytes >= exportBytes
		if h := c.Header(); enough && h != nil && h.First > last {
			next = h.First
			return errEnough
		}
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		if enough && columns.TS[0] > last {
			next = columns.TS[0]
			return errEnough
		}
		some = append(some, columns.Clone())
		points, last = points+columns.Len(), columns.TS[columns.Len()-1]
		for _, text := range columns.Texts {
			bytes += len(text)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return some, next, err
}

// errEnough ends the reading of a part.
var errEnough = errors.New("enough was read")

// points writes points of a key of an entity.
func (x *exporter) points(id, key string, c *block.Columns) error {
	if x.parquet != nil {
		return x.parquet.write(id, key, c)
	}
	for i := range c.TS {
		if err := x.value(id, key, c.TS[i], c.Value(i)); err != nil {
			return err
		}
	}
	return nil
}

// value writes one value as a reading that can be imported again.
func (x *exporter) value(id, key string, ts int64, v value.Value) error {
	if x.csv != nil {
		return x.csv.Write([]string{id, strconv.FormatInt(ts, 10), key, v.String()})
	}
	x.line = value.String(id).AppendJSON(append(x.line[:0], `{"entity":`...))
	x.line = strconv.AppendInt(append(x.line, `,"ts":`...), ts, 10)
	x.line = value.String(key).AppendJSON(append(x.line, `,"values":{`...))
	x.line = append(v.AppendJSON(append(x.line, ':')), "}}\n"...)
	_, err := x.out.Write(x.line)
	return err
}

func (x *exporter) latest(v entity.View) error {
	for _, key := range x.keys(v) {
		l, _ := v.Latest(key)
		if err := x.value(v.ID(), key, l.TS, l.Value); err != nil {
			return err
		}
	}
	return nil
}

// entity writes an entity without its telemetry and relations.
func (x *exporter) entity(v entity.View) error {
	snapshot := snapshotOf(v, sectionFields)
	if x.csv != nil {
		record := []string{v.ID(), v.Type()}
		for section := entity.Attributes; section <= entity.Reported; section++ {
			record = append(record, string(entity.AppendAttributes(nil, snapshot.Section(section))))
		}
		return x.csv.Write(record)
	}
	x.line = value.String(v.ID()).AppendJSON(append(x.line[:0], `{"id":`...))
	if v.Type() != "" {
		x.line = value.String(v.Type()).AppendJSON(append(x.line, `,"type":`...))
	}
	x.line = appendSections(x.line, &snapshot, fieldAttributes|fieldDesired|fieldReported)
	_, err := x.out.Write(append(x.line, "}\n"...))
	return err
}

func (x *exporter) relations(v entity.View) error {
	for r := range v.Relations(entity.Out) {
		if !seesEnds(x.ctx, x.runtime, &r, r.From) {
			continue
		}
		x.line = append(appendRelation(x.line[:0], &r), '\n')
		if _, err := x.out.Write(x.line); err != nil {
			return err
		}
	}
	return nil
}
