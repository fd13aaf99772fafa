package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	Entity string `json:"entity"`
	Key    string `json:"key"`
	// Created distinguishes the entity from a deleted one that had its id.
	Created int64       `json:"created"`
	Kept    series.Kept `json:"kept"`
	// First has for each step the number of the first chunk that may exist.
	First map[series.Span]int64 `json:"first,omitempty"`
}

func (k *Series) name() seriesName { return newSeriesName(k.Entity, k.Key) }

func chunkOf(ts int64, step series.Span) int64 { return ts / (int64(step) * chunkRows) }

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
	var k Series
	if err := json.Unmarshal(doc.Body, &k); err != nil {
		return nil, fmt.Errorf("rollups of %q key %q: %w", id, key, err)
	}
	return &k, nil
}

func (r rollups) save(ctx context.Context, k *Series) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	_, err = r.rt.PutDoc(ctx, kindSeries, string(k.name()), body, "")
	return err
}

// rows is Retainer.Rows.
func (r rollups) rows(ctx context.Context, k *Series, step series.Span, within series.Range) iter.Seq2[series.Row, error] {
	return func(yield func(series.Row, error) bool) {
		tier := k.Kept.Tier(step)
		from, to := max(within.From, tier.From), min(within.To, tier.To)
		for n := max(chunkOf(from, step), k.First[step]); from < to && n <= chunkOf(to-1, step); n++ {
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

// replace replaces the rows that begin in a range by others, which must begin there and
// be in the order of time. It returns how many those are.
func (r rollups) replace(ctx context.Context, k *Series, step series.Span, within series.Range, rows iter.Seq2[series.Row, error]) (count int, err error) {
	old := k.Kept.Tier(step)
	next, stop := iter.Pull2(rows)
	defer stop()
	row, err, more := next()
	n := chunkOf(within.From, step)
	for {
		if err != nil {
			return count, err
		}
		if chunkStart := n * int64(step) * chunkRows; chunkStart >= old.To { // there is nothing to replace: skip to the next row
			if !more {
				return count, nil
			}
			n = max(n, chunkOf(row.Start, step))
		}
		if n*int64(step)*chunkRows >= within.To {
			return count, nil
		}
		var fresh []series.Row
		for more && err == nil && chunkOf(row.Start, step) == n {
			fresh = append(fresh, row)
			row, err, more = next()
		}
		if err != nil {
			return count, err
		}
		if err := r.merge(ctx, k, step, n, within, fresh); err != nil {
			return count, err
		}
		count += len(fresh)
		n++
	}
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
	if first, ok := k.First[step]; !ok || n < first {
		if k.First == nil {
			k.First = make(map[series.Span]int64)
		}
		k.First[step] = n
	}
	return r.putChunk(ctx, k, step, n, list)
}

// remove deletes the rows of a step that begin before a time.
func (r rollups) remove(ctx context.Context, k *Series, step series.Span, before int64) error {
	first, ok := k.First[step]
	if !ok {
		return nil
	}
	last := chunkOf(before, step)
	for n := first; n < last; n++ {
		if err := r.putChunk(ctx, k, step, n, nil); err != nil {
			return err
		}
	}
	k.First[step] = max(first, last)
	return r.merge(ctx, k, step, last, series.Range{From: entity.MinTS, To: before}, nil)
}

// forget deletes everything that is kept of a series.
func (r rollups) forget(ctx context.Context, k *Series) error {
	for _, t := range k.Kept.Tiers {
		first, ok := k.First[t.Step]
		for n := first; ok && n <= chunkOf(t.To, t.Step); n++ {
			if err := r.putChunk(ctx, k, t.Step, n, nil); err != nil {
				return err
			}
		}
	}
	return ignoreMissing(r.rt.DeleteDoc(ctx, kindSeries, string(k.name()), ""))
}
