package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
)

// Inventory is what a player has: the state that is saved.
type Inventory struct {
	Items map[string]int
	Lit   bool // a torch burns
}

// What players send each other, and themselves. It survives a crash, as their state does.
type (
	// Gift is an item on its way to another player.
	Gift struct{ From, Item string }
	// Return is a gift on its way back, as the bag of the other player was full.
	Return struct{ From, Item string }
	// BurnedOut says that the torch has burned out.
	BurnedOut struct{}
)

// What a player is asked. Each answers with what the player has then.
type (
	find struct {
		actor.Returns[string]
		item string
	}
	give struct {
		actor.Returns[string]
		item, to string
	}
	light struct {
		actor.Returns[string]
		burns time.Duration
	}
	look  struct{ actor.Returns[string] }
	leave struct{ actor.Returns[string] }
)

// types names everything that is written. The names stay as long as there are journals with them.
var types = codec.NewTypes(
	codec.Of[Inventory]("game.inventory"), codec.Of[Gift]("game.gift"), codec.Of[Return]("game.return"), codec.Of[BurnedOut]("game.burned-out"),
)

var (
	errNone = errors.New("there is none in the bag")
	errFull = errors.New("the bag is full")
)

// bagSize is how many items a bag holds. Those that come back find room in any.
const bagSize = 3

// player is a durable actor: State is what it was when it was saved last, whatever has crashed.
type player struct{ persist.Durable[Inventory] }

func newPlayer() *player { return &player{} }

// Receive implements actor.Actor. What it answers and sends leaves when the state is on the disk,
// with it or not at all: no item is in two bags, or in none.
func (p *player) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case find:
		if p.count() >= bagSize {
			return actor.Refuse(ctx, errFull)
		}
		p.put(m.item, 1)
	case give:
		if p.State.Items[m.item] == 0 {
			return actor.Refuse(ctx, errNone)
		}
		p.put(m.item, -1)
		p.Send(m.to, Gift{ctx.Self().PID().Path(), m.item})
	case Gift:
		if p.count() >= bagSize {
			p.Send(m.From, Return{ctx.Self().PID().Path(), m.Item})
			return nil
		}
		p.put(m.Item, 1)
	case Return:
		p.put(m.Item, 1)
	case light:
		if p.State.Items["torch"] == 0 {
			return actor.Refuse(ctx, errNone)
		}
		p.State.Lit = true
		p.put("torch", -1)
		p.Remind("torch", time.Now().Add(m.burns), BurnedOut{})
	case BurnedOut:
		p.State.Lit = false
		p.Save()
	case leave:
		actor.ReplyFor(ctx, p.String())
		return actor.ErrStop
	}
	actor.ReplyFor(ctx, p.String())
	return nil
}

// put puts items into the bag, or takes them out.
func (p *player) put(item string, n int) {
	if p.State.Items == nil {
		p.State.Items = make(map[string]int)
	}
	if p.State.Items[item] += n; p.State.Items[item] == 0 {
		delete(p.State.Items, item)
	}
	p.Save()
}

func (p *player) count() (n int) {
	for _, k := range p.State.Items {
		n += k
	}
	return n
}

func (p *player) String() string {
	text := fmt.Sprint(p.State.Items)[len("map"):]
	if p.State.Lit {
		text += " by torchlight"
	}
	return text
}
