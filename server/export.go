package server

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/search"
)

func (s *Server) transferRoutes() []route {
	return []route{
		{"GET", exportPattern, []string{"what", "format", "q", "type", "entity", "key", "from", "to"}, s.export},
		{"POST", importPattern, []string{"what", "format"}, s.importData},
	}
}

// Paths of what may take as long as there is data.
const (
	exportPattern = "/v1/export"
	importPattern = "/v1/import"
)

// What can be exported and imported.
const (
	whatHistory   = "history"
	whatLatest    = "latest"
	whatEntities  = "entities"
	whatRelations = "relations"
	whatTypes     = "types"
	whatMappings  = "mappings"
	whatQueries   = "queries"
	whatRetention = "retention"
)

// exportFlush is how much of an export is gathered before it is sent.
const exportFlush = 64 << 10

// exporter writes one export as it reads.
type exporter struct {
	server   *Server
	ctx      context.Context //nolint:containedctx // of the export that it lives for
	q        url.Values
	from, to int64
	out      *bufio.Writer
	csv      *csv.Writer // nil for NDJSON
	line     []byte
}

// export streams what is asked for. What goes wrong after the first byte ends the
// connection: half an export must not look like a whole one.
func (s *Server) export(w http.ResponseWriter, r *http.Request) error {
	rc := http.NewResponseController(w)
	ctx, end := s.serveLong(r.Context(), rc.SetWriteDeadline)
	defer end()
	x := &exporter{server: s, ctx: ctx, q: r.URL.Query()}
	write, head, err := x.plan()
	if err != nil {
		return err
	}
	x.out = bufio.NewWriterSize(&patientWriter{ctx, w, rc}, exportFlush)
	h := w.Header()
	h.Set("Content-Type", mediaNDJSON)
	if head != nil {
		h.Set("Content-Type", mediaCSV+"; charset=utf-8")
		x.csv = csv.NewWriter(x.out)
		if err := x.csv.Write(head); err != nil {
			return err
		}
	}
	if r.Method == http.MethodHead {
		return nil
	}
	err = write()
	if x.csv != nil {
		x.csv.Flush()
		if err == nil {
			err = x.csv.Error()
		}
	}
	if err == nil {
		err = x.out.Flush()
	}
	if err == nil {
		return nil
	}
	if x.ctx.Err() == nil {
		s.log.LogAttrs(x.ctx, slog.LevelWarn, "export broken off", slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// patientWriter waits for a reader as long as that goes on reading, and ctx lasts.
type patientWriter struct {
	ctx context.Context //nolint:containedctx // of the request that it lives for
	w   io.Writer
	rc  *http.ResponseController
}

// Write writes within streamWriteTimeout.
func (p *patientWriter) Write(b []byte) (int, error) {
	if err := p.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil {
		return 0, err
	}
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// exportNames are the parameters that go with only some of what can be exported.
var exportNames = map[string][]string{
	"q":      {whatHistory, whatLatest, whatEntities, whatRelations},
	"type":   {whatHistory, whatLatest, whatEntities, whatRelations},
	"entity": {whatHistory, whatLatest, whatEntities, whatRelations},
	"key":    {whatHistory, whatLatest},
	"from":   {whatHistory},
	"to":     {whatHistory},
}

// plan finds out how what is asked for is written, and the head of a CSV.
func (x *exporter) plan() (write func() error, head []string, err error) {
	what, format := x.q.Get("what"), x.q.Get("format")
	asCSV := format == "csv"
	if !asCSV && format != "" && format != "ndjson" {
		return nil, nil, problemf(http.StatusBadRequest, "format=%s is not possible; ndjson or csv is right", shorten(format, 32))
	}
	setup := setupExports[what]
	one, head := x.ofEntity(what)
	if one == nil && setup == nil {
		return nil, nil, problemf(http.StatusBadRequest, "what=%s is not possible; history, latest, entities, relations, types, mappings, queries or retention is right", shorten(what, 32))
	}
	for name, with := range exportNames {
		if x.q.Has(name) && !slices.Contains(with, what) {
			return nil, nil, problemf(http.StatusBadRequest, "%s does not go with what=%s", name, what)
		}
	}
	if x.from, x.to, err = rangeParam(x.q); err != nil {
		return nil, nil, err
	}
	if !asCSV {
		head = nil
	} else if head == nil {
		return nil, nil, problemf(http.StatusBadRequest, "what=%s has no form in CSV; format=ndjson is right", what)
	}
	if setup != nil {
		return func() error { return setup(x) }, nil, nil
	}
	sel, err := x.selection()
	return func() error { return x.each(sel, one) }, head, err
}

// ofEntity returns what writes what is asked for of one entity, with the head of its
// CSV; nil where something else is asked for, or it has no CSV.
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

func (x *exporter) selection() (search.Query, error) {
	f, err := parseFilter(x.q.Get("q"))
	return search.Query{Filter: f, Type: x.q.Get("type")}, err
}

// each writes what is asked for of all entities that are meant.
func (x *exporter) each(sel search.Query, write func(entity.View) error) error {
	named := make(map[string]bool)
	for _, id := range x.q["entity"] {
		named[id] = true
	}
	var failed error
	err := x.server.finder.Each(x.ctx, sel, func(v entity.View, matched bool) bool {
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

func (x *exporter) types() error {
	for _, t := range x.server.runtime.Types() {
		if err := x.json(t.Type); err != nil {
			return err
		}
	}
	return nil
}

// keys are the keys of an entity that are meant.
func (x *exporter) keys(v entity.View) []string {
	snapshot := snapshotOf(v, fieldLatest)
	var list []string
	for i := range snapshot.Latest {
		key := snapshot.Latest[i].Key
		if !x.q.Has("key") || slices.Contains(x.q["key"], key) {
			list = append(list, key)
		}
	}
	return list
}

func (x *exporter) history(v entity.View) error {
	for _, key := range x.keys(v) {
		q := entity.HistoryQuery{ID: v.ID(), Key: key, From: x.from, To: x.to, Limit: historyPage}
		for {
			points, next, err := x.server.runtime.History(x.ctx, q)
			if err != nil {
				return err
			}
			for i := range points {
				if err := x.value(v.ID(), key, points[i].TS, points[i].Value); err != nil {
					return err
				}
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
	}
	return nil
}

// value writes one value: as a reading that can be imported again.
func (x *exporter) value(id, key string, ts int64, v entity.Value) error {
	if x.csv != nil {
		return x.csv.Write([]string{id, strconv.FormatInt(ts, 10), key, v.String()})
	}
	x.line = entity.String(id).AppendJSON(append(x.line[:0], `{"entity":`...))
	x.line = strconv.AppendInt(append(x.line, `,"ts":`...), ts, 10)
	x.line = entity.String(key).AppendJSON(append(x.line, `,"values":{`...))
	x.line = append(v.AppendJSON(append(x.line, ':')), "}}\n"...)
	_, err := x.out.Write(x.line)
	return err
}

func (x *exporter) latest(v entity.View) error {
	for _, key := range x.keys(v) {
		l, ok := v.Latest(key)
		if !ok {
			continue
		}
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
	x.line = entity.String(v.ID()).AppendJSON(append(x.line[:0], `{"id":`...))
	if v.Type() != "" {
		x.line = entity.String(v.Type()).AppendJSON(append(x.line, `,"type":`...))
	}
	x.line = appendSections(x.line, &snapshot, fieldAttributes|fieldDesired|fieldReported)
	_, err := x.out.Write(append(x.line, "}\n"...))
	return err
}

func (x *exporter) relations(v entity.View) error {
	for r := range v.Relations(entity.Out) {
		x.line = append(appendRelation(x.line[:0], &r), '\n')
		if _, err := x.out.Write(x.line); err != nil {
			return err
		}
	}
	return nil
}
