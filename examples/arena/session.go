package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// beatTime is how often a session says that it is there, to a room or matchmaker that may be new.
const beatTime = 2 * time.Second

// session is an actor for each player who is connected to this node, and for each bot.
type session struct {
	game   *game
	player string
	show   func(Screen) // nil for a bot
	room   string
	top    []Score
	every  int // it gets each nth view: a bot takes a step at each, and people are to have a chance
}

// Screen is what a player sees.
type Screen struct {
	View
	You string  `json:"you"`
	Top []Score `json:"top"`
}

// What a session tells itself, or is told by its connection.
type (
	beat    struct{}
	matched struct{ room string }
	topped  struct{ top []Score }
	step    struct{ dx, dy int }
)

// Init implements actor.Initializer.
func (s *session) Init(ctx *actor.Context[any]) error {
	ctx.Every("beat", beatTime, beat{})
	ctx.Self().Tell(ctx, beat{})
	return nil
}

// Terminate implements actor.Terminator.
func (s *session) Terminate(ctx *actor.Context[any], _ error) {
	if s.room != "" {
		s.game.rooms.Ref(s.room).Tell(ctx, Exit{s.player})
		s.game.matchmaker.Tell(ctx, Exit{s.player})
	}
}

// Receive implements actor.Actor.
func (s *session) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case beat:
		actor.AskThen(ctx, s.game.matchmaker, Match{Player: s.player, Room: s.room}, func(room string, err error) any {
			if err != nil {
				return matched{} // the next beat asks again
			}
			return matched{room}
		}, actor.Within(beatTime))
		if s.show != nil {
			actor.AskThen(ctx, s.game.leaderboard, Top{}, func(top []Score, _ error) any { return topped{top} }, actor.Within(beatTime))
		}
	case matched:
		if s.room = cmp.Or(m.room, s.room); s.room != "" {
			s.game.rooms.Ref(s.room).Tell(ctx, Enter{s.player, ctx.Self(), s.every})
		}
	case topped:
		if m.top != nil {
			s.top = m.top
		}
	case step:
		s.step(ctx, m.dx, m.dy)
	case View:
		if s.show != nil {
			s.show(Screen{m, s.player, s.top})
		} else {
			dx, dy := s.toNearest(m)
			s.step(ctx, dx, dy)
		}
	}
	return nil
}

func (s *session) step(ctx *actor.Context[any], dx, dy int) {
	if s.room != "" && (dx != 0 || dy != 0) {
		s.game.rooms.Ref(s.room).Tell(ctx, Move{s.player, dx, dy})
	}
}

// toNearest returns the step of a bot: to the gem that is nearest.
func (s *session) toNearest(v View) (dx, dy int) {
	at := slices.IndexFunc(v.Players, func(b Body) bool { return b.Name == s.player })
	if at < 0 || len(v.Gems) == 0 {
		return 0, 0
	}
	me := v.Players[at]
	away := func(g Gem) int { return max(g.X-me.X, me.X-g.X) + max(g.Y-me.Y, me.Y-g.Y) }
	to := slices.MinFunc(v.Gems, func(a, b Gem) int { return cmp.Compare(away(a), away(b)) })
	switch {
	case to.X != me.X:
		return cmp.Compare(to.X, me.X), 0
	case to.Y != me.Y:
		return 0, cmp.Compare(to.Y, me.Y)
	case me.X > 0: // it lies under the bot: it has to come back
		return -1, 0
	default:
		return 1, 0
	}
}
