package otel

import (
	"context"
	"fmt"
	"maps"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-go/greenroom/actor"
)

// scope is the name under which the spans are made.
const scope = "github.com/greenroom-go/greenroom/otel"

// The attributes of a span in addition to those of the OpenTelemetry conventions for messaging:
// messaging.system, messaging.operation.type and messaging.destination.name, which is the actor's
// path.
const (
	// AttributeSystem is the name of the actor's system.
	AttributeSystem = attribute.Key("greenroom.system")
	// AttributeFrom is the path of the actor that has sent the message; it is left out for messages from
	// outside of any actor.
	AttributeFrom = attribute.Key("greenroom.from")
	// AttributeMessage is the Go type of the message.
	AttributeMessage = attribute.Key("greenroom.message_type")
)

// Config says how messages are traced. The zero Config uses the global provider, and W3C trace context
// and baggage, and traces messages that carry a trace.
type Config struct {
	Provider   trace.TracerProvider          // nil for the global one
	Propagator propagation.TextMapPropagator // nil for W3C trace context and baggage
	Roots      bool                          // messages that carry no trace begin one, if the provider's sampler wants it
}

// tracing is what the middleware needs.
type tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	roots      bool
}

// Trace returns the options of a system whose messages are traced: middleware around all handlers, and
// before all sending. Give them to [actor.NewSystem], and for messages between systems to both.
//
// Each span has the name "handle" and the message's type, is of the kind consumer, and lasts as
// long as the handler with its waits. An error that the handler returns is recorded as the span's
// error, and so is a panic.
func Trace(cfg Config) []actor.SystemOption {
	if cfg.Provider == nil {
		cfg.Provider = otel.GetTracerProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	t := &tracing{cfg.Provider.Tracer(scope), cfg.Propagator, cfg.Roots}
	return []actor.SystemOption{actor.AroundReceive(t.around), actor.BeforeSend(t.before)}
}

// before puts the trace of the sender's context into the header.
func (t *tracing) before(ctx context.Context, s *actor.Sending) error {
	if trace.SpanContextFromContext(ctx).IsValid() {
		s.Header = t.inject(ctx, s.Header)
	}
	return nil
}

// inject returns a header with the trace of ctx. The header may be that of other messages: it is not
// changed.
func (t *tracing) inject(ctx context.Context, header actor.Header) actor.Header {
	carrier := propagation.MapCarrier(maps.Clone(header))
	if carrier == nil {
		carrier = make(propagation.MapCarrier, 1)
	}
	t.propagator.Inject(ctx, carrier)
	return actor.Header(carrier)
}

// around makes a span of the handling of a message.
func (t *tracing) around(ctx context.Context, r actor.Reception, next func() error) (err error) {
	// Not with the handler's context: for a request it has the asker's span, which is of the asker's
	// process and the same as the header says.
	carried := t.propagator.Extract(context.Background(), propagation.MapCarrier(r.Header))
	if !t.roots && !trace.SpanContextFromContext(carried).IsValid() {
		return next()
	}
	kind := fmt.Sprintf("%T", r.Message)
	attributes := make([]attribute.KeyValue, 0, 6)
	attributes = append(attributes,
		attribute.String("messaging.system", "greenroom"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", r.To.Path()),
		AttributeSystem.String(r.To.Node()),
		AttributeMessage.String(kind))
	if !r.From.IsZero() {
		attributes = append(attributes, AttributeFrom.String(r.From.Path()))
	}
	spanned, span := t.tracer.Start(carried, "handle "+kind, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
	defer span.End() // which records a panic, and lets it go on
	actor.SetHeader(ctx, t.inject(spanned, r.Header))
	actor.Decorate(ctx, func(handlers context.Context) context.Context { return spanOf{handlers, spanned} })
	returned := false
	defer func() {
		if !returned {
			span.SetStatus(codes.Error, "the handler has panicked or ended its goroutine")
		}
	}()
	err = next()
	returned = true
	if err != nil && err != actor.ErrStop { //nolint:errorlint // only ErrStop itself is no failure
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}

// spanOf is a handler's context with the values of another one: the span and the baggage.
type spanOf struct {
	context.Context //nolint:containedctx // it is one
	values          context.Context
}

// Value implements context.Context.
func (c spanOf) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
