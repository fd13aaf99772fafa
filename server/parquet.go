package server

import (
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Limits of a row group. A Parquet file is written in row groups, each of which is gathered in
// memory.
const (
	parquetRows  = 1 << 18
	parquetBytes = 16 << 20
)

// parquetRow is the schema. A value is in the column of its kind; number contains all numbers, and
// integer those that the device sent as integers, exactly.
type parquetRow struct {
	Entity  string   `parquet:"entity,dict"`
	Key     string   `parquet:"key,dict"`
	TS      int64    `parquet:"ts,timestamp(millisecond),delta"`
	Number  *float64 `parquet:"number,optional"`
	Integer *int64   `parquet:"integer,optional"`
	Boolean *bool    `parquet:"boolean,optional"`
	Text    *string  `parquet:"text,optional"`
	JSON    *string  `parquet:"json,optional,json"`
}

// The columns of parquetRow, in their order.
const (
	parquetEntity = iota
	parquetKey
	parquetTS
	parquetNumber
	parquetInteger
	parquetBoolean
	parquetText
	parquetJSON
)

// parquetWriter writes points column by column.
type parquetWriter struct {
	*parquet.Writer
	rows, bytes int             // in the row group so far
	cells       []parquet.Value // reused by write
}

func newParquetWriter(w io.Writer) *parquetWriter {
	p := &parquetWriter{Writer: parquet.NewWriter(w, parquet.SchemaOf(parquetRow{}),
		parquet.Compression(&zstd.Codec{Concurrency: 1}), parquet.KeyValueMetadata("greenroom", "history"))}
	return p
}

// write adds points of a key of an entity.
func (p *parquetWriter) write(id, key string, c *block.Columns) error {
	n := c.Len()
	same := func(text string) func(int) parquet.Value {
		v := parquet.ByteArrayValue([]byte(text))
		return func(int) parquet.Value { return v }
	}
	if err := p.required(parquetEntity, n, same(id)); err != nil {
		return err
	}
	if err := p.required(parquetKey, n, same(key)); err != nil {
		return err
	}
	if err := p.required(parquetTS, n, func(i int) parquet.Value { return parquet.Int64Value(c.TS[i]) }); err != nil {
		return err
	}
	text := func(i int) parquet.Value {
		p.bytes += len(c.Texts[i])
		return parquet.ByteArrayValue([]byte(c.Texts[i]))
	}
	for _, column := range []struct {
		index int
		has   func(value.Kind) bool
		cell  func(i int) parquet.Value
	}{
		{parquetNumber, func(k value.Kind) bool { return k == value.KindFloat || k == value.KindInt }, func(i int) parquet.Value {
			f, _ := c.Value(i).Number()
			return parquet.DoubleValue(f)
		}},
		{parquetInteger, func(k value.Kind) bool { return k == value.KindInt }, func(i int) parquet.Value { return parquet.Int64Value(int64(c.Bits[i])) }},
		{parquetBoolean, func(k value.Kind) bool { return k == value.KindBool }, func(i int) parquet.Value { return parquet.BooleanValue(c.Bits[i] != 0) }},
		{parquetText, func(k value.Kind) bool { return k == value.KindString }, text},
		{parquetJSON, func(k value.Kind) bool { return k == value.KindJSON }, text},
	} {
		if err := p.optional(column.index, c, column.has, column.cell); err != nil {
			return err
		}
	}
	if p.rows += n; p.rows >= parquetRows || p.bytes >= parquetBytes {
		p.rows, p.bytes = 0, 0
		return p.Flush()
	}
	return nil
}

// required writes a column with a value in each row.
func (p *parquetWriter) required(column, n int, cell func(i int) parquet.Value) error {
	p.cells = p.cells[:0]
	for i := range n {
		p.cells = append(p.cells, cell(i).Level(0, 0, column))
	}
	return p.add(column)
}

// optional writes a column with values in the rows whose kind satisfies has.
func (p *parquetWriter) optional(column int, c *block.Columns, has func(value.Kind) bool, cell func(i int) parquet.Value) error {
	p.cells = p.cells[:0]
	none := parquet.NullValue().Level(0, 0, column)
	for i := range c.Len() {
		v := none
		if has(c.KindAt(i)) {
			v = cell(i).Level(0, 1, column)
		}
		p.cells = append(p.cells, v)
	}
	return p.add(column)
}

// add writes the cells to a column.
func (p *parquetWriter) add(column int) error {
	_, err := p.ColumnWriters()[column].WriteRowValues(p.cells)
	clear(p.cells)
	return err
}
