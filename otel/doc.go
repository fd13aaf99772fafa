// Package otel makes OpenTelemetry traces of what actors do: a span for each handled message, as a
// child of the span in which the message was sent.
//
//	sys := actor.NewSystem("shop", otel.Trace(otel.Config{Provider: provider})...)
//
// The trace travels in the message's [actor.Header], as a W3C traceparent: with tells and asks, with the
// messages of [actor.Context.After], [actor.Pipe] and [actor.AskThen], with what is stashed or forwarded,
// and to other nodes. It begins with a message that is sent with a context that has a span, that of an HTTP
// request for example, or with [Config.Roots]. In a handler the Context has the span of its message, so
// that [trace.SpanFromContext] finds it and spans that the handler starts are its children.
//
// A handler that keeps messages to process them together later links their spans with [Batch].
//
// The package is a module of its own: programs without traces do not depend on OpenTelemetry. A system
// without it pays nothing; with it, a message that has no trace pays for two calls of middleware.
package otel
