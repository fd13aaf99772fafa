package main

import (
	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// What rooms are told. Players and their sessions may be on other nodes.
type (
	// Enter has a player in a room: whoever plays repeats it, and is gone without.
	Enter struct {
		Player  string
		Session actor.Ref[any] // gets a View ten times a second,
		Every   int            // or each nth one of them
	}
	// Exit ends that.
	Exit struct{ Player string }
	// Move is a step by -1, 0 or 1 each way.
	Move struct {
		Player string
		DX, DY int
	}
)

// View is a room as its players see it.
type View struct {
	Room    string `json:"room"`
	Node    string `json:"node"` // where the room is
	Players []Body `json:"players"`
	Gems    []Gem  `json:"gems"`
}

// Body is a player in a room.
type Body struct {
	Name string `json:"name"`
	X    int    `json:"x"`
	Y    int    `json:"y"`
}

// Gem is an item that lies in a room.
type Gem struct {
	ID string `json:"id"`
	X  int    `json:"x"`
	Y  int    `json:"y"`
}

// What players are asked.
type (
	// Award gives a player an item, once, however often it is asked. The answer is how many there are.
	Award struct {
		actor.Returns[int]
		Gem string
	}
	// Items asks for all items, in the order in which they came.
	Items struct{ actor.Returns[[]string] }
)

// What the singletons are asked.
type (
	// Match asks for a room for a player, or says again in which room one is.
	Match struct {
		actor.Returns[string]
		Player, Room string
	}
	// Top asks for the leaderboard.
	Top struct{ actor.Returns[[]Score] }
)

// Score is a line of the leaderboard.
type Score struct {
	Name string `json:"name"`
	Gems int    `json:"gems"`
}

// What rooms and players record.
type (
	// Placed is a gem that lies there from then on.
	Placed struct{ Gem Gem }
	// Taken is a gem that belongs to a player, who may not have it yet.
	Taken struct{ Gem, Player string }
	// Given is one that the player has.
	Given struct{ Gem string }
	// Got is a gem of a player.
	Got struct{ Gem string }
)

// types names everything that is sent to another node or written. The names stay as long as there are
// journals with them.
var types = codec.NewTypes(
	codec.Of[Enter]("arena.enter"), codec.Of[Exit]("arena.exit"), codec.Of[Move]("arena.move"), codec.Of[View]("arena.view"),
	codec.Of[Award]("arena.award"), codec.Of[Items]("arena.items"), codec.Of[Match]("arena.match"), codec.Of[Top]("arena.top"),
	codec.Of[Placed]("arena.placed"), codec.Of[Taken]("arena.taken"), codec.Of[Given]("arena.given"), codec.Of[Got]("arena.got"),
	codec.Of[RoomState]("arena.room"), codec.Of[PlayerState]("arena.player"),
)
