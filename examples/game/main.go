// Game is a small game server in the manner of skynet: a gate, an agent for each player and rooms,
// all of them services in Lua, and a client in Go that hears of what happens in typed messages. A
// designer changes the luck while players dig.
package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/lua"
)

//go:embed scripts
var scripts embed.FS

// news is what a client is told of the room in which its player is.
type news struct{ Player, Text string }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	if err := play(w); err != nil {
		fmt.Fprintln(w, "the game has ended:", err)
	}
}

func play(w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sys := actor.NewSystem("game", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	path, err := changeable()
	if err != nil {
		return err
	}
	rt, err := lua.Open(sys, lua.Config{
		Path: path, Types: codec.NewTypes(codec.Of[news]("client.news")), Mailboxes: []lua.Mailbox{lua.Tells[news]()},
	})
	if err != nil {
		return err
	}
	heard := make(chan news, 16) // more than are told
	actor.SpawnFunc(sys, "client", func(_ *actor.Context[news], n news) error {
		heard <- n
		return nil
	})
	gate, err := rt.Spawn(sys, "gate", "gate.lua")
	if err != nil {
		return err
	}
	g := game{ctx, sys, gate, heard, w}
	agents := map[string]actor.Ref[lua.Message]{}
	for _, name := range []string{"ann", "bob"} {
		if agents[name], err = g.login(name); err != nil {
			return err
		}
	}
	g.show("ann enters a cave with gold", 0, agents["ann"], "enter", "cave")
	g.show("bob enters a cave with gold", 1, agents["bob"], "enter", "cave")
	g.show("bob digs, and has", 1, agents["bob"], "dig")
	g.show("ann comes again", 0, gate, "login", "ann")

	// The designers are generous: the rooms get new code, and keep their gold and who is in them.
	path["room.lua"] = strings.Replace(path["room.lua"], "return 5 end", "return 20 end", 1)
	done, err := rt.Reload(ctx, lua.Reload{File: "room.lua", Who: "designers"})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "rooms with new code:", len(done.Services), "new:", strings.Join(done.Services[0].Mended, " "))
	g.show("ann digs, and has", 1, agents["ann"], "dig")
	g.show("ann digs again, and has", 1, agents["ann"], "dig")
	if err := lua.Send(ctx, agents["bob"], "logout"); err != nil {
		return err
	}
	if _, err := agents["bob"].Wait(ctx); err != nil {
		return err
	}
	g.show("players", 1, gate, "players")
	return nil
}

// folder has files by their names. Its files can be replaced while nobody reads.
type folder map[string]string

// Open returns a file to read.
func (f folder) Open(name string) (fs.File, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file{strings.NewReader(text)}, nil
}

type file struct{ *strings.Reader }

func (file) Close() error               { return nil }
func (file) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

// changeable returns the scripts as files that can be replaced.
func changeable() (folder, error) {
	path := folder{}
	names, err := fs.Glob(scripts, "scripts/*.lua")
	for _, name := range names {
		data, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		path[strings.TrimPrefix(name, "scripts/")] = string(data)
	}
	return path, err
}

type game struct {
	ctx   context.Context //nolint:containedctx // the program's
	sys   *actor.System
	gate  actor.Ref[lua.Message]
	heard <-chan news
	w     io.Writer
}

// login returns the agent of a player.
func (g game) login(name string) (agent actor.Ref[lua.Message], err error) {
	values, err := lua.Call(g.ctx, g.gate, "login", name)
	if err != nil {
		return agent, err
	}
	pid, err := actor.ParsePID(fmt.Sprint(values[0]))
	if err != nil {
		return agent, err
	}
	return actor.Lookup[lua.Message](g.sys, pid)
}

// show calls a service, and prints what the others hear of it, hear pieces of news, and what it answers.
func (g game) show(what string, hear int, to actor.Ref[lua.Message], args ...any) {
	values, err := lua.Call(g.ctx, to, args...)
	for ; hear > 0 && err == nil; hear-- {
		select {
		case n := <-g.heard:
			fmt.Fprintf(g.w, "  %s hears: %s\n", n.Player, n.Text)
		case <-g.ctx.Done():
			err = g.ctx.Err()
		}
	}
	if err != nil {
		fmt.Fprintf(g.w, "%s: %v\n", what, err)
		return
	}
	fmt.Fprintln(g.w, what+":", fmt.Sprint(values...))
}
