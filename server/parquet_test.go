package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/value"
)

// TestAnExportReadsTheHistoryInParts has a history read in parts whose points are in blocks, and
// in rows over some of them.
func TestAnExportReadsTheHistoryInParts(t *testing.T) {
	t.Parallel()
	s, store := startSealable(t)
	post := func(step int) {
		var readings []string
		for ts := 0; ts < 10_000; ts += step {
			readings = append(readings, fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, ts, ts*step))
		}
		s.post("a", "["+strings.Join(readings, ",")+"]")
	}
	post(1)
	if err := store.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(3000)
	var want block.Columns
	query := entity.HistoryQuery{ID: "a", Key: "n", From: 5, To: 9990}
	err := s.runtime.ScanHistory(t.Context(), query, func(c *entity.Chunk) error {
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		for i := range columns.TS {
			want.Append(columns.TS[i], columns.SeqAt(i), columns.Value(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	x := &exporter{transferAPI: &transferAPI{runtime: s.runtime}, ctx: t.Context(), from: query.From, to: query.To, page: 10}
	var got block.Columns
	parts := 0
	for from := x.from; from < x.to; parts++ {
		some, next, err := x.read("a", "n", from)
		if err != nil || next <= from {
			t.Fatalf("from %d: the next part begins at %d, %v", from, next, err)
		}
		for i := range some {
			for j := range some[i].TS {
				got.Append(some[i].TS[j], some[i].SeqAt(j), some[i].Value(j))
			}
		}
		from = next
	}
	if parts < 2 || got.Len() != 9985 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d parts have %d points, want %d", parts, got.Len(), want.Len())
	}
}

// TestParquetIsWrittenInRowGroups bounds what is in memory at once.
func TestParquetIsWrittenInRowGroups(t *testing.T) {
	t.Parallel()
	var numbers, texts block.Columns
	for i := range int64(block.MaxRows) {
		numbers.Append(i, 0, value.Int(i))
	}
	long := strings.Repeat("x", 1<<16)
	for i := range int64(parquetBytes / len(long)) {
		texts.Append(i, 0, value.String(long))
	}
	var file bytes.Buffer
	w := newParquetWriter(&file)
	chunks := []*block.Columns{&texts}
	for range parquetRows/block.MaxRows + 1 {
		chunks = append(chunks, &numbers)
	}
	for _, c := range chunks {
		if err := w.write("a", "k", c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var rows []int64
	for _, g := range f.RowGroups() {
		rows = append(rows, g.NumRows())
	}
	if want := []int64{int64(texts.Len()), parquetRows, int64(block.MaxRows)}; fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("the row groups have %v rows, want %v", rows, want)
	}
}
