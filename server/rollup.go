package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	kindKept   = "kept"   // what there is of a series, under its rollupKey
	kindRollup = "rollup" // a chunk

	chunkRows    = 256
	chunkVersion = 1
)

// rollupKey is the name of a series in the ids of documents, which are shorter
// than an entity's id and a key together may be.
type rollupKey string

func newRollupKey(id, key string) rollupKey {
	sum := sha256.Sum256([]byte(id + "\x00" + key))
	return rollupKey(hex.EncodeToString(sum[:16]))
}

func (k rollupKey) chunk(step series.Span, n int64) string {
	return string(k) + "-" + strconv.FormatInt(int64(step), 10) + "-" + strconv.FormatInt(n, 10)
}

// keptSeries says what there is of a series. The zero value is that of one that no
// rule was ever applied to.
type keptSeries struct {
	Entity string `json:"entity"`
	Key    string `json:"key"`
	// Created tells the entity from another one of the same id before.
	Created int64       `json:"created"`
	Kept    series.Kept `json:"kept"`
	// First has the first chunk of each step that there may be.
	First map[series.Span]int64 `json:"first,omitempty"`
}

func (k *keptSeries) name() rollupKey { return newRollupKey(k.Entity, k.Key) }

func (k *keptSeries) tier(step series.Span) series.KeptTier {
	for _, t := range k.Kept.Tiers {
		if t.Step == step {
			return t
		}
	}
	return series.KeptTier{Step: step}
}

func chunkOf(ts int64, step series.Span) int64 { return ts / (int64(step) * chunkRows) }

// rollups keeps the rows of rollups as documents.
type rollups struct{ rt *entity.Runtime }

// load returns what there is of a series.
func (r rollups) load(ctx context.Context, id, key string) (keptSeries, error) {
	doc, err := r.rt.Doc(ctx, kindKept, string(newRollupKey(id, key)))
	if errors.Is(err, entity.ErrNotFound) {
		return keptSeries{Entity: id, Key: key}, nil
	}
	if err != nil {
		return keptSeries{}, err
	}
	var k keptSeries
	if err := json.Unmarshal(doc.Body, &k); err != nil {
		return k, fmt.Errorf("rollups of %q key %q: %w", id, key, err)
	}
	return k, nil
}

func (r rollups) save(ctx context.Context, k *keptSeries) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	_, err = r.rt.PutDoc(ctx, kindKept, string(k.name()), body, "")
	return err
}

// rows has the rows of a step that begin in a range, in the order of time.
func (r rollups) rows(ctx context.Context, k *keptSeries, step series.Span, within series.Range) iter.Seq2[series.Row, error] {
	return func(yield func(series.Row, error) bool) {
		tier := k.tier(step)
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

// chunk reads a chunk, which may be without rows.
func (r rollups) chunk(ctx context.Context, k *keptSeries, step series.Span, n int64) ([]series.Row, error) {
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
func (r rollups) putChunk(ctx context.Context, k *keptSeries, step series.Span, n int64, list []series.Row) error {
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

// replace puts rows, which are ordered and begin in a range, in the place of those
// that begin there, and returns how many there were.
func (r rollups) replace(ctx context.Context, k *keptSeries, step series.Span, within series.Range, rows iter.Seq2[series.Row, error]) (count int, err error) {
	old := k.tier(step)
	next, stop := iter.Pull2(rows)
	defer stop()
	row, err, more := next()
	n := chunkOf(within.From, step)
	for {
		if err != nil {
			return count, err
		}
		if chunkStart := n * int64(step) * chunkRows; chunkStart >= old.To { // nothing is there: go where the rows are
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

// merge puts the fresh rows of a chunk in the place of those within a range.
func (r rollups) merge(ctx context.Context, k *keptSeries, step series.Span, n int64, within series.Range, fresh []series.Row) error {
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
func (r rollups) remove(ctx context.Context, k *keptSeries, step series.Span, before int64) error {
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

// forget deletes all that is kept of a series.
func (r rollups) forget(ctx context.Context, k *keptSeries) error {
	for _, t := range k.Kept.Tiers {
		first, ok := k.First[t.Step]
		for n := first; ok && n <= chunkOf(t.To, t.Step); n++ {
			if err := r.putChunk(ctx, k, t.Step, n, nil); err != nil {
				return err
			}
		}
	}
	return ignoreMissing(r.rt.DeleteDoc(ctx, kindKept, string(k.name()), ""))
}

// encodeChunk encodes the rows of a chunk: a version, and of each row its place in
// the chunk, its length and its summary.
func encodeChunk(list []series.Row, step series.Span, n int64) ([]byte, error) {
	body := []byte{chunkVersion}
	var one []byte
	var err error
	for i := range list {
		if one, err = list[i].Summary.AppendBinary(one[:0]); err != nil {
			return nil, err
		}
		body = binary.AppendUvarint(body, uint64((list[i].Start-n*int64(step)*chunkRows)/int64(step)))
		body = binary.AppendUvarint(body, uint64(len(one)))
		body = append(body, one...)
	}
	return body, nil
}

func decodeChunk(body []byte, step series.Span, n int64) ([]series.Row, error) {
	damaged := func(what string) error {
		return fmt.Errorf("chunk %d of %v: %w: %s", n, step, series.ErrEncoding, what)
	}
	if len(body) == 0 || body[0] != chunkVersion {
		return nil, damaged("of another version")
	}
	body = body[1:]
	var list []series.Row
	least := uint64(0)
	for len(body) > 0 {
		place, a := binary.Uvarint(body)
		size, b := binary.Uvarint(body[max(a, 0):])
		if a <= 0 || b <= 0 || place < least || place >= chunkRows || size > uint64(len(body)-a-b) {
			return nil, damaged("a row that cannot be")
		}
		body = body[a+b:]
		sum := &series.Summary{}
		if err := sum.UnmarshalBinary(body[:size]); err != nil {
			return nil, fmt.Errorf("chunk %d of %v: %w", n, step, err)
		}
		start := (n*chunkRows + int64(place)) * int64(step)
		list = append(list, series.Row{Start: start, End: start + int64(step), Summary: sum})
		body, least = body[size:], place+1
	}
	return list, nil
}
