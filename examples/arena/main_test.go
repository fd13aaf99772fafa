package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
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

// childNode has this program be a node until it is killed: its name, the address of the NATS server, its bots and
// their pace.
const childNode = "GREENROOM_ARENA_NODE"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	c := config{
		listen: "127.0.0.1:0", secret: secret, ttl: ttl,
		given: func(player, gem string) { fmt.Println("given", player, gem) },
	}
	if n, _ := fmt.Sscan(os.Getenv(childNode), &c.name, &c.join, &c.bots, &c.pace); n == 4 {
		_, err := start(context.Background(), c)
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
	ttl    = 30 * time.Minute // longer than the test: who is killed is not waited for
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
		gems, news := maps.Clone(l.gems), l.news
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

// byRoom counts what each room has given, leaving out some gems, and players of a node.
func (l *ledger) byRoom(but map[string]string, without string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	rooms := make(map[string]int)
	for gem, player := range l.gems {
		if _, old := but[gem]; !old && !strings.HasPrefix(player, "bot-"+without+"-") {
			room, _, _ := strings.Cut(gem, "/")
			rooms[room]++
		}
	}
	return rooms
}

func TestNoItemIsLostWhenANodeIsKilled(t *testing.T) {
	t.Parallel()
	killANode(t, 10, 2)
}

// TestNoItemIsLostUnderAThousandBots is the same with 1002 bots, which take a step a second. It is tested without the
// race detector.
func TestNoItemIsLostUnderAThousandBots(t *testing.T) {
	t.Parallel()
	killANode(t, 334, 10)
}

// killANode has bots play on three nodes, two of which have rooms and players. It kills the one with most rooms: all
// of them go on elsewhere, and all have what they were given, once.
func killANode(t *testing.T, bots, pace int) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	g, err := start(ctx, config{
		name: "t", serve: "127.0.0.1:0", dir: t.TempDir(), listen: "127.0.0.1:0", secret: secret, ttl: ttl, bots: bots, pace: pace, away: true,
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
	nodes, followed := make(map[string]*exec.Cmd), make(map[string]chan struct{})
	for _, name := range []string{"a", "b"} {
		cmd, lines := killtest.Start(t, fmt.Sprintf("%s=%s %s %d %d", childNode, name, g.config.join, bots, pace))
		end := make(chan struct{})
		nodes[name], followed[name] = cmd, end
		go func() {
			defer close(end)
			l.follow(lines)
		}()
	}
	// The rooms of a node in which players of others have been given something.
	rooms := func(node string) (names []string) {
		for room := range l.byRoom(nil, node) {
			if owner, _ := g.rooms.Owner(room); owner == node {
				names = append(names, room)
			}
		}
		return names
	}
	victim, watched := "", []string(nil)
	l.until(ctx, t, "the bots play", func(gems map[string]string) bool {
		if len(gems) < 3*bots {
			return false
		}
		for _, node := range []string{"a", "b"} {
			if names := rooms(node); len(names) > len(watched) {
				victim, watched = node, names
			}
		}
		return victim != ""
	})
	killed := time.Now()
	if err := nodes[victim].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-followed[victim] // to the last word
	_ = nodes[victim].Wait()
	before := l.until(ctx, t, "", func(map[string]string) bool { return true })
	went := 0
	l.until(ctx, t, "the rooms go on", func(map[string]string) bool {
		after := l.byRoom(before, "")
		on := 0
		for _, room := range watched {
			if after[room] > 0 {
				on++
			}
		}
		if on > 0 && went == 0 || on > went && on == len(watched) {
			t.Logf("%d of the %d rooms of %s have given a gem elsewhere %v after it was killed", on, len(watched), victim, time.Since(killed))
		}
		went = on
		return on == len(watched)
	})
	gems := l.until(ctx, t, "", func(map[string]string) bool { return true })
	t.Logf("%d bots: %d gems, %d of them before", 3*bots, len(gems), len(before))
	g.expectGems(ctx, t, bots, gems)
}

// expectGems checks that the bots of all nodes have what they were given, and nobody has what another one has.
func (g *game) expectGems(ctx context.Context, t *testing.T, bots int, gems map[string]string) {
	t.Helper()
	owners := make(map[string]string)
	for _, name := range []string{"a", "b", "t"} {
		for i := range bots {
			player := fmt.Sprintf("bot-%s-%d", name, i+1)
			items, err := actor.AskFor[[]string](ctx, g.players.Ref(player), Items{}, actor.Within(time.Minute))
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
		r := httptest.NewRequest(http.MethodGet, "/play", nil)
		r.URL.RawQuery = "name=" + name
		if g.handler().ServeHTTP(w, r); w.Code != 400 {
			t.Errorf("%q is answered with %d", name, w.Code)
		}
	}
}
