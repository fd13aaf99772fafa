// Event-bus is the eighth step of the tour: the barista calls out what is ready, and does
// not know who listens.
//
// A topic has parts with dots between them, a subscription may have wildcards, and an event
// has a Go type. A subscriber gets events as messages of its own protocol, in its turn.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
)

// Ready is the event.
type Ready struct{ For string }

// Order is what the barista accepts; it is answered when the drink has been called out.
type Order struct {
	actor.Returns[string]
	Drink, For string
}

// Msg is what a listener accepts.
type Msg interface{ msg() }

// Heard is an event on the bus.
type Heard struct {
	Topic string
	Ready Ready
}

// All asks for what a listener has heard.
type All struct{ actor.Returns[[]string] }

func (Heard) msg() {}
func (All) msg()   {}

// Listener keeps what it hears.
type Listener struct {
	bus     *eventbus.Bus
	pattern string
	heard   []string
}

// Init subscribes. The subscription ends with the actor; a restarted one subscribes again.
func (l *Listener) Init(ctx *actor.Context[Msg]) error {
	_, err := eventbus.Subscribe(ctx, l.bus, l.pattern, func(topic string, e Ready) Msg { return Heard{topic, e} })
	return err
}

// Receive handles one message.
func (l *Listener) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Heard:
		l.heard = append(l.heard, m.Topic+" for "+m.Ready.For)
	case All:
		actor.Reply(ctx, m, l.heard)
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)
	bus := eventbus.New(sys)

	lattes := actor.Spawn(sys, "lattes", func() *Listener { return &Listener{bus: bus, pattern: "ready.latte"} })
	screen := actor.Spawn(sys, "screen", func() *Listener { return &Listener{bus: bus, pattern: "ready.*"} })
	for _, l := range []actor.Ref[Msg]{lattes, screen} {
		heard, err := actor.Ask(ctx, l, All{}) // answered after Init: from now on it listens
		fmt.Fprintln(w, l.PID().Path(), heard, err)
	}

	barista := actor.SpawnFunc(sys, "barista", func(ctx *actor.Context[Order], o Order) error {
		if err := eventbus.Publish(ctx, bus, "ready."+o.Drink, Ready{o.For}); err != nil {
			return err
		}
		actor.Reply(ctx, o, "one "+o.Drink)
		return nil
	})
	for _, o := range []Order{{Drink: "espresso", For: "Ann"}, {Drink: "latte", For: "Bob"}, {Drink: "mocha", For: "Cid"}} {
		made, err := actor.Ask(ctx, barista, o)
		fmt.Fprintln(w, made, err)
	}

	for _, l := range []actor.Ref[Msg]{lattes, screen} {
		heard, err := actor.Ask(ctx, l, All{})
		fmt.Fprintln(w, l.PID().Path(), heard, err)
	}
}
