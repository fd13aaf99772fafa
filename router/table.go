package router

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// table is a set of routees as the senders see it. It never changes; a change is
// another table.
type table[M any] struct {
	owner   any // the incarnation of the router's actor that made it
	routees []actor.Ref[M]
	route   actor.Route[M]
	sys     *actor.System
	path    string      // of the router's actor
	blamed  atomic.Bool // a panic of route has been logged
}

// desk is where the senders find the table. The router's actor alone puts one there.
type desk[M any] struct {
	strategy Strategy[M]
	current  atomic.Pointer[table[M]]
}

// route is the [actor.Route] of every router. Without routees it chooses nobody, and
// the message becomes a dead letter. So does a message for which the strategy panics: it
// is not the sender, on whose goroutine this is, who is to blame.
func (d *desk[M]) route(msg M, to func(actor.Ref[M])) {
	t := d.current.Load()
	if t == nil || len(t.routees) == 0 {
		return
	}
	chosen := false
	defer func() {
		if !chosen {
			t.panicked(recover(), msg)
		}
	}()
	t.route(msg, to)
	chosen = true
}

// panicked logs the first panic of a strategy, or of its key function: there may be one a
// message.
func (t *table[M]) panicked(value any, msg M) {
	if t.blamed.Swap(true) {
		return
	}
	t.sys.Log().LogAttrs(context.Background(), slog.LevelError, "message not routed: the router's strategy panicked",
		slog.String("router", t.path), slog.String("message_type", fmt.Sprintf("%T", msg)), slog.Any("panic", value))
}

// publish puts out a new table.
func (d *desk[M]) publish(ctx *actor.Context[any], owner any, routees []actor.Ref[M]) {
	t := &table[M]{owner: owner, routees: routees, sys: ctx.System(), path: ctx.Self().PID().Path()}
	if len(routees) > 0 {
		t.route = d.strategy(t.sys, slices.Clone(routees))
	}
	d.current.Store(t)
}

// clearWith takes the table away when the owner's incarnation ends, however it ends:
// Terminate would miss a kill. A table of the next incarnation stays.
func (d *desk[M]) clearWith(ctx context.Context, owner any) {
	context.AfterFunc(ctx, func() {
		if t := d.current.Load(); t != nil && t.owner == owner {
			d.current.CompareAndSwap(t, nil)
		}
	})
}

// handle is what a Pool and a Group have in common.
type handle[M any] struct {
	ref     actor.Ref[M] // that routes
	desk    *desk[M]
	manager actor.Ref[any]
}

// newHandle makes the reference that routes.
func newHandle[M any](d *desk[M], manager actor.Ref[any], sys *actor.System) (handle[M], error) {
	ref, err := actor.Routed(sys, manager.PID(), d.route)
	return handle[M]{ref, d, manager}, err
}

func (h *handle[M]) routees() []actor.Ref[M] {
	if t := h.desk.current.Load(); t != nil {
		return slices.Clone(t.routees)
	}
	return nil
}

func (h *handle[M]) broadcast(ctx context.Context, msg M) {
	routees := h.routees()
	if len(routees) == 0 {
		h.ref.Tell(ctx, msg)
	}
	for _, r := range routees {
		r.Tell(ctx, msg)
	}
}

// order is a request to the router's actor; its answer is an error, because an error
// of the handler would be a failure of the actor.
type order struct{ actor.Returns[outcome] }

type outcome struct{ err error }

// give sends an order and waits until it has been carried out.
func (h *handle[M]) give(ctx context.Context, o actor.Request[outcome]) error {
	out, err := actor.Ask(ctx, h.manager, o)
	if err != nil {
		return err
	}
	return out.err
}
