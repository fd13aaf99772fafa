// Arena is a game in the browser: players collect gems in rooms, and a leaderboard counts them. Rooms and
// players are durable virtual actors, the matchmaker and the leaderboard singletons.
//
//	go run ./examples/arena                        # play at http://127.0.0.1:8090
//
// On three nodes, of which any but the one that serves NATS may be killed:
//
//	go run ./examples/arena --name a --serve 127.0.0.1:4222 --dir /tmp/arena
//	go run ./examples/arena --name b --join nats://127.0.0.1:4222 --addr 127.0.0.1:8091
//	go run ./examples/arena --name c --join nats://127.0.0.1:4222 --addr 127.0.0.1:8092
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	var c config
	addr := flag.String("addr", "127.0.0.1:8090", "serve the page at this `address`")
	flag.StringVar(&c.name, "name", "a", "the `name` of this node, its own in the cluster")
	flag.StringVar(&c.dir, "dir", "", "keep what is recorded in this `directory`; by default a temporary one")
	flag.StringVar(&c.serve, "serve", "", "begin a cluster, with a NATS server at this `address`")
	flag.StringVar(&c.join, "join", "", "join the cluster with the NATS server at this `URL`")
	flag.StringVar(&c.listen, "listen", "127.0.0.1:0", "listen at this `address` for the other nodes")
	flag.StringVar(&c.secret, "secret", cmp.Or(os.Getenv("ARENA_SECRET"), "for loopback only"), "what all nodes know")
	flag.DurationVar(&c.ttl, "ttl", 5*time.Second, "for how long a node may be silent")
	flag.IntVar(&c.bots, "bots", 6, "how many bots play on this node")
	flag.IntVar(&c.pace, "pace", 2, "how many tenths of a second a bot takes for a step")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := serve(ctx, c, *addr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "arena:", err)
		os.Exit(1)
	}
}

// serve plays until ctx ends.
func serve(ctx context.Context, c config, addr string) (err error) {
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "arena"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	g, err := start(ctx, c)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	web := &http.Server{Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	fmt.Printf("play at http://%s\n", l.Addr())
	if c.serve != "" {
		fmt.Printf("others join with --join nats://%s\n", c.serve)
	}
	select {
	case <-ctx.Done():
	case <-g.node.Done():
		err = g.node.Err()
	case err = <-ended:
	}
	late, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return errors.Join(err, web.Close(), g.close(late))
}
