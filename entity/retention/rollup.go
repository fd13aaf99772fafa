package retention

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

// Kinds of the documents of rollups. Rows are kept in chunks: a document has the
// rows of one series and step over chunkRows steps.
const (
	kindSeries = "kept"   // a Series, under its seriesName
	kindRollup = "rollup" // a chunk

	chunkRows    = 256
	chunkVersion = 1
)

// seriesName names a series in the ids of documents, which must be shorter than an
// entity's id and a key together may be.
type seriesName string

func newSeriesName(id, key string) seriesName {
	sum := sha256.Sum256([]byte(id + "\x00" + key))
	return seriesName(hex.EncodeToString(sum[:16]))
}

func (k seriesName) chunk(step series.Span, n int64) string {
	return string(k) + "-" + strconv.FormatInt(int64(step), 10) + "-" + strconv.FormatInt(n, 10)
}

// Series says what is kept of one key of one entity. No rule was ever applied to the
// zero Series.
type Series struct {
	Entity string
	Key    string
	// Created distinguishes the entity from a deleted one that had its id.
	Created int64
	Kept    series.Kept

	// chunks has for each step the numbers of the chunks that may exist. So what is between
	// a row of 1970 and one of today is not looked for.
	chunks map[series.Span]chunkRuns
	stored []byte // the body of its document, nil where that is not known
}

// storedSeries is the body of the document of a Series.
type storedSeries struct {
	Entity  string                    `json:"entity"`
	Key     string                    `json:"key"`
	Created int64                     `json:"created"`
	Kept    series.Kept               `json:"kept"`
	Chunks  map[series.Span]chunkRuns `json:"chunks,omitempty"`
	// First is what was stored in place of Chunks: the number of the first one.
	First map[series.Span]int64 `json:"first,omitempty"`
}

// decodeSeries reads a series, also as it was stored before there were runs of chunks.
func decodeSeries(body []byte) (*Series, error) {
	var s storedSeries
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, err
	}
	k := &Series{Entity: s.Entity, Key: s.Key, Created: s.Created, Kept: s.Kept, chunks: s.Chunks, stored: body}
	for step, first := range s.First {
		if tier := k.Kept.Tier(step); step > 0 && tier.To > 0 {
			k.put(step, chunkRun{first, chunkOf(tier.To-1, step) + 1})
		}
	}
	return k, nil
}

func (k *Series) name() seriesName { return newSeriesName(k.Entity, k.Key) }

func chunkOf(ts int64, step series.Span) int64 { return ts / (int64(step) * chunkRows) }

// chunksTo returns the number of the first chunk that has no row that begins before a time.
func chunksTo(ts int64, step series.Span) int64 { return chunkOf(ts+int64(step)*chunkRows-1, step) }

// rollups stores the rows of rollups as documents.
type rollups struct{ rt *entity.Runtime }

// load reads what is kept of a series.
func (r rollups) load(ctx context.Context, id, key string) (*Series, error) {
	doc, err := r.rt.Doc(ctx, kindSeries, string(newSeriesName(id, key)))
	if errors.Is(err, entity.ErrNotFound) {
		return &Series{Entity: id, Key: key}, nil
	}
	if err != nil {
		return nil, err
	}
	k, err := decodeSeries(doc.Body)
	if err != nil {
		return nil, fmt.Errorf("rollups of %q key %q: %w", id, key, err)
	}
	return k, nil
}

// put notes that chunks of a step may exist.
func (k *Series) put(step series.Span, run chunkRun) {
	if k.chunks == nil {
		k.chunks = make(map[series.Span]chunkRuns)
	}
	k.chunks[step] = k.chunks[step].with(run)
}

// save stores what is kept of a series, if that is not what is stored.
func (r rollups) save(ctx context.Context, k *Series) error {
	body, err := json.Marshal(storedSeries{Entity: k.Entity, Key: k.Key, Created: k.Created, Kept: k.Kept, Chunks: k.chunks})
	if err != nil || bytes.Equal(body, k.stored) {
		return err
	}
	if _, err = r.rt.PutDoc(ctx, kindSeries, string(k.name()), body, ""); err == nil {
		k.stored = body
	}
	return err
}

// rows is Retainer.Rows.
func (r rollups) rows(ctx context.Context, k *Series, step series.Span, within series.Range) iter.Seq2[series.Row, error] {
	return func(yield func(series.Row, error) bool) {
		tier := k.Kept.Tier(step)
		from, to := max(within.From, tier.From), min(within.To, tier.To)
		if from >= to {
			return
		}
		for n := range k.chunks[step].between(chunkOf(from, step), chunkOf(to-1, step)) {
			list, err := r.chunk(ctx, k, step, n)
			if err != nil {
				yield(series.Row{}, err)
				return
			}
			for i := range list {
				if list[i].Start >= from && list[i].Start < to && !yield(list[i], nil) {
					return
				}
			}
		}
	}
}

// last returns the last row of a step that ends at a time or before it, and whether there
// is one.
func (r rollups) last(ctx context.Context, k *Series, step series.Span, before int64) (series.Row, bool, error) {
	tier := k.Kept.Tier(step)
	before = min(before, tier.To)
	if before <= tier.From {
		return series.Row{}, false, nil
	}
	for n := range k.chunks[step].backward(chunkOf(before-1, step)) {
		list, err := r.chunk(ctx, k, step, n)
		if err != nil {
			return series.Row{}, false, err
		}
		for _, row := range slices.Backward(list) {
			if row.Start < tier.From {
				return series.Row{}, false, nil
			}
			if row.End <= before {
				return row, true, nil
			}
		}
	}
	return series.Row{}, false, nil
}

// chunk reads a chunk. One that does not exist has no rows.
func (r rollups) chunk(ctx context.Context, k *Series, step series.Span, n int64) ([]series.Row, error) {
	doc, err := r.rt.Doc(ctx, kindRollup, k.name().chunk(step, n))
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := decodeChunk(doc.Body, step, n)
	if err != nil {
		return nil, fmt.Errorf("rollup of %q key %q: %w", k.Entity, k.Key, err)
	}
	return list, nil
}

// putChunk writes the rows of a chunk, or removes one without any.
func (r rollups) putChunk(ctx context.Context, k *Series, step series.Span, n int64, list []series.Row) error {
	id := k.name().chunk(step, n)
	if len(list) == 0 {
		return ignoreMissing(r.rt.DeleteDoc(ctx, kindRollup, id, ""))
	}
	body, err := encodeChunk(list, step, n)
	if err != nil {
		return err
	}
	_, err = r.rt.PutDoc(ctx, kindRollup, id, body, "")
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	return err
}

// replace replaces the rows that begin in a range by others, which must begin there and be in the
// order of time. It returns how many the others are.
func (r rollups) replace(ctx context.Context, k *Series, step series.Span, within series.Range, rows iter.Seq2[series.Row, error]) (count int, err error) {
	next, stop := iter.Pull2(rows)
	defer stop()
	row, err, more := next()
	for n, last := chunkOf(within.From, step), chunkOf(within.To-1, step); err == nil; n++ {
		n = k.chunks[step].next(n)
		if more {
			n = min(n, chunkOf(row.Start, step))
		}
		if n > last {
			return count, nil
		}
		var fresh []series.Row
		for more && err == nil && chunkOf(row.Start, step) == n {
			fresh = append(fresh, row)
			row, err, more = next()
		}
		if err != nil {
			break
		}
		if err := r.merge(ctx, k, step, n, within, fresh); err != nil {
			return count, err
		}
		count += len(fresh)
	}
	return count, err
}

// merge replaces the rows of a chunk that begin in a range by fresh ones.
func (r rollups) merge(ctx context.Context, k *Series, step series.Span, n int64, within series.Range, fresh []series.Row) error {
	old, err := r.chunk(ctx, k, step, n)
	if err != nil {
		return err
	}
	if len(old)+len(fresh) == 0 {
		return nil
	}
	var list []series.Row
	for i := range old {
		if old[i].Start < within.From {
			list = append(list, old[i])
		}
	}
	list = append(list, fresh...)
	for i := range old {
		if old[i].Start >= within.To {
			list = append(list, old[i])
		}
	}
	if len(list) > 0 && k.chunks[step].next(n) != n {
		// Record first that the chunk may exist, so that after a crash it is found and deleted with
		// its entity.
		k.put(step, chunkRun{n, n + 1})
		if err := r.save(ctx, k); err != nil {
			return err
		}
	}
	return r.putChunk(ctx, k, step, n, list)
}

// remove deletes the rows of a step that begin before a time.
func (r rollups) remove(ctx context.Context, k *Series, step series.Span, before int64) error {
	runs, last := k.chunks[step], chunkOf(before, step)
	if len(runs) == 0 {
		return nil
	}
	for n := range runs.between(0, last-1) {
		if err := r.putChunk(ctx, k, step, n, nil); err != nil {
			return err
		}
	}
	k.chunks[step] = runs.from(last)
	return r.merge(ctx, k, step, last, series.Range{From: entity.MinTS, To: before}, nil)
}

// forget deletes everything that is kept of a series.
func (r rollups) forget(ctx context.Context, k *Series) error {
	for step, runs := range k.chunks {
		for n := range runs.between(0, math.MaxInt64-1) {
			if err := r.putChunk(ctx, k, step, n, nil); err != nil {
				return err
			}
		}
	}
	return ignoreMissing(r.rt.DeleteDoc(ctx, kindSeries, string(k.name()), ""))
}
