package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
)

const (
	// maxImportLine bounds a line of an import.
	maxImportLine = 1 << 20
	// importAtOnce is how many lines are handled concurrently; they share commits.
	importAtOnce = 512
	// importErrors bounds the errors in the response.
	importErrors = 20
	// importReadTimeout is how long a client may send nothing.
	importReadTimeout = 30 * time.Second
)

// importedJSON is what an import has done. All that was accepted is durable.
type importedJSON struct {
	Lines    int64 `json:"lines" example:"100"`
	Accepted int64 `json:"accepted" example:"99"`
	Failed   int64 `json:"failed" example:"1"`
	// Some of the errors.
	Errors []importErrorJSON `json:"errors"`
}

// importErrorJSON is an error in a line.
type importErrorJSON struct {
	// The number of the line, from 1; 0 for types, which are imported together.
	Line   int64  `json:"line" example:"7"`
	Detail string `json:"detail" example:"id must not be empty"`
}

type importRequest struct {
	What string `query:"what" required:"true" enum:"history,entities,relations,types,mappings,scripts,queries,retention,alarm-rules" example:"entities"`
	// csv is for history and entities, and is implied by a body of text/csv.
	Format string `query:"format" enum:"ndjson,csv"`
	Body   stream
}

// stream is a body that the handler reads itself.
type stream struct{ media string }

// importer handles one import, line by line. Invalid lines are counted and skipped; what was
// imported stays.
type importer struct {
	*transferAPI
	ctx    context.Context //nolint:containedctx // of the import that it lives for
	by     string          // the name of the principal
	places chan struct{}
	wg     sync.WaitGroup
	types  []*model.Type

	mu        sync.Mutex
	answer    importedJSON
	committed []importedReading // for the subscribers of MQTT
}

// importedReading is a reading in the form that a device would have published.
type importedReading struct {
	entity  string
	payload []byte
}

// load imports what export has written. It responds when everything is durable.
func (a *transferAPI) load(w http.ResponseWriter, r *http.Request, in *importRequest) error {
	what, format := in.What, in.Format
	if format == "" && in.Body.media == mediaCSV {
		format = "csv"
	}
	rc := http.NewResponseController(w)
	ctx, end := a.serveLong(r.Context(), rc.SetReadDeadline)
	defer end()
	m := &importer{transferAPI: a, ctx: ctx, by: callerOf(r.Context()).who.Name(), places: make(chan struct{}, importAtOnce), answer: importedJSON{Errors: []importErrorJSON{}}}
	take, err := m.taker(what, format)
	if err != nil {
		return err
	}
	body := &patientReader{ctx, r.Body, rc}
	if format == "csv" {
		err = m.csv(body)
	} else {
		err = m.lines(body, take)
	}
	m.wg.Wait()
	m.forward()
	if a.serving.Err() != nil {
		return entity.ErrClosed
	}
	if err != nil {
		return err
	}
	if what == whatTypes {
		m.putTypes()
	}
	return ok(m.answer).write(w, r)
}

// serveLong returns a context for a request that may take hours. It also ends with the server,
// which then sets the deadline to interrupt reads and writes.
func (a *transferAPI) serveLong(parent context.Context, deadline func(time.Time) error) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(a.serving, func() {
		cancel()
		_ = deadline(time.Unix(1, 0)) // a closed connection needs no deadline
	})
	return ctx, func() { stop(); cancel() }
}

// patientReader waits for a writer while it keeps writing and ctx has not ended.
type patientReader struct {
	ctx context.Context //nolint:containedctx // of the request that it lives for
	r   io.Reader
	rc  *http.ResponseController
}

// Read reads within importReadTimeout.
func (p *patientReader) Read(b []byte) (int, error) {
	if err := p.rc.SetReadDeadline(time.Now().Add(importReadTimeout)); err != nil {
		return 0, err
	}
	if err := p.ctx.Err(); err != nil { // after setting the deadline, so that serveLong's comes last
		return 0, err
	}
	return p.r.Read(b)
}

// taker returns the function that imports a line.
func (m *importer) taker(what, format string) (func(line int64, text []byte), error) {
	if format == "csv" && what != whatHistory && what != whatEntities {
		return nil, problemf(http.StatusBadRequest, "format must be ndjson for %s: only history and entities have a form in CSV", what)
	}
	take := map[string]func(line int64, text []byte){
		whatHistory: m.reading, whatEntities: lineOf(m.apart, m.put), whatRelations: lineOf(m.apart, m.relate), whatTypes: m.typ,
		whatMappings: lineOf(m.inTurn, m.mapping), whatQueries: lineOf(m.inTurn, m.query), whatRetention: lineOf(m.inTurn, m.rule),
		whatScripts: lineOf(m.inTurn, m.script), whatAlarms: lineOf(m.inTurn, m.alarmRule),
	}[what]
	if take == nil {
		return nil, problemf(http.StatusBadRequest, "what must be history, entities, relations, types, mappings, scripts, queries, retention or alarm-rules")
	}
	return take, nil
}

// lines reads NDJSON. It skips empty lines.
func (m *importer) lines(body io.Reader, take func(int64, []byte)) error {
	in := bufio.NewScanner(body)
	in.Buffer(make([]byte, 0, 64<<10), maxImportLine)
	for n := int64(1); in.Scan(); n++ {
		text := bytes.TrimSpace(in.Bytes())
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		if len(text) == 0 {
			continue
		}
		if !m.begin() {
			return m.ctx.Err()
		}
		take(n, bytes.Clone(text))
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return problemf(http.StatusRequestEntityTooLarge, "line %d has more than %d bytes; the %d lines before it were taken in", m.answer.Lines+1, maxImportLine, m.answer.Lines)
	}
	return bodyProblem(in.Err())
}

// byteOrderMark is how some programs begin a UTF-8 file.
const byteOrderMark = "\ufeff"

// recordReader limits the length of a record of a CSV: with an unclosed quote, everything that
// follows would otherwise be read into memory.
type recordReader struct {
	r    io.Reader
	left int
}

// errRecord is returned if a record is too long.
var errRecord = errors.New("the record is too long")

// Read reads at most the rest of the permitted length.
func (r *recordReader) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, errRecord
	}
	n, err := r.r.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}

// begin counts a line. It reports false if the client has left.
func (m *importer) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer.Lines++
	return m.ctx.Err() == nil
}

// done records the outcome of a line.
func (m *importer) done(line int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.answer.Accepted++
		return
	}
	m.answer.Failed++
	if len(m.answer.Errors) < importErrors {
		m.answer.Errors = append(m.answer.Errors, importErrorJSON{line, problemOf(err).Detail})
	}
}

// apart runs f for a line concurrently with other lines.
func (m *importer) apart(line int64, f func() error) {
	m.places <- struct{}{}
	m.wg.Go(func() {
		defer func() { <-m.places }()
		m.done(line, f())
	})
}

// inTurn runs f for a line before the next line.
func (m *importer) inTurn(line int64, f func() error) { m.done(line, f()) }

// lineOf returns a function that decodes a line of JSON and calls f, by means of do.
func lineOf[T any](do func(int64, func() error), f func(*T) error) func(line int64, text []byte) {
	return func(line int64, text []byte) {
		do(line, func() error {
			l := new(T)
			if err := decodeJSON(text, l); err != nil {
				return err
			}
			return f(l)
		})
	}
}

// readingLine is a reading with its entity.
type readingLine struct {
	Entity string          `json:"entity"`
	TS     *int64          `json:"ts"`
	Values json.RawMessage `json:"values"`
}

// reading imports a reading. The readings of an entity keep their order, since they are passed to
// the runtime one by one.
func (m *importer) reading(line int64, text []byte) {
	if id, ts, values, ok := cutReading(text); ok {
		m.ingest(line, id, ts, values)
		return
	}
	var l readingLine
	err := decodeJSON(text, &l)
	if err == nil && (l.Entity == "" || l.TS == nil || l.Values == nil) {
		err = problemf(http.StatusBadRequest, `a reading must be like {"entity":"room-1","ts":1451649600512,"values":{"temperature":21.5}}`)
	}
	if err != nil {
		m.done(line, err)
		return
	}
	m.ingest(line, l.Entity, *l.TS, l.Values)
}

// cutReading takes a line apart that has the form in which export writes a reading. For any other
// line it reports false, and decodeJSON says what is in it, or wrong with it; of what it takes apart,
// decodeJSON would say the same, in three times as long, unless values are nested deeper than it accepts.
func cutReading(text []byte) (id string, ts int64, values []byte, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"entity":"`))
	if !ok {
		return "", 0, nil, false
	}
	n := 0
	for n < len(rest) && rest[n] >= ' ' && rest[n] < 0x7f && rest[n] != '"' && rest[n] != '\\' {
		n++
	}
	name := rest[:n]
	if rest, ok = bytes.CutPrefix(rest[n:], []byte(`","ts":`)); !ok || n == 0 {
		return "", 0, nil, false
	}
	for n = 0; n < len(rest) && n < 18 && rest[n] >= '0' && rest[n] <= '9'; n++ {
		ts = 10*ts + int64(rest[n]-'0')
	}
	if n == 0 || n > 1 && rest[0] == '0' {
		return "", 0, nil, false
	}
	if rest, ok = bytes.CutPrefix(rest[n:], []byte(`,"values":`)); !ok {
		return "", 0, nil, false
	}
	if values, ok = bytes.CutSuffix(rest, []byte("}")); !ok || isNull(values) || !json.Valid(values) {
		return "", 0, nil, false
	}
	return string(name), ts, values, true
}

// ingest passes values with one time to the runtime.
func (m *importer) ingest(line int64, id string, ts int64, values []byte) {
	m.forward()
	payload := append(strconv.AppendInt([]byte(`{"ts":`), ts, 10), `,"values":`...)
	payload = append(append(payload, values...), '}')
	readings, err := entity.ParseReadings(payload, time.Now())
	if err == nil {
		m.wg.Add(1)
		err = m.runtime.IngestOnce(m.ctx, id, entity.Once{By: m.by}, readings, len(payload), func(err error) {
			m.done(line, err)
			if err == nil && m.broker.Subscribed() {
				m.mu.Lock()
				m.committed = append(m.committed, importedReading{id, payload})
				m.mu.Unlock()
			}
			m.wg.Done()
		})
		if err == nil {
			return
		}
		m.wg.Done()
	}
	m.done(line, err)
}

// forward publishes what was committed to the subscribers of MQTT. The runtime's callback must not
// do so, because it would block the commits.
func (m *importer) forward() {
	m.mu.Lock()
	list := m.committed
	m.committed = nil
	m.mu.Unlock()
	for i := range list {
		m.broker.Committed(list[i].entity, list[i].payload)
	}
}

// put imports an entity. Its relations are imported separately, when all entities exist.
func (m *importer) put(b *entityBody) error {
	edits, err := b.edits(entity.Replace)
	if err == nil && b.ID == "" {
		err = problemf(http.StatusBadRequest, "id must not be empty")
	}
	if err == nil {
		edits.By = m.by
		_, err = m.runtime.Edit(m.ctx, b.ID, edits)
	}
	return err
}

func (m *importer) relate(r *relationBody) error {
	rel, err := r.relation()
	if err == nil {
		_, err = m.runtime.Edit(m.ctx, r.From, entity.Edits{By: m.by, If: entity.IfAny, Relate: []entity.Relation{rel}})
	}
	return err
}

// typ collects the types, which may depend on each other.
func (m *importer) typ(line int64, text []byte) {
	t, err := model.Parse(text)
	if err != nil {
		m.done(line, err)
		return
	}
	m.types = append(m.types, t)
}

// putTypes puts the collected types: all or none.
func (m *importer) putTypes() {
	if len(m.types) == 0 {
		return
	}
	_, err := m.runtime.PutTypes(m.ctx, m.types)
	for range m.types {
		m.done(0, err)
	}
}

// csv imports a CSV in the form that export writes: columns are identified by their names.
func (m *importer) csv(body io.Reader) error {
	limited := &recordReader{body, maxImportLine}
	in := csv.NewReader(limited)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return problemf(http.StatusBadRequest, "the CSV must begin with a line of column names: %v", err)
	}
	columns := make(map[string]int)
	for i, name := range head {
		columns[strings.TrimPrefix(name, byteOrderMark)] = i
	}
	take, err := m.csvTaker(columns)
	if err != nil {
		return err
	}
	for n := int64(2); ; n++ {
		limited.left = maxImportLine
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errRecord) {
			return problemf(http.StatusRequestEntityTooLarge, "record %d has more than %d bytes, or a quote that is not closed; the %d records before it were taken in", n-1, maxImportLine, n-2)
		}
		var wrong *csv.ParseError
		if err != nil && !errors.As(err, &wrong) {
			return bodyProblem(err)
		}
		if !m.begin() {
			return m.ctx.Err()
		}
		if err != nil {
			m.done(n, problemf(http.StatusBadRequest, "%v", err))
			continue
		}
		take(n, record)
	}
}

// csvTaker returns the function that imports a record, according to the header.
func (m *importer) csvTaker(columns map[string]int) (func(line int64, record []string), error) {
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := columns[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("entity", "ts", "key", "value"):
		return func(line int64, record []string) {
			ts, err := strconv.ParseInt(record[columns["ts"]], 10, 64)
			if err != nil {
				m.done(line, problemf(http.StatusBadRequest, "ts must be milliseconds since the epoch, not %q", shorten(record[columns["ts"]], 32)))
				return
			}
			text := record[columns["value"]]
			if !json.Valid([]byte(text)) { // text that closes the object could add keys
				m.done(line, problemf(http.StatusBadRequest, `value must be JSON: a number, true, false, an object, an array, or a text in double quotes, not %q`, shorten(text, 64)))
				return
			}
			values := value.AppendQuoted([]byte{'{'}, record[columns["key"]])
			values = append(append(values, ':'), text...)
			m.ingest(line, record[columns["entity"]], ts, append(values, '}'))
		}, nil
	case has("id", "type", "attributes", "desired", "reported"):
		return func(line int64, record []string) {
			raw := func(name string) json.RawMessage { return json.RawMessage(record[columns[name]]) }
			b := entityBody{ID: record[columns["id"]], sectionsBody: sectionsBody{raw("attributes"), raw("desired"), raw("reported")}}
			if typ := record[columns["type"]]; typ != "" {
				b.Type.id = &typ
			}
			m.apart(line, func() error { return m.put(&b) })
		}, nil
	default:
		return nil, problemf(http.StatusBadRequest, "the first line of the CSV must have the columns entity,ts,key,value or id,type,attributes,desired,reported")
	}
}
