package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
)

const (
	roomMost = 8 // players in a room
	topMost  = 8 // lines of the leaderboard
)

// matchmaker is the singleton that has players in rooms. It keeps nothing: the players say again where
// they are, also to the next one.
type matchmaker struct {
	rooms map[string]map[string]time.Time
}

func newMatchmaker() *matchmaker {
	return &matchmaker{rooms: make(map[string]map[string]time.Time)}
}

// Receive implements actor.Actor.
func (a *matchmaker) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case Match:
		for _, players := range a.rooms {
			maps.DeleteFunc(players, func(_ string, seen time.Time) bool { return time.Since(seen) > absence })
		}
		room := m.Room
		if room == "" {
			room = a.find(m.Player)
		}
		if a.rooms[room] == nil {
			a.rooms[room] = make(map[string]time.Time)
		}
		a.rooms[room][m.Player] = time.Now()
		actor.Reply(ctx, m, room)
	case Exit:
		for _, players := range a.rooms {
			delete(players, m.Player)
		}
	}
	return nil
}

// find returns the room in which a player is, or the first one with a place.
func (a *matchmaker) find(player string) string {
	for room, players := range a.rooms {
		if _, ok := players[player]; ok {
			return room
		}
	}
	for i := 1; ; i++ {
		if room := fmt.Sprint("room-", i); len(a.rooms[room]) < roomMost {
			return room
		}
	}
}

// leaderboard is the singleton with the projection that counts the gems of all players. It begins with
// the beginning of the journal wherever it becomes active.
type leaderboard struct {
	journal *persist.Persistence
	shared  bool // other nodes write as well
	stop    func()

	mu      sync.Mutex
	gems    map[string]int        // guarded by mu
	cursors [persist.Parts]uint64 // guarded by mu
}

// again has the leaderboard look for what other nodes have recorded.
type again struct{}

func newLeaderboard(g *game) *leaderboard {
	return &leaderboard{journal: g.journal, shared: g.shared(), stop: func() {}, gems: make(map[string]int)}
}

// Init implements actor.Initializer.
func (a *leaderboard) Init(ctx *actor.Context[any]) error {
	if a.shared {
		ctx.Every("again", time.Second, again{})
	}
	return a.project()
}

// Terminate implements actor.Terminator.
func (a *leaderboard) Terminate(*actor.Context[any], error) { a.stop() }

// project begins the projection, or begins it again. One that has not ended yet is left to.
func (a *leaderboard) project() error {
	a.stop()
	stop, err := a.journal.Project("leaderboard", a.count, persist.CursorsFrom(func(context.Context) ([]uint64, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Clone(a.cursors[:]), nil
	}))
	if errors.Is(err, actor.ErrNameTaken) {
		return nil
	}
	if err == nil {
		a.stop = stop
	}
	return err
}

// count counts events.
func (a *leaderboard) count(_ context.Context, events []persist.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		if _, ok := e.Value.(Got); ok {
			a.gems[strings.TrimPrefix(e.ID, "/player/")]++
		}
		a.cursors[e.Part] = e.Position
	}
	return nil
}

// Receive implements actor.Actor.
func (a *leaderboard) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case again:
		return a.project()
	case Top:
		a.mu.Lock()
		var top []Score
		for name, gems := range a.gems {
			top = append(top, Score{name, gems})
		}
		a.mu.Unlock()
		slices.SortFunc(top, func(x, y Score) int { return cmp.Or(cmp.Compare(y.Gems, x.Gems), cmp.Compare(x.Name, y.Name)) })
		actor.Reply(ctx, m, top[:min(len(top), topMost)])
	}
	return nil
}
