package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/otel"
)

// recorder is a system whose spans are kept.
type recorder struct {
	k        *actortest.Kit
	sys      *actor.System
	provider *sdk.TracerProvider
	spans    *tracetest.InMemoryExporter
}

func record(k *actortest.Kit, cfg otel.Config) *recorder {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	cfg.Provider = provider
	return &recorder{k, actortest.NewSystem(k.T(), otel.Trace(cfg)...), provider, spans}
}

// begin tells the actor m in a span of the given name.
func begin[M any](r *recorder, to actor.Ref[M], m M, name string) {
	ctx, span := r.provider.Tracer("test").Start(r.k.Context(), name)
	to.Tell(ctx, m)
	span.End()
	r.k.Settle()
}

// tree prints the spans, each under its parent, in the order of their names.
func (r *recorder) tree() string {
	children := make(map[trace.SpanID][]tracetest.SpanStub)
	known := make(map[trace.SpanID]bool)
	for _, s := range r.spans.GetSpans() {
		known[s.SpanContext.SpanID()] = true
	}
	for _, s := range r.spans.GetSpans() {
		parent := s.Parent.SpanID()
		if !known[parent] {
			parent = trace.SpanID{}
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var show func(of trace.SpanID, indent string)
	show = func(of trace.SpanID, indent string) {
		list := children[of]
		slices.SortFunc(list, func(x, y tracetest.SpanStub) int { return strings.Compare(label(x), label(y)) })
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s\n", indent, label(s))
			show(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	show(trace.SpanID{}, "")
	return b.String()
}

// label is the name of a span and the path of its actor.
func label(s tracetest.SpanStub) string {
	for _, a := range s.Attributes {
		if a.Key == "messaging.destination.name" {
			return s.Name + " by " + a.Value.AsString()
		}
	}
	return s.Name
}

func (r *recorder) expect(lines ...string) {
	r.k.T().Helper()
	if got, want := r.tree(), strings.Join(lines, "\n")+"\n"; got != want {
		r.k.T().Errorf("spans:\n%swant:\n%s", got, want)
	}
}

// get is a request.
type get struct{ actor.Returns[int] }

func TestATraceFollowsAMessageThroughTheActors(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		r := record(k, otel.Config{})
		last := actor.SpawnFunc(r.sys, "last", func(*actor.Context[string], string) error { return nil })
		answers := actor.SpawnFunc(r.sys, "answers", func(ctx *actor.Context[get], m get) error {
			last.Tell(ctx, "of the answer")
			actor.Reply(ctx, m, 1)
			return nil
		})
		opened := false
		first := actor.SpawnFunc(r.sys, "first", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				last.Tell(ctx, m)
			case bool: // an own span, with a derived context
				limited, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				inner, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("test").Start(limited, "own")
				defer span.End()
				last.Tell(inner, "")
			case get:
				if _, err := actor.Ask(ctx, answers, m); err != nil {
					return err
				}
			case int8:
				ctx.After("timer", time.Second, "timer")
			case int16:
				actor.Pipe(ctx, func(work context.Context) (int, error) {
					_, span := r.provider.Tracer("test").Start(work, "inside")
					span.End()
					return 1, nil
				}, func(int, error) any { return "piped" })
			case int32:
				actor.AskThen(ctx, answers, get{}, func(int, error) any { return "answered" })
			case int64:
				if !opened {
					return ctx.Stash()
				}
				last.Tell(ctx, "stashed")
			case nil:
				opened = true
				ctx.Unstash()
			}
			return nil
		})
		for name, m := range map[string]any{
			"tell": "told", "own": true, "ask": get{}, "after": int8(1), "pipe": int16(1), "askthen": int32(1), "stash": int64(1),
		} {
			begin(r, first, m, name)
		}
		first.Tell(k.Context(), nil) // which has no trace
		k.Advance(time.Minute)
		r.expect(
			"after", "  handle int8 by /first", "    handle string by /first", "      handle string by /last",
			"ask", "  handle otel_test.get by /first", "    handle otel_test.get by /answers", "      handle string by /last",
			"askthen", "  handle int32 by /first", "    handle otel_test.get by /answers", "      handle string by /last", "    handle string by /first", "      handle string by /last",
			"own", "  handle bool by /first", "    own", "      handle string by /last",
			"pipe", "  handle int16 by /first", "    handle string by /first", "      handle string by /last", "    inside",
			"stash", "  handle int64 by /first", "    handle int64 by /first", "      handle string by /last",
			"tell", "  handle string by /first", "    handle string by /last",
		)
	})
}

func TestMessagesWithoutATraceBeginOneIfThatIsWanted(t *testing.T) {
	for _, roots := range []bool{false, true} {
		t.Run(fmt.Sprint(roots), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				r := record(k, otel.Config{Roots: roots})
				last := actor.SpawnFunc(r.sys, "last", func(*actor.Context[string], string) error { return nil })
				first := actor.SpawnFunc(r.sys, "first", func(ctx *actor.Context[string], m string) error {
					last.Tell(ctx, m)
					return nil
				})
				first.Tell(k.Context(), "hello")
				k.Settle()
				if roots {
					r.expect("handle string by /first", "  handle string by /last")
				} else if n := len(r.spans.GetSpans()); n != 0 {
					k.T().Errorf("%d spans", n)
				}
			})
		})
	}
}

func TestFailuresAreThoseOfTheirSpans(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		r := record(k, otel.Config{})
		ref := actor.SpawnFunc(r.sys, "a", func(_ *actor.Context[string], m string) error {
			switch m {
			case "error":
				return errors.New("broken")
			case "panic":
				panic("broken, too")
			case "stop":
				return actor.ErrStop
			}
			return nil
		})
		for _, m := range []string{"fine", "error", "panic", "stop"} {
			begin(r, ref, m, m)
		}
		got := make(map[string]codes.Code)
		events := make(map[string]int)
		names := make(map[trace.SpanID]string)
		for _, s := range r.spans.GetSpans() {
			names[s.SpanContext.SpanID()] = s.Name
		}
		for _, s := range r.spans.GetSpans() {
			if s.SpanKind == trace.SpanKindConsumer {
				m := names[s.Parent.SpanID()]
				got[m], events[m] = s.Status.Code, len(s.Events)
			}
		}
		for m, want := range map[string]codes.Code{"fine": codes.Unset, "error": codes.Error, "panic": codes.Error, "stop": codes.Unset} {
			if got[m] != want || (events[m] == 1) != (want == codes.Error) {
				k.T().Errorf("%s: the span is %v, with %d events", m, got[m], events[m])
			}
		}
	})
}

func TestBaggageGoesAlong(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		r := record(k, otel.Config{})
		var got string
		last := actor.SpawnFunc(r.sys, "last", func(ctx *actor.Context[string], _ string) error {
			got = baggage.FromContext(ctx).Member("tenant").Value()
			return nil
		})
		first := actor.SpawnFunc(r.sys, "first", func(ctx *actor.Context[string], m string) error {
			last.Tell(ctx, m)
			return nil
		})
		member, err := baggage.NewMember("tenant", "acme")
		if err != nil {
			k.T().Fatal(err)
		}
		bag, err := baggage.New(member)
		if err != nil {
			k.T().Fatal(err)
		}
		ctx, span := r.provider.Tracer("test").Start(baggage.ContextWithBaggage(k.Context(), bag), "request")
		first.Tell(ctx, "hello")
		span.End()
		k.Settle()
		if got != "acme" {
			k.T().Errorf("the tenant is %q", got)
		}
	})
}

// writer keeps what it is told and writes it together.
type writer struct {
	batch otel.Batch
	kept  int
}

func (w *writer) Receive(ctx *actor.Context[string], m string) error {
	if m == "flush" {
		w.batch.Link(ctx)
		w.kept = 0
		return nil
	}
	w.batch.Add(ctx)
	if w.kept++; w.kept == 1 {
		ctx.After("flush", time.Second, "flush")
	}
	return nil
}

func TestABatchIsLinkedToItsMessages(t *testing.T) {
	for n, want := range map[int]int{1: 1, 3: 3, 200: 128} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				r := record(k, otel.Config{})
				ref := actor.Spawn[string](r.sys, "writer", func() *writer { return new(writer) })
				for i := range n {
					begin(r, ref, "m", fmt.Sprint("request ", i))
				}
				ref.Tell(k.Context(), "m") // which has no trace
				k.Advance(time.Minute)
				var flush tracetest.SpanStub
				handled := make(map[trace.SpanID]bool)
				for _, s := range r.spans.GetSpans() {
					switch {
					case s.Name == "handle string" && len(s.Links) > 0:
						flush = s
					case s.Name == "handle string":
						handled[s.SpanContext.SpanID()] = true
					}
				}
				if len(flush.Links) != want {
					k.T().Fatalf("%d links, not %d", len(flush.Links), want)
				}
				for _, l := range flush.Links {
					if !handled[l.SpanContext.SpanID()] {
						k.T().Errorf("a link to %v, which is no span of a message", l.SpanContext.SpanID())
					}
				}
				left := 0
				for _, a := range flush.Attributes {
					if a.Key == otel.AttributeNotLinked {
						left = int(a.Value.AsInt64())
					}
				}
				if left != n-want {
					k.T().Errorf("%d are said not to be linked, not %d", left, n-want)
				}
			})
		})
	}
}
