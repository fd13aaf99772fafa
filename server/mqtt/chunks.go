package mqtt

import (
	"context"
	"fmt"
	"io"

	"github.com/greenroom-go/greenroom/entity"
)

// What is kept is a stream, in items of some length under their numbers, and after them one
// that says that it is whole: without it the server died while it wrote.
const (
	savedKind  = "mqtt-saved"
	savedWhole = "whole" // after all numbers
	savedChunk = 512 << 10
	savedPage  = 16 // items that are read at once
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
	for len(w.buf) >= savedChunk {
		if err := w.put(w.buf[:savedChunk]); err != nil {
			return 0, err
		}
		w.buf = append(w.buf[:0], w.buf[savedChunk:]...)
	}
	return len(p), nil
}

func (w *savedWriter) put(chunk []byte) error {
	w.items++
	return w.keeper.PutItems(w.ctx, []entity.Item{{Kind: savedKind, Key: fmt.Sprintf("%08d", w.items), Body: chunk}})
}

// end writes the rest, and that it was all. Of nothing it writes nothing.
func (w *savedWriter) end() error {
	if len(w.buf) > 0 {
		if err := w.put(w.buf); err != nil {
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
		return err
	}
	if len(r.items) == 0 {
		return io.EOF
	}
	r.after = r.items[len(r.items)-1].Key
	return nil
}
