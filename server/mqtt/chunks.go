package mqtt

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// Saved data is a stream, stored as numbered items of limited length, followed by an item that
// marks it as complete. If that item is missing, the server died while writing.
const (
	savedKind  = "mqtt-saved"
	savedWhole = "whole" // sorts after all numbers
	savedChunk = 512 << 10
	savedPage  = 16 // items read or written at a time
)

// savedWriter writes the stream.
type savedWriter struct {
	ctx    context.Context //nolint:containedctx // of one call of Save
	keeper Keeper
	items  int
	buf    []byte
}

// Write implements io.Writer for package json.
func (w *savedWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	if len(w.buf) < savedPage*savedChunk {
		return len(p), nil
	}
	return len(p), w.put()
}

// put writes the buffered bytes in one commit.
func (w *savedWriter) put() error {
	var items []entity.Item
	for chunk := range slices.Chunk(w.buf, savedChunk) {
		w.items++
		items = append(items, entity.Item{Kind: savedKind, Key: fmt.Sprintf("%08d", w.items), Body: chunk})
	}
	w.buf = w.buf[:0]
	return w.keeper.PutItems(w.ctx, items)
}

// end writes the remaining bytes and the final item. It writes nothing if the stream is empty.
func (w *savedWriter) end() error {
	if len(w.buf) > 0 {
		if err := w.put(); err != nil {
			return err
		}
	}
	if w.items == 0 {
		return nil
	}
	return w.keeper.PutItems(w.ctx, []entity.Item{{Kind: savedKind, Key: savedWhole, Body: []byte("{}")}})
}

// savedReader reads the stream of a savedWriter.
type savedReader struct {
	ctx    context.Context //nolint:containedctx // of one call of restore
	keeper Keeper
	items  []entity.Item
	after  string // the key of the last item read
	rest   []byte
	err    error // from the keeper
}

// Read implements io.Reader for package json.
func (r *savedReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.items) == 0 {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		r.rest, r.items = r.items[0].Body, r.items[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *savedReader) next() (err error) {
	r.items, err = r.keeper.Items(r.ctx, entity.ItemsQuery{Kind: savedKind, From: r.after + "\x00", To: savedWhole, Limit: savedPage})
	if err != nil {
		r.err = err
		return err
	}
	if len(r.items) == 0 {
		return io.EOF
	}
	r.after = r.items[len(r.items)-1].Key
	return nil
}
