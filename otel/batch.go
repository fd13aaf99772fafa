package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// batchMost is how many links a batch keeps, as many as the SDK keeps of a span.
const batchMost = 128

// AttributeNotLinked is how many messages of a batch have no link because it was too large.
const AttributeNotLinked = attribute.Key("greenroom.not_linked")

// Batch holds the spans of messages that an actor keeps to process together: a span has one parent,
// but the work on a batch has many causes. The zero Batch is empty. It belongs to the actor's
// state, and is not safe for concurrent use.
type Batch struct {
	links []trace.Link
	more  int
}

// Add adds the span of the message whose handler runs with ctx; a message without a trace has none.
// A Batch keeps 128 of them and counts the rest.
func (b *Batch) Add(ctx context.Context) {
	link := trace.LinkFromContext(ctx)
	switch {
	case !link.SpanContext.IsValid():
	case len(b.links) < batchMost:
		b.links = append(b.links, link)
	default:
		b.more++
	}
}

// Link links the span of ctx, in which the batch is processed, to all spans of the batch except
// itself, and empties the batch.
func (b *Batch) Link(ctx context.Context) {
	span := trace.SpanFromContext(ctx)
	own := span.SpanContext()
	for _, link := range b.links {
		if !link.SpanContext.Equal(own) {
			span.AddLink(link)
		}
	}
	if b.more > 0 {
		span.SetAttributes(AttributeNotLinked.Int(b.more))
	}
	clear(b.links)
	b.links, b.more = b.links[:0], 0
}
