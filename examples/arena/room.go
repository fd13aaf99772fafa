package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
)

const (
	width, height = 16, 12
	gemsMost      = 5 // that lie in a room
	tickTime      = 100 * time.Millisecond
	placeTime     = 500 * time.Millisecond // between two gems
	absence       = 6 * time.Second        // after which a player who is not heard of is gone
	awardTime     = 5 * time.Second        // for a player to answer
)

// room is a durable actor, one for each key. What lies in it and who has taken what is recorded; where the
// players stand is not: they enter again.
type room struct {
	persist.Events[any]
	game    *game
	key     string
	s       RoomState
	bodies  map[string]*body
	asked   map[string]bool // gems that are being given
	placed  time.Time
	ticking bool
	ticks   int
}

// RoomState is what a room has recorded.
type RoomState struct {
	Next int               // the number of the next gem
	Gems map[string]Gem    // that lie here
	Owed map[string]string // those that were taken, and by whom, until the players have them
}

type body struct {
	Body
	session actor.Ref[any]
	seen    time.Time
	every   int // it gets each nth view
}

// What a room tells itself.
type (
	tick    struct{}
	awarded struct {
		gem, player string
		err         error
	}
)

func newRoom(g *game, key string) *room {
	return &room{
		game: g, key: key, bodies: make(map[string]*body), asked: make(map[string]bool),
		s: RoomState{Gems: make(map[string]Gem), Owed: make(map[string]string)},
	}
}

// Apply is all that changes what is recorded: now, and again when the room is recovered.
func (r *room) Apply(e any) {
	switch e := e.(type) {
	case Placed:
		r.s.Next++
		r.s.Gems[e.Gem.ID] = e.Gem
	case Taken:
		delete(r.s.Gems, e.Gem)
		r.s.Owed[e.Gem] = e.Player
	case Given:
		delete(r.s.Owed, e.Gem)
	}
}

// Snapshot returns what need not be recovered event by event.
func (r *room) Snapshot() (RoomState, error) {
	return RoomState{r.s.Next, maps.Clone(r.s.Gems), maps.Clone(r.s.Owed)}, nil
}

// Restore is the reverse.
func (r *room) Restore(s RoomState) error {
	r.s = RoomState{s.Next, make(map[string]Gem), make(map[string]string)}
	maps.Copy(r.s.Gems, s.Gems)
	maps.Copy(r.s.Owed, s.Owed)
	return nil
}

// Recovered goes on with what was not given yet.
func (r *room) Recovered(ctx *actor.Context[any]) error {
	if len(r.s.Owed) > 0 {
		r.begin(ctx)
	}
	return nil
}

func (r *room) begin(ctx *actor.Context[any]) {
	if !r.ticking {
		r.ticking = true
		ctx.Every("tick", tickTime, tick{})
	}
}

// Receive implements actor.Actor.
func (r *room) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case Enter:
		r.enter(ctx, m)
	case Exit:
		delete(r.bodies, m.Player)
	case Move:
		r.move(m)
	case tick:
		r.tick(ctx)
	case awarded:
		delete(r.asked, m.gem)
		if _, owed := r.s.Owed[m.gem]; owed && m.err == nil {
			r.Record(Given{m.gem})
			r.game.config.given(m.player, m.gem)
		}
	}
	return nil
}

func (r *room) enter(ctx *actor.Context[any], m Enter) {
	b := r.bodies[m.Player]
	if b == nil {
		random := ctx.System().Rand()
		b = &body{Body: Body{m.Player, random.IntN(width), random.IntN(height)}}
		r.bodies[m.Player] = b
	}
	b.session, b.every, b.seen = m.Session, max(1, m.Every), time.Now()
	r.begin(ctx)
}

// move has a player take a step, and the gem that lies there.
func (r *room) move(m Move) {
	b := r.bodies[m.Player]
	if b == nil {
		return
	}
	b.X = min(max(b.X+min(max(m.DX, -1), 1), 0), width-1)
	b.Y = min(max(b.Y+min(max(m.DY, -1), 1), 0), height-1)
	for id, gem := range r.s.Gems {
		if gem.X == b.X && gem.Y == b.Y {
			r.Record(Taken{id, m.Player})
			return
		}
	}
}

// tick gives what is owed, places a gem, and shows everybody the room.
func (r *room) tick(ctx *actor.Context[any]) {
	for gem, player := range r.s.Owed {
		if !r.asked[gem] {
			r.asked[gem] = true
			actor.AskThen(ctx, r.game.players.Ref(player), Award{Gem: gem}, func(_ int, err error) any { return awarded{gem, player, err} }, actor.Within(awardTime))
		}
	}
	maps.DeleteFunc(r.bodies, func(_ string, b *body) bool { return time.Since(b.seen) > absence })
	if len(r.bodies) == 0 {
		if len(r.s.Owed) == 0 {
			r.ticking = false
			ctx.Cancel("tick")
		}
		return
	}
	if len(r.s.Gems) < gemsMost && time.Since(r.placed) > placeTime {
		random := ctx.System().Rand()
		r.placed = time.Now()
		r.Record(Placed{Gem{fmt.Sprintf("%s/%d", r.key, r.s.Next), random.IntN(width), random.IntN(height)}})
	}
	r.ticks++
	var due []*body
	for _, b := range r.bodies {
		if r.ticks%b.every == 0 {
			due = append(due, b)
		}
	}
	if len(due) == 0 {
		return
	}
	v := View{Room: r.key, Node: ctx.System().Name()}
	for _, name := range slices.Sorted(maps.Keys(r.bodies)) {
		v.Players = append(v.Players, r.bodies[name].Body)
	}
	for _, id := range slices.Sorted(maps.Keys(r.s.Gems)) {
		v.Gems = append(v.Gems, r.s.Gems[id])
	}
	for _, b := range due {
		b.session.Tell(ctx, v)
	}
}

// player is a durable actor, one for each name: what somebody has.
type player struct {
	persist.Events[any]
	s PlayerState
}

// PlayerState is what a player has recorded.
type PlayerState struct{ Gems []string }

// Apply implements what [persist.Events] needs.
func (p *player) Apply(e any) {
	if e, ok := e.(Got); ok {
		p.s.Gems = append(p.s.Gems, e.Gem)
	}
}

// Snapshot returns what need not be recovered event by event.
func (p *player) Snapshot() (PlayerState, error) { return PlayerState{slices.Clone(p.s.Gems)}, nil }

// Restore is the reverse.
func (p *player) Restore(s PlayerState) error {
	p.s = s
	return nil
}

// Receive implements actor.Actor.
func (p *player) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case Award:
		if !slices.Contains(p.s.Gems, m.Gem) { // it may be asked again
			p.Record(Got{m.Gem})
		}
		actor.Reply(ctx, m, len(p.s.Gems))
	case Items:
		actor.Reply(ctx, m, slices.Clone(p.s.Gems))
	}
	return nil
}
