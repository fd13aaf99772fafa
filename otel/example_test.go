package otel_test

import (
	"context"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/otel"
)

// printer is an exporter that prints the spans as they end. A program uses otlptracehttp, for example.
type printer struct{}

// ExportSpans implements sdk.SpanExporter.
func (printer) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	for _, s := range spans {
		fmt.Printf("%s, begun in another span: %v\n", s.Name(), s.Parent().IsValid())
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (printer) Shutdown(context.Context) error { return nil }

type order struct{ item string }

type reserve struct {
	actor.Returns[bool]
	item string
}

// A request is traced through two actors.
func ExampleTrace() {
	provider := sdk.NewTracerProvider(sdk.WithSyncer(printer{}))
	sys := actor.NewSystem("shop", otel.Trace(otel.Config{Provider: provider})...)

	stock := actor.SpawnFunc(sys, "stock", func(ctx *actor.Context[reserve], m reserve) error {
		actor.Reply(ctx, m, m.item == "tea")
		return nil
	})
	orders := actor.SpawnFunc(sys, "orders", func(ctx *actor.Context[order], m order) error {
		_, err := actor.Ask(ctx, stock, reserve{item: m.item})
		return err
	})

	ctx, span := provider.Tracer("shop").Start(context.Background(), "POST /orders")
	orders.Tell(ctx, order{"tea"})
	if _, err := sys.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	span.End()
	// Output:
	// handle otel_test.reserve, begun in another span: true
	// handle otel_test.order, begun in another span: true
	// POST /orders, begun in another span: false
}
