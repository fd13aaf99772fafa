// Inventory keeps the bags of players who come and go. Each player is a durable actor with a
// state; a gift is sent in the transaction that takes it out of the giver's bag, and wakes up a
// player who has left; a torch burns out by a reminder, also while its owner is away.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// game is where the players are.
type game struct {
	sys *actor.System
	p   *persist.Persistence
}

// openGame goes on with the game that a journal has.
func openGame(ctx context.Context, sys *actor.System, journal persist.Journal) (*game, error) {
	p, err := persist.Open(ctx, sys, journal, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
		return enter(p, sys, id)
	}})
	return &game{sys, p}, err
}

// enter has a player enter the game, who was there before or is new. Nothing happens to one who is
// there.
func enter(p *persist.Persistence, sys *actor.System, id string) error {
	_, err := persist.TrySpawn(p, sys, strings.TrimPrefix(id, "/"), newPlayer)
	if errors.Is(err, actor.ErrNameTaken) {
		return nil
	}
	return err
}

// ask asks a player, who enters the game for that, and says what the answer is.
func (g *game) ask(ctx context.Context, w io.Writer, id string, m actor.Request[string]) error {
	if err := enter(g.p, g.sys, id); err != nil {
		return err
	}
	ref, err := actor.LookupPath[any](g.sys, id)
	if err != nil {
		return err
	}
	answer, err := actor.AskFor[string](ctx, ref, m)
	switch {
	case errors.Is(err, errNone):
		answer = errNone.Error()
	case errors.Is(err, errFull):
		answer = errFull.Error()
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s: %s\n", id, describe(m), answer)
	if _, leaves := m.(leave); err == nil && leaves {
		_, err = ref.Wait(ctx)
	}
	return err
}

func describe(m any) string {
	switch m := m.(type) {
	case find:
		return "finds " + m.item
	case give:
		return "gives " + m.item + " to " + m.to
	case light:
		return "lights a torch"
	case leave:
		return "leaves"
	}
	return "has"
}

// play is a game in two parts, with a crash of everything but the journal between them.
func play(ctx context.Context, w io.Writer, journal persist.Journal) error {
	for _, part := range [][]step{
		{
			{"/ann", find{item: "torch"}},
			{"/ann", find{item: "apple"}},
			{"/ann", find{item: "rope"}},
			{"/ann", find{item: "sword"}},
			{"/ben", find{item: "bread"}},
			{"/ben", leave{}},
			{"/ann", give{item: "apple", to: "/ben"}},
			{"/ben", look{}}, // it has woken him up
			{"/ben", find{item: "stone"}},
			{"/ann", give{item: "rope", to: "/ben"}},
			{"/ann", look{}}, // his bag is full: it comes back
			{"/ann", light{burns: time.Second}},
			{"/ann", leave{}},
		},
		{{"/ann", look{}}, {"/ann", light{burns: time.Second}}, {"/ben", look{}}},
	} {
		if err := playPart(ctx, w, journal, part); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, "the game is over for today"); err != nil {
			return err
		}
	}
	return nil
}

type step struct {
	id string
	m  actor.Request[string]
}

func playPart(ctx context.Context, w io.Writer, journal persist.Journal, steps []step) (err error) {
	sys := actor.NewSystem("game")
	defer func() {
		_, ended := sys.Shutdown(ctx)
		err = errors.Join(err, ended)
	}()
	g, err := openGame(ctx, sys, journal)
	for _, s := range steps {
		if err == nil {
			err = g.ask(ctx, w, s.id, s.m)
		}
		pause(ctx, 100*time.Millisecond) // gifts arrive meanwhile
	}
	pause(ctx, 2*time.Second) // so that a torch burns out
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func run(w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return play(ctx, w, memory.New()) // a directory with package sqlite, for a game that is to go on tomorrow
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "inventory:", err)
		os.Exit(1)
	}
}
