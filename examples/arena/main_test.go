package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/killtest"
)

// childNode has this program be a node until it is killed: its name, and the address of the NATS server.
const childNode = "GREENROOM_ARENA_NODE"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if name, join, ok := strings.Cut(os.Getenv(childNode), " "); ok {
		_, err := start(context.Background(), config{
			name: name, join: join, listen: "127.0.0.1:0", secret: secret, ttl: ttl, bots: bots,
			given: func(player, gem string) { fmt.Println("given", player, gem) },
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

const (
	secret = "only for these tests"
	ttl    = 10 * time.Minute // longer than the test: who is killed is not waited for
	bots   = 10               // on each node
)

// ledger is what has come to players, and was acknowledged.
type ledger struct {
	mu   sync.Mutex
	gems map[string]string // whose they are
	news chan struct{}     // closed at each one
}

func (l *ledger) given(player, gem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gems[gem] = player
	close(l.news)
	l.news = make(chan struct{})
}

// until waits until a condition holds, and returns all gems.
func (l *ledger) until(ctx context.Context, t *testing.T, what string, holds func(gems map[string]string) bool) map[string]string {
	t.Helper()
	for {
		l.mu.Lock()
		gems, news := make(map[string]string), l.news
		for gem, player := range l.gems {
			gems[gem] = player
		}
		l.mu.Unlock()
		if holds(gems) {
			return gems
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("%s: of %d gems", what, len(gems))
		}
	}
}

// follow enters in the ledger what a node says.
func (l *ledger) follow(lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // it was killed: the last line may be half a one
		}
		var player, gem string
		if n, _ := fmt.Sscanf(line, "given %s %s", &player, &gem); n == 2 {
			l.given(player, gem)
		}
	}
}

// TestNoItemIsLostWhenANodeIsKilled has bots play on three nodes, two of which have rooms and players. It kills
// the one with a room in which this process plays: it goes on elsewhere, and all have what they were given,
// once.
func TestNoItemIsLostWhenANodeIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	g, err := start(ctx, config{
		name: "t", serve: "127.0.0.1:0", dir: t.TempDir(), listen: "127.0.0.1:0", secret: secret, ttl: ttl, bots: bots, away: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	l := &ledger{gems: make(map[string]string), news: make(chan struct{})}
	nodes := make(map[string]*exec.Cmd)
	for _, name := range []string{"a", "b"} {
		cmd, lines := killtest.Start(t, childNode+"="+name+" "+g.config.join)
		nodes[name] = cmd
		go l.follow(lines)
	}
	here := func(gems, but map[string]string, room string) (rooms []string) {
		for gem, player := range gems {
			_, old := but[gem]
			if of, _, _ := strings.Cut(gem, "/"); !old && strings.HasPrefix(player, "bot-t-") && (room == "" || of == room) {
				rooms = append(rooms, of)
			}
		}
		return rooms
	}
	started := l.until(ctx, t, "players of this node are given something", func(gems map[string]string) bool {
		return len(gems) > 30 && len(here(gems, nil, "")) > 3
	})
	room := here(started, nil, "")[0]
	victim, ok := g.rooms.Owner(room)
	if !ok {
		t.Fatalf("nobody has %s", room)
	}
	killed := time.Now()
	if err := nodes[victim].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = nodes[victim].Wait()
	before := l.until(ctx, t, "", func(map[string]string) bool { return true })
	l.until(ctx, t, room+" goes on", func(gems map[string]string) bool { return len(here(gems, before, room)) > 0 })
	t.Logf("%s had %s, which has given the next gem %v after it was killed", victim, room, time.Since(killed))
	gems := l.until(ctx, t, room+" goes on", func(gems map[string]string) bool { return len(here(gems, before, room)) > 3 })
	t.Logf("%d gems, %d of them before", len(gems), len(before))

	owners := make(map[string]string)
	for _, name := range []string{"a", "b", "t"} {
		for i := range bots {
			player := fmt.Sprintf("bot-%s-%d", name, i+1)
			items, err := actor.AskFor[[]string](ctx, g.players.Ref(player), Items{})
			if err != nil {
				t.Fatalf("%s: %v", player, err)
			}
			for _, gem := range items {
				if other, ok := owners[gem]; ok {
					t.Errorf("%s belongs to %s and to %s", gem, other, player)
				}
				owners[gem] = player
			}
		}
	}
	for gem, player := range gems {
		if owners[gem] != player {
			t.Errorf("%s was given to %s, and belongs to %q", gem, player, owners[gem])
		}
	}
}

// TestAPlayerInTheBrowserKeepsItsGems plays over a WebSocket, and starts the program again.
func TestAPlayerInTheBrowserKeepsItsGems(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := config{name: "a", dir: t.TempDir()}
	g, err := start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(g.handler())
	conn, answer, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(web.URL, "http")+"/play?name=ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer
	me := &session{player: "ann"}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var s Screen
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Top, func(line Score) bool { return line.Name == "ann" }) {
			break
		}
		dx, dy := me.toNearest(s.View)
		if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"DX":%d,"DY":%d}`, dx, dy)); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.CloseNow()
	web.Close()
	if err := g.close(ctx); err != nil {
		t.Fatal(err)
	}

	if g, err = start(ctx, c); err != nil {
		t.Fatal(err)
	}
	items, err := actor.AskFor[[]string](ctx, g.players.Ref("ann"), Items{})
	if err != nil || len(items) == 0 {
		t.Errorf("after a restart ann has %v: %v", items, err)
	}
	if err := g.close(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestNamesThatCannotBeAreRefused(t *testing.T) {
	g := &game{}
	for _, name := range []string{"", "A", "a/b", strings.Repeat("a", 21)} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/play", nil)
		r.URL.RawQuery = "name=" + name
		if g.handler().ServeHTTP(w, r); w.Code != 400 {
			t.Errorf("%q is answered with %d", name, w.Code)
		}
	}
}
