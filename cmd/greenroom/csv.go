package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// sampleRows is how many rows are read to determine the kinds of columns.
const sampleRows = 1000

// columnKind is the kind of the values in a column.
type columnKind int

const (
	columnText columnKind = iota
	columnNumber
	columnBool
)

// column is a column of readings.
type column struct {
	name  string // in the header
	key   string // in the readings
	index int
	kind  columnKind
}

// row is a row of the file, as a reading.
type row struct {
	ts      int64
	samples []entity.Sample
}

// rowError says what is wrong with a row. Other rows can still be read.
type rowError struct {
	line   int
	detail string
}

func (e *rowError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.detail) }

// table reads rows of a CSV file with a header.
type table struct {
	columns []column

	csv      *csv.Reader
	time     int // index of the time column
	timeName string
	zone     *time.Location
	width    int
	sample   []record // read, but not yet returned
}

type record struct {
	line   int
	fields []string
	err    error
}

// openTable reads the header, and enough rows to determine the kinds of the columns. timeColumn is
// the name of the time column; "" means the first one named Date, time, timestamp, datetime or ts.
// zone is that of times without a zone.
func openTable(r io.Reader, timeColumn string, zone *time.Location) (*table, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = buffered.Discard(3) // they were peeked at
	}
	t := &table{csv: csv.NewReader(buffered), zone: zone}
	t.csv.FieldsPerRecord = -1 // rows of another width are reported, and reading continues
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file must begin with a header that names the columns, but is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	t.width = len(header)
	if err := t.findColumns(header, timeColumn); err != nil {
		return nil, err
	}
	for rec, ok := t.read(); ok; rec, ok = t.read() {
		if t.sample = append(t.sample, rec); len(t.sample) == sampleRows {
			break
		}
	}
	for i := range t.columns {
		t.columns[i].kind = t.kindOf(t.columns[i].index)
	}
	return t, nil
}

func (t *table) findColumns(header []string, timeColumn string) error {
	t.time = slices.IndexFunc(header, func(name string) bool {
		if timeColumn != "" {
			return name == timeColumn
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "date", "time", "ts", "timestamp", "datetime", "date_time":
			return true
		}
		return false
	})
	if t.time < 0 && timeColumn != "" {
		return fmt.Errorf("there is no column %q; the columns are %s", timeColumn, strings.Join(header, ", "))
	}
	if t.time < 0 {
		return fmt.Errorf("no column is named date, time, timestamp or ts; say which has the time with --time-column: the columns are %s", strings.Join(header, ", "))
	}
	t.timeName = header[t.time]
	taken := map[string]string{}
	for i, name := range header {
		if i == t.time {
			continue
		}
		key := keyOf(name)
		if key == "" {
			return fmt.Errorf("column %d has no name with a letter or a digit", i+1)
		}
		if other, ok := taken[key]; ok {
			return fmt.Errorf("the columns %q and %q would both become the key %q; rename one", other, name, key)
		}
		taken[key] = name
		t.columns = append(t.columns, column{name: name, key: key, index: i})
	}
	if len(t.columns) == 0 {
		return errors.New("there is no column besides the time")
	}
	return nil
}

// read returns the next record, or false at the end.
func (t *table) read() (record, bool) {
	fields, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return record{}, false
	}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return record{line: parse.StartLine, err: parse.Err}, true
	}
	if err != nil {
		return record{err: err}, true
	}
	line, _ := t.csv.FieldPos(0)
	return record{line: line, fields: fields}, true
}

// kindOf decides by the majority of the sample: a few bad cells must not turn a column of numbers
// into text.
func (t *table) kindOf(index int) columnKind {
	var cells, numbers, bools int
	for _, rec := range t.sample {
		if len(rec.fields) != t.width || rec.fields[index] == "" {
			continue
		}
		cells++
		if _, err := strconv.ParseFloat(rec.fields[index], 64); err == nil {
			numbers++
		} else if _, ok := parseBool(rec.fields[index]); ok {
			bools++
		}
	}
	switch {
	case numbers > 0 && 2*numbers > cells:
		return columnNumber
	case bools > 0 && 2*bools > cells:
		return columnBool
	default:
		return columnText
	}
}

// next returns the next row. It returns io.EOF at the end, or a *rowError, after which it can be
// called again. Any other error is one of reading the file.
func (t *table) next() (row, error) {
	var rec record
	if len(t.sample) > 0 {
		rec, t.sample = t.sample[0], t.sample[1:]
	} else {
		var ok bool
		if rec, ok = t.read(); !ok {
			return row{}, io.EOF
		}
	}
	switch {
	case rec.err != nil && rec.line == 0:
		return row{}, fmt.Errorf("read the file: %w", rec.err)
	case rec.err != nil:
		return row{}, &rowError{rec.line, rec.err.Error()}
	case len(rec.fields) != t.width:
		return row{}, &rowError{rec.line, fmt.Sprintf("%d cells; the header has %d", len(rec.fields), t.width)}
	}
	ts, err := parseTime(rec.fields[t.time], t.zone)
	if err != nil {
		return row{}, &rowError{rec.line, fmt.Sprintf("column %s %v", t.timeName, err)}
	}
	r := row{ts: ts}
	for _, c := range t.columns {
		cell := rec.fields[c.index]
		if cell == "" {
			continue // no value
		}
		v, err := parseCell(cell, c.kind)
		if err != nil {
			return row{}, &rowError{rec.line, fmt.Sprintf("column %s %v", c.name, err)}
		}
		r.samples = append(r.samples, entity.Sample{Key: c.key, Value: v})
	}
	if len(r.samples) == 0 {
		return row{}, &rowError{rec.line, "at least one cell must have a value"}
	}
	return r, nil
}

func parseCell(cell string, kind columnKind) (value.Value, error) {
	switch kind {
	case columnNumber:
		if i, err := strconv.ParseInt(cell, 10, 64); err == nil {
			return value.Int(i), nil
		}
		f, err := strconv.ParseFloat(cell, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return value.Value{}, fmt.Errorf("must be a finite number as in most rows, or empty without a measurement, not %.40q", cell)
		}
		return value.Float(f), nil
	case columnBool:
		b, ok := parseBool(cell)
		if !ok {
			return value.Value{}, fmt.Errorf("must be true or false as in most rows, or empty without a measurement, not %.40q", cell)
		}
		return value.Bool(b), nil
	default:
		return value.String(strings.ToValidUTF8(cell, "\ufffd")), nil
	}
}

func parseBool(cell string) (value, ok bool) {
	value = strings.EqualFold(cell, "true")
	return value, value || strings.EqualFold(cell, "false")
}

var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02",
}

// parseTime parses a time, and returns milliseconds since the epoch. An integer means seconds or,
// from 1e11 on, milliseconds: as seconds that would be the year 5138, as milliseconds it is 1973.
func parseTime(cell string, zone *time.Location) (int64, error) {
	cell = strings.TrimSpace(cell)
	if n, err := strconv.ParseInt(cell, 10, 64); err == nil {
		if n < 1e11 {
			n *= 1000
		}
		return n, checkTime(cell, n)
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, cell, zone); err == nil {
			return t.UnixMilli(), checkTime(cell, t.UnixMilli())
		}
	}
	return 0, fmt.Errorf("must be a time such as 2015-02-04 17:51:00, in RFC 3339, or in seconds or milliseconds since the epoch, not %.40q", cell)
}

func checkTime(cell string, ms int64) error {
	if ms < entity.MinTS || ms > entity.MaxTS {
		return fmt.Errorf("must be a time from 1970 to 9999, not %.40q", cell)
	}
	return nil
}

// keyOf returns the key for a column, in snake case: humidity_ratio for HumidityRatio, and co2 for
// CO2.
func keyOf(name string) string {
	var b strings.Builder
	runes := []rune(strings.TrimSpace(name))
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
				b.WriteByte('_')
			}
			continue
		}
		if startsWord(runes, i) && b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.TrimSuffix(b.String(), "_")
}

// startsWord reports whether a capital letter begins a word: because the letter before it is not a
// capital, or because it is the last of several before one that is not, like the S in HTTPServer.
func startsWord(runes []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(runes[i]) {
		return false
	}
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	return i+1 < len(runes) && unicode.IsLower(runes[i+1])
}
