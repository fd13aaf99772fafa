// Load-and-save shows an actor that loads its data when it starts and saves them when it
// stops. After a failure it saves nothing, because its data may be what is wrong: it starts
// again with what was saved last.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// database stands for one.
type database struct {
	mu   sync.Mutex
	gold map[string]int
}

func (d *database) load(player string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gold[player]
}

func (d *database) save(player string, gold int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gold[player] = gold
}

// playerMsg is what a player accepts.
type playerMsg interface{ playerMsg() }

type (
	find  struct{ gold int }
	sleep struct{} // saves
	count struct{ actor.Returns[int] }
)

func (find) playerMsg()  {}
func (sleep) playerMsg() {}
func (count) playerMsg() {}

var errFools = errors.New("fool's gold")

type player struct {
	w    io.Writer
	db   *database
	name string
	gold int
}

// Init runs at the start, and after a restart.
func (p *player) Init(*actor.Context[playerMsg]) error {
	p.gold = p.db.load(p.name)
	fmt.Fprintln(p.w, p.name, "starts with", p.gold)
	return nil
}

// Receive plays.
func (p *player) Receive(ctx *actor.Context[playerMsg], msg playerMsg) error {
	switch m := msg.(type) {
	case find:
		if m.gold < 0 {
			return errFools
		}
		p.gold += m.gold
	case sleep:
		p.db.save(p.name, p.gold)
	case count:
		actor.Reply(ctx, m, p.gold)
	}
	return nil
}

// Terminate runs before a stop, and before a restart when why is not nil.
func (p *player) Terminate(_ *actor.Context[playerMsg], why error) {
	if why != nil {
		fmt.Fprintln(p.w, p.name, "restarts:", why)
		return
	}
	p.db.save(p.name, p.gold)
	fmt.Fprintln(p.w, p.name, "stops with", p.gold)
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	db := &database{gold: map[string]int{"roger": 10}}
	for range 2 { // the second time is another day
		system := actor.NewSystem("load-and-save", actor.WithLogger(slog.New(slog.DiscardHandler)))
		roger := actor.Spawn(system, "roger", func() *player { return &player{w: w, db: db, name: "roger"} })
		for _, m := range []playerMsg{find{5}, sleep{}, find{100}, find{-1}, find{1}} {
			roger.Tell(ctx, m)
		}
		gold, err := actor.Ask(ctx, roger, count{})
		fmt.Fprintln(w, "counted:", gold, err)
		system.Shutdown(ctx)
	}
}
