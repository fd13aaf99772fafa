package mqtt

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// What is kept is a stream, in items of some length under their numbers, and after them one
// that says that it is whole: without it the server died while it wrote.
const (
	savedKind  = "mqtt-saved"
	savedWhole = "whole" // after all numbers
	savedChunk = 512 << 10
	savedPage  = 16 // items that are read or written at once
)

// savedWriter writes items.
type savedWriter struct {
	ctx    context.Context //nolint:containedctx // of one call of Save
	keeper Keeper
	items  int
	buf    []byte
}

// Write is for package json.
func (w *savedWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	if len(w.buf) < savedPage*savedChunk {
		return len(p), nil
	}
	return len(p), w.put()
}

// put writes what has gathered, which is one commit.
func (w *savedWriter) put() error {
	var items []entity.Item
	for chunk := range slices.Chunk(w.buf, savedChunk) {
		w.items++
		items = append(items, entity.Item{Kind: savedKind, Key: fmt.Sprintf("%08d", w.items), Body: chunk})
	}
	w.buf = w.buf[:0]
	return w.keeper.PutItems(w.ctx, items)
}

// end writes the rest, and that it was all. Of nothing it writes nothing.
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

// savedReader reads what a savedWriter has written.
type savedReader struct {
	ctx    context.Context //nolint:containedctx // of one call of restore
	keeper Keeper
	items  []entity.Item
	after  string // the last key that was read
	rest   []byte
	err    error // of the keeper
}

// Read is for package json.
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
