package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	clusternats "github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/jetstream"
	"github.com/greenroom-go/greenroom/persist/sqlite"
	"github.com/greenroom-go/greenroom/remote"
)

// config is how a process takes part.
type config struct {
	name   string
	dir    string        // of what it keeps
	serve  string        // where it serves NATS for all nodes; none if it is empty
	join   string        // the address of the NATS server of a cluster; if it is empty, this process is alone
	listen string        // for the other nodes
	secret string        // of the cluster
	ttl    time.Duration // for which a node may be silent
	bots   int
	pace   int                      // of the bots: they take a step each tenth of a second times this
	away   bool                     // it only has references: for a test
	given  func(player, gem string) // a gem has come to a player, and is recorded
}

// game is a process of the game.
type game struct {
	config  config
	node    *cluster.Node
	sys     *actor.System
	journal *persist.Persistence
	nats    *embedded.Server // nil if another process has it
	rooms   *cluster.Kind[any]
	players *cluster.Kind[any]

	matchmaker, leaderboard actor.Ref[any]

	ends []func(ctx context.Context) error // in reverse order
}

// start starts a process of the game. Close ends it.
func start(ctx context.Context, c config) (g *game, err error) {
	if c.given == nil {
		c.given = func(string, string) {}
	}
	g = &game{config: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close(ctx))
		}
	}()
	journal, engine, err := g.open(ctx)
	if err != nil {
		return nil, err
	}
	g.sys = actor.NewSystem(c.name, actor.WithLogger(slog.Default().With(slog.String("node", c.name))))
	g.ends = append(g.ends, func(ctx context.Context) error {
		_, err := g.sys.Shutdown(ctx)
		return err
	})
	if g.journal, err = persist.Open(ctx, g.sys, journal, persist.Config{Types: types}); err != nil {
		return nil, err
	}
	if g.node = cluster.Alone(g.sys); engine != nil {
		g.node, err = cluster.Join(g.sys, cluster.Config{
			Engine: engine, TTL: c.ttl, Remote: &remote.Config{Addr: c.listen, Secret: c.secret, Types: types},
		})
		if err != nil {
			return nil, err
		}
	}
	if err := g.register(); err != nil {
		return nil, err
	}
	for i := range c.bots {
		name := fmt.Sprintf("bot-%s-%d", c.name, i+1)
		if _, err := actor.TrySpawn(g.sys, name, func() *session { return &session{game: g, player: name, every: c.pace} }); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *game) shared() bool { return g.config.join != "" }

// open opens the journal, and the engine of the cluster, nil for a process that is alone.
func (g *game) open(ctx context.Context) (persist.Journal, cluster.Engine, error) {
	c := &g.config
	if c.serve != "" {
		if err := g.serveNATS(); err != nil {
			return nil, nil, err
		}
	}
	if !g.shared() {
		j, err := sqlite.Open(ctx, filepath.Join(c.dir, "journal"), sqlite.Options{})
		if err != nil {
			return nil, nil, err
		}
		g.ends = append(g.ends, func(context.Context) error { return j.Close() })
		return j, nil, nil
	}
	nc, err := g.connect(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("join %s: %w", c.join, err)
	}
	g.ends = append(g.ends, func(context.Context) error {
		nc.Close()
		return nil
	})
	j, err := jetstream.Open(ctx, nc, jetstream.Options{Stream: "arena_journal"})
	if err != nil {
		return nil, nil, err
	}
	g.ends = append(g.ends, func(context.Context) error { return j.Close() })
	engine, err := clusternats.Open(ctx, nc, clusternats.Config{Stream: "ARENA"})
	if err != nil {
		return nil, nil, err
	}
	return j, engine, nil
}

// connect connects to the NATS server, which may be in this process.
func (g *game) connect(ctx context.Context) (*nats.Conn, error) {
	if g.nats != nil {
		return g.nats.Connect(ctx)
	}
	return nats.Connect(g.config.join, nats.MaxReconnects(-1))
}

// serveNATS has a server in this process. A cluster that must survive the loss of any process has three, see
// package embedded.
func (g *game) serveNATS() (err error) {
	c := &g.config
	if g.nats, err = embedded.Start(embedded.Config{Dir: c.dir, Addr: c.serve}); err != nil {
		return err
	}
	g.ends = append(g.ends, func(context.Context) error {
		g.nats.Close()
		return nil
	})
	c.join = g.nats.URL()
	return nil
}

// register makes the kinds of actors.
func (g *game) register() (err error) {
	var opts []cluster.KindOption
	if g.config.away {
		opts = append(opts, cluster.Elsewhere())
	}
	if g.rooms, err = cluster.RegisterDurable[any](g.node, "room", g.journal, func(key string) *room { return newRoom(g, key) }, opts...); err != nil {
		return err
	}
	if g.players, err = cluster.RegisterDurable[any](g.node, "player", g.journal, func(string) *player { return &player{} }, opts...); err != nil {
		return err
	}
	if g.matchmaker, err = cluster.Singleton[any](g.node, "matchmaker", newMatchmaker, opts...); err != nil {
		return err
	}
	g.leaderboard, err = cluster.Singleton[any](g.node, "leaderboard", func() *leaderboard { return newLeaderboard(g) }, opts...)
	return err
}

// close leaves the cluster and ends everything.
func (g *game) close(ctx context.Context) (err error) {
	if g.node != nil {
		err = g.node.Leave(ctx)
	}
	for len(g.ends) > 0 {
		last := len(g.ends) - 1
		err = errors.Join(err, g.ends[last](ctx))
		g.ends = g.ends[:last]
	}
	return err
}
