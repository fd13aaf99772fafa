package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// start makes a system with the actor /shop, which has the child /shop/till.
func start(t *testing.T) (*actor.System, actor.Ref[int]) {
	t.Helper()
	sys := actor.NewSystem("game", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ready := make(chan struct{})
	shop := actor.SpawnFunc(sys, "shop", func(ctx *actor.Context[int], n int) error {
		if n == 0 {
			actor.SpawnFunc(ctx, "till", func(*actor.Context[int], int) error { return nil })
			close(ready)
		}
		return nil
	})
	shop.Tell(t.Context(), 0)
	<-ready
	return sys, shop
}

func run(t *testing.T, c *console.Console, line string) string {
	t.Helper()
	out, err := c.Run(t.Context(), line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

func TestCommandsShowTheActors(t *testing.T) {
	t.Parallel()
	sys, shop := start(t)
	c := console.New(sys, console.Config{})
	for line, says := range map[string]string{
		"list":                       "/shop",
		"list /shop":                 "/shop/till",
		"list " + shop.String():      "/shop/till",
		"info /shop":                 `"path": "/shop"`,
		"info " + shop.String():      `"handled"`,
		"timers /shop":               "EVERY MS",
		"task":                       "WAITS FOR",
		"task /shop":                 "no handler waits\n",
		"uniqtask /shop":             "no handler waits\n",
		"uniqtask":                   "ACTORS",
		"top children":               "/shop",
		"stat":                       "actors",
		"mem":                        "heap_bytes",
		"gc":                         "took_ms",
		"ping":                       "pong",
		"deadletters":                "REASON",
		"help":                       "kill ADDRESS",
		"help list":                  "list [ADDRESS]",
		`complete "li"`:              "list",
		`complete "list /s"`:         "list /shop",
		`complete "info /shop/"`:     "info /shop/till",
		`  list   "/shop"  `:         "/shop/till",
		`complete "top mailbox han"`: "",
		"tree":                       "\n    /shop/till ",
		"tree /shop":                 "\n  /shop/till ",
		"pprof":                      "goroutine profile: total",
		"pprof heap":                 "# HeapAlloc = ",
		`complete "pprof go"`:        "pprof goroutine",
	} {
		if out := run(t, c, line); !strings.Contains(out, says) {
			t.Errorf("%s: %q does not have %q", line, out, says)
		}
	}
}

// Each row of a table has a cell for each column.
func TestTheRowsOfTopFitItsColumns(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	var top []map[string]any
	if err := json.Unmarshal([]byte(run(t, console.New(sys, console.Config{}), "top children -o json")), &top); err != nil {
		t.Fatal(err)
	}
	if len(top) != 1 || top[0]["path"] != "/shop" || top[0]["children"] != 1.0 || top[0]["type"] != "func(int)" {
		t.Errorf("top children -o json has %v", top)
	}
}

func TestTaskSaysOfWhomNothingIsKnown(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	c := console.New(sys, console.Config{})
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	actor.SpawnFunc(sys, "busy", func(*actor.Context[int], int) error {
		close(begun)
		<-release
		return nil
	}).Tell(t.Context(), 1)
	<-begun
	for _, line := range []string{"task /busy", "uniqtask /busy"} {
		if out := run(t, c, line); !strings.HasPrefix(out, "the actor is busy") {
			t.Errorf("%s: %q", line, out)
		}
		if out, err := c.Run(t.Context(), strings.Replace(line, "busy", "nobody", 1)); err == nil {
			t.Errorf("of nobody: %q", out)
		}
	}
}

func TestAnAnswerIsJSONWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	c := console.New(sys, console.Config{})
	var actors []struct {
		Path     string
		Children int
	}
	if err := json.Unmarshal([]byte(run(t, c, "list /shop -o json")), &actors); err != nil {
		t.Fatal(err)
	}
	if len(actors) != 2 || actors[0].Path != "/shop" || actors[0].Children != 1 || actors[1].Path != "/shop/till" {
		t.Errorf("list -o json has %+v", actors)
	}
	if out := run(t, c, "ping -o json"); out != "\"pong\"\n" {
		t.Errorf("ping -o json has %q", out)
	}
}

func TestOrdersEndAnActor(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"kill", "stop", "drain"} {
		sys, shop := start(t)
		c := console.New(sys, console.Config{})
		ended := make(chan actor.Down, 1)
		sys.AfterEnd(shop.PID(), func(d actor.Down) { ended <- d })
		if out := run(t, c, order+" /shop"); out != "" {
			t.Errorf("%s says %q", order, out)
		}
		<-ended
		if _, err := c.Run(t.Context(), order+" /shop"); err == nil || !strings.Contains(err.Error(), "no actor has the path") {
			t.Errorf("%s of what has ended: %v", order, err)
		}
	}
}

func TestMistakesAreSaid(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	c := console.New(sys, console.Config{})
	c.Add(console.Command{Name: "panics", Run: func(context.Context, []string) (any, error) { panic("no") }})
	for line, says := range map[string]string{
		"lst":            `no command "lst"; help`,
		"info":           "usage: info ADDRESS",
		"info /a /b":     "usage: info ADDRESS",
		"info /nobody":   `no actor has the path "/nobody"`,
		"info nobody":    "an address is a path such as",
		"info game/a#99": "no living actor",
		"list nobody":    "an address is a path such as",
		`info "/shop`:    "must end with a quote",
		"top size":       "not \"size\"",
		"log size":       "usage: log level",
		"log level info": "has not given",
		"help lst":       `no command "lst"`,
		"panics":         "panics: panic: no",
	} {
		if out, err := c.Run(t.Context(), line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v, want an error with %q", line, out, err, says)
		}
	}
	if _, err := c.Run(t.Context(), strings.Repeat("x", console.MaxLine+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a long line: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second command of a name was added")
		}
	}()
	c.Add(console.Command{Name: "panics", Run: func(context.Context, []string) (any, error) { return nil, nil }})
}

func TestTheLevelOfTheLogIsSet(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	level := new(slog.LevelVar)
	c := console.New(sys, console.Config{Level: level})
	if out := run(t, c, "log level"); out != "INFO\n" {
		t.Errorf("the level is %q", out)
	}
	if out := run(t, c, "log level debug"); out != "DEBUG\n" || level.Level() != slog.LevelDebug {
		t.Errorf("the level is %q and %v", out, level)
	}
	if _, err := c.Run(t.Context(), "log level loud"); err == nil || !strings.Contains(err.Error(), `not "loud"`) {
		t.Errorf("log level loud: %v", err)
	}
}

// TestTaskShowsWhoWaitsForWhom has /asker ask /busy, which answers when it is let.
func TestTaskShowsWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	type question struct{ actor.Returns[int] }
	begun, answer := make(chan struct{}), make(chan struct{})
	busy := actor.SpawnFunc(sys, "busy", func(ctx *actor.Context[question], _ question) error {
		close(begun)
		<-answer
		actor.Reply(ctx, question{}, 1)
		return nil
	})
	asked := make(chan error, 1)
	asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[int], _ int) error {
		_, err := actor.Ask(ctx, busy, question{})
		asked <- err
		return nil
	})
	asker.Tell(t.Context(), 1)
	<-begun
	c := console.New(sys, console.Config{})
	for _, line := range []string{"task", "task /asker", "uniqtask"} {
		for began := time.Now(); !strings.Contains(run(t, c, line), "/busy"); _ = pause.For(t.Context(), time.Millisecond) {
			if time.Since(began) > time.Minute { // the question may be there before the asker waits
				t.Fatalf("%s: %q does not have /busy", line, run(t, c, line))
			}
		}
	}
	if out := run(t, c, "task /busy"); strings.Contains(out, "/asker") {
		t.Errorf("task /busy: %q", out)
	}
	close(answer)
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

// socket serves a console on a socket until the test ends.
func socket(t *testing.T, c *console.Console) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gr") // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "console.sock")
	ln, err := console.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- c.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	return path
}

func TestTheSocketAnswersAsSkynetDoes(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	type record struct {
		line string
		err  error
	}
	records := make(chan record, 10)
	c := console.New(sys, console.Config{Record: func(_ context.Context, line string, err error) { records <- record{line, err} }})
	c.Add(console.Command{Name: "say", Least: 1, Most: 1, Run: func(_ context.Context, args []string) (any, error) { return args[0], nil }})
	path := socket(t, c)
	at, err := os.Stat(path)
	if err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("the socket has %v, %v", at.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, tt := range []struct{ line, want string }{
		{"ping", "pong\n<CMD OK>\n"},
		{"", "<CMD OK>\n"},
		{"kill /nobody", "no actor has the path \"/nobody\"; list shows paths\n<CMD Error>\n"},
		{"stop /shop", "<CMD OK>\n"},
		{`say "a\n<CMD OK>\n\x1b[31mred"`, "a\n <CMD OK>\n\\x1b[31mred\n<CMD OK>\n"},
	} {
		fmt.Fprintln(conn, tt.line)
		got := ""
		for !strings.HasSuffix("\n"+got, "\n<CMD OK>\n") && !strings.HasSuffix("\n"+got, "\n<CMD Error>\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %q, %v", tt.line, got, err)
			}
			got += line
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
	}
	if r := <-records; r.line != "kill /nobody" || r.err == nil {
		t.Errorf("recorded %+v", r)
	}
	if r := <-records; r.line != "stop /shop" || r.err != nil {
		t.Errorf("recorded %+v", r)
	}
	if len(records) != 0 {
		t.Errorf("what changes nothing was recorded: %+v", <-records)
	}
}

func TestCallReturnsWhatTheConsoleAnswers(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	path := socket(t, console.New(sys, console.Config{}))
	if out, err := console.Call(t.Context(), path, "ping"); out != "pong\n" || err != nil {
		t.Errorf("ping: %q, %v", out, err)
	}
	_, err := console.Call(t.Context(), path, "png")
	if said, ok := errors.AsType[*console.Error](err); !ok || !strings.Contains(said.Text, `no command "png"`) {
		t.Errorf("png: %v", err)
	}
	if _, err := console.Call(t.Context(), path, "a\nb"); err == nil {
		t.Error("two lines were sent as one")
	}
	if _, err := console.Listen(path); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second listener: %v", err)
	}
}

func TestASocketThatWasLeftIsReplaced(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "gr")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err := console.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := console.Listen(path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file in its place: %v", err)
	}
	if _, err := console.Listen(filepath.Join(dir, strings.Repeat("x", 200))); err == nil || !strings.Contains(err.Error(), "at most 100 bytes") {
		t.Errorf("a long path: %v", err)
	}
}

func TestFurtherConnectionsAreTurnedAway(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	path := socket(t, console.New(sys, console.Config{}))
	for i := range 16 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintln(conn, "ping")
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "16 connections") {
		t.Errorf("the 17th connection is told %q, %v", line, err)
	}
}

// said is a message that tells trace what it says.
type said int

func (s said) Content() string { return fmt.Sprint("said ", int(s)) }

func TestTraceAndTopShowWhatIsHandled(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	busy := actor.SpawnFunc(sys, "busy", func(ctx *actor.Context[said], n said) error {
		ctx.Self().Tell(ctx, n+1)
		return nil
	})
	c := console.New(sys, console.Config{MaxTime: time.Minute})
	lines := make(chan string, 1)
	go func() {
		out, err := c.Run(context.Background(), "trace /busy 3")
		lines <- fmt.Sprint(out, err)
	}()
	busy.Tell(t.Context(), 1)
	rows := strings.Split(strings.TrimSpace(<-lines), "\n")
	if len(rows) < 4 || !strings.Contains(rows[1], "console_test.said") || !strings.Contains(rows[1], "said ") {
		t.Errorf("trace shows %q", rows)
	}
	if out := run(t, c, "top time"); !strings.Contains(out, "/busy") || !strings.Contains(out, "PERCENT") {
		t.Errorf("top time shows %q", out)
	}
	for line, want := range map[string]string{
		"trace /busy 0": "the count must be from 1 to 200", "trace /none": "no actor has the path", "tree /none": "no actor has the path",
		"pprof nonsense": "the profile must be one of",
	} {
		if _, err := c.Run(t.Context(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// last is a message that ends the command that asks what it says.
type last struct{ ask func() }

func (l last) Content() string {
	l.ask()
	return "the last"
}

func TestTraceReadsNoMoreMessagesThanItHasTimeFor(t *testing.T) {
	t.Parallel()
	sys, _ := start(t)
	asked, end := 0, func() {}
	message := last{func() { asked++; end() }}
	busy := actor.SpawnFunc(sys, "busy", func(ctx *actor.Context[last], m last) error {
		ctx.Self().Tell(ctx, m)
		return nil
	})
	c := console.New(sys, console.Config{})
	busy.Tell(t.Context(), message)
	for asked == 0 { // a slow machine may show none in time
		var ctx context.Context
		ctx, end = context.WithCancel(t.Context())
		out, err := c.Run(ctx, "trace /busy 3")
		if err != nil || asked > 1 || asked == 1 && !strings.Contains(out, "and more messages") {
			t.Fatalf("%d messages are asked; %v\n%s", asked, err, out)
		}
		end()
	}
}
