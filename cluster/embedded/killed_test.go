package embedded_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// childServer has this program be a server of a cluster, with an engine in the same process.
const childServer = "GREENROOM_EMBEDDED_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(childServer); text != "" {
		if err := runServer(text); err != nil {
			fmt.Println("ended", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// runServer puts numbers at a key of its own, and says what was taken and what it sees of the others. Who is started
// again goes on from what the map has.
func runServer(text string) error {
	var cfg embedded.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	cfg.Log = quiet
	s, err := embedded.Start(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	nc, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	engine, err := nats.Open(ctx, nc, nats.Config{Replicas: 3, Log: quiet})
	if err != nil {
		return err
	}
	engine.Watch("n/", func(e cluster.Entry) { fmt.Println("saw", strings.TrimPrefix(e.Key, "n/"), string(e.Value)) })
	var n int
	var rev cluster.Revision
	for ; pause.For(ctx, 50*time.Millisecond) == nil; n++ {
		once, cancel := context.WithTimeout(ctx, time.Second)
		at, err := engine.Put(once, "n/"+cfg.Name, []byte(strconv.Itoa(n+1)), rev)
		if err == nil {
			rev = at
			fmt.Println("put", cfg.Name, n+1)
		} else if e, getErr := engine.Get(once, "n/"+cfg.Name); getErr == nil || errors.Is(getErr, cluster.ErrNotFound) {
			rev, n = e.Revision, max(n, atoi(string(e.Value)))
		}
		cancel()
	}
	return nil
}

// The times of these tests. An election takes 4 to 9 seconds.
const (
	limit         = 2 * time.Minute
	catchUpWithin = 3 * time.Second // for a server that has lost its data
)

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// trio is three such processes.
type trio struct {
	t     *testing.T
	cfgs  map[string]embedded.Config
	cmds  map[string]*exec.Cmd
	mu    sync.Mutex
	acked map[string]int            // guarded by mu: the last number of each that was taken
	seen  map[string]map[string]int // guarded by mu: the last number that one has seen of another
	wrong string                    // guarded by mu: what must not be
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	routes, err := ports(3)
	if err != nil {
		t.Fatal(err)
	}
	w := &trio{t: t, cfgs: make(map[string]embedded.Config), cmds: make(map[string]*exec.Cmd), acked: make(map[string]int), seen: make(map[string]map[string]int)}
	for i, addr := range routes {
		name := fmt.Sprint("s", i+1)
		w.cfgs[name] = embedded.Config{Name: name, Dir: t.TempDir(), RouteAddr: addr, Routes: routes, Secret: secret, Unsynced: true}
		w.start(name)
	}
	return w
}

func (w *trio) start(name string) {
	w.t.Helper()
	text, err := json.Marshal(w.cfgs[name]) //nolint:staticcheck // RouteTLS, which has functions, is nil
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.seen[name] = make(map[string]int)
	w.mu.Unlock()
	cmd, out := killtest.Start(w.t, childServer+"="+string(text))
	w.cmds[name] = cmd
	go w.read(name, out)
}

func (w *trio) read(name string, out *bufio.Reader) {
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			return
		}
		f := strings.Fields(line)
		w.mu.Lock()
		switch {
		case f[0] == "ended":
			w.wrong = name + " has " + line
		case f[0] == "put" && len(f) == 3:
			if n := atoi(f[2]); n <= w.acked[name] {
				w.wrong = fmt.Sprintf("%s was at %d, and now %d is taken: what was acknowledged is lost", name, w.acked[name], n)
			} else {
				w.acked[name] = n
			}
		case f[0] == "saw" && len(f) == 3:
			if before, n := w.seen[name][f[1]], atoi(f[2]); n < before {
				w.wrong = fmt.Sprintf("%s has seen %d of %s after %d", name, n, f[1], before)
			} else {
				w.seen[name][f[1]] = n
			}
		}
		w.mu.Unlock()
	}
}

func (w *trio) kill(name string) {
	w.t.Helper()
	if err := w.cmds[name].Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = w.cmds[name].Wait()
}

// agree waits until each of some has seen what all of them have put after the call, and returns how long that took.
func (w *trio) agree(names ...string) time.Duration {
	w.t.Helper()
	began, from := time.Now(), make(map[string]int)
	w.mu.Lock()
	for _, name := range names {
		from[name] = w.acked[name]
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	for {
		w.mu.Lock()
		wrong, missing := w.wrong, ""
		for _, one := range names {
			for _, other := range names {
				if w.seen[one][other] <= from[other] {
					missing = one + " has seen nothing of " + other
				}
			}
		}
		w.mu.Unlock()
		if wrong != "" {
			w.t.Fatal(wrong)
		}
		if missing == "" {
			return time.Since(began)
		}
		if pause.For(ctx, 5*time.Millisecond) != nil {
			w.t.Fatalf("in %v %s", limit, missing)
		}
	}
}

// TestAServerThatReturnsIsCaughtUp kills one of three, starts it again, with what it had or without, and then kills
// another one: what the two have left goes on, their watches as well, and nothing that was taken is lost.
func TestAServerThatReturnsIsCaughtUp(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]bool{"with its data": false, "without its data": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTrio(t)
			w.agree("s1", "s2", "s3")
			w.kill("s1")
			t.Logf("two agree %v after the first was killed", w.agree("s2", "s3"))
			if loses {
				if err := os.RemoveAll(filepath.Join(w.cfgs["s1"].Dir, "nats-cluster")); err != nil {
					t.Fatal(err)
				}
			}
			w.start("s1")
			t.Logf("three agree %v after it was started again", w.agree("s1", "s2", "s3"))
			if loses { // only one has all, until it has got it from that
				_ = pause.For(t.Context(), catchUpWithin)
			}
			w.kill("s2")
			t.Logf("two agree %v after the second was killed", w.agree("s1", "s3"))
			w.start("s2")
			t.Logf("three agree %v after that was started again", w.agree("s1", "s2", "s3"))
		})
	}
}
