package entity

import (
	"github.com/greenroom-go/greenroom/entity/block"
)

// Chunk is some consecutive points of a history. It is valid until the function to which it was
// given returns, and must not be used concurrently.
type Chunk struct {
	header *block.Header
	open   func() (*block.Columns, error)
}

// NewChunk returns a chunk, for a store. The header is nil unless the chunk is a whole block; open
// returns the points, and is called at most once.
func NewChunk(header *block.Header, open func() (*block.Columns, error)) *Chunk {
	return &Chunk{header, open}
}

// Header says what the chunk contains if that is known without reading it, and is nil otherwise.
func (c *Chunk) Header() *block.Header { return c.header }

// Columns returns the points, at least one. It must be called at most once. Nobody changes what it
// returns.
func (c *Chunk) Columns() (*block.Columns, error) { return c.open() }
