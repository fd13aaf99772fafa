package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/lua"
	"github.com/greenroom-go/greenroom/server"
)

// startConsole runs a server with a console, and returns the path of its socket.
func startConsole(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gr") // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := server.ConsoleSocket(dir)
	s, err := server.New(t.Context(), server.Config{DataDir: dir, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Console: socket, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := os.Lstat(socket); err == nil {
			t.Error("the socket is left")
		}
	})
	return socket
}

func TestConsoleRunsTheLinesOfAPipe(t *testing.T) {
	t.Parallel()
	socket := startConsole(t)
	words := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(words, []byte("list /e"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := func(lines string) (string, error) {
		var out bytes.Buffer
		root := newRoot()
		root.SetArgs([]string{"console", "--socket", socket})
		root.SetIn(strings.NewReader(lines))
		root.SetOut(&out)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := pipe("ping\nlist /entities\ncomplete @" + words + "\n"); err != nil || !strings.HasPrefix(out, "pong\n") || !strings.HasSuffix(out, "\nlist /entities\n") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := pipe("ping\nnonsense\nping\n"); err == nil || out != "pong\n" || !strings.Contains(err.Error(), `no command "nonsense"`) {
		t.Errorf("%q, %v", out, err)
	}
	if _, errs := command(t, exitFailed, "console", "--data", t.TempDir()); !strings.Contains(errs, "start a server with greenroom serve") {
		t.Errorf("without a server: %q", errs)
	}
}

func TestConsoleOnATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux; make setup installs it")
	}
	socket := startConsole(t)
	s := startTerminal(t, filepath.Dir(socket), build(t)+" console --socket "+socket)
	s.until(">")
	s.keys("-l", "pi")
	s.keys("Tab", "Enter")
	s.until("> ping", "pong")
	s.keys("-l", "list /ent")
	s.until("> list /ent")
	s.keys("Tab", "Enter")
	s.until("> list /entities", "CHILDREN")
	s.keys("-l", "st")
	s.until("> st")
	s.keys("Tab") // stat or stop
	s.until("stat  stop")
	s.keys("-l", "at")
	s.keys("Enter")
	s.until("deadletters")
	s.keys("-l", "nonsense")
	s.keys("Enter")
	s.until(`no command "nonsense"`)
	s.keys("C-d")
	s.until("ended with 0")
	s.keys("-l", "again")
	s.keys("Enter") // the shell runs it anew
	s.until("ended with 0", "again", ">")
	s.keys("Up", "Up", "Up", "Up") // nonsense, stat, list, ping
	s.until("again", "> ping")
	s.keys("Enter")
	s.until("again", "> ping", "pong")
}

// bank is a service with a handler that waits, and a sender that never ends.
var bank = fstest.MapFS{
	"bank.lua": {Data: []byte(`local greenroom, accounts, CMD = require "greenroom", {ann = 5}, {}
function CMD.hold() greenroom.sleep(1e6) end
function CMD.tick(n) greenroom.timeout(1, function() greenroom.send(".bank", "tick", n) end) end
greenroom.start(function() greenroom.register(".bank") end)
greenroom.dispatch(function(cmd, ...) greenroom.ret(CMD[cmd](...), accounts) end)
`)},
}

// The console of a program with services in Lua, used over a terminal.
func TestConsoleOfServicesOnATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("needs tmux; make setup installs it")
	}
	dir, err := os.MkdirTemp("", "gr") // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sys := actor.NewSystem("game", actor.WithLogger(slog.New(slog.DiscardHandler)))
	rt, err := lua.Open(sys, lua.Config{Path: bank})
	if err != nil {
		t.Fatal(err)
	}
	service, err := rt.Spawn(sys, "bank", "bank.lua")
	if err != nil {
		t.Fatal(err)
	}
	level := new(slog.LevelVar)
	c := console.New(sys, console.Config{Level: level, MaxTime: time.Minute})
	c.Add(rt.Commands(c)...)
	socket := filepath.Join(dir, "game.sock")
	ln, err := console.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		now, end := context.WithTimeout(context.Background(), patience)
		defer end()
		service.Kill() // its handler sleeps for hours
		if _, err := sys.Shutdown(now); err != nil {
			t.Error(err)
		}
	})
	s := startTerminal(t, dir, build(t)+" console --socket "+socket)
	s.until(">")
	for _, step := range []struct {
		line  string
		shows []string
	}{
		{"list", []string{"PATH", "/bank"}},
		{"tree", []string{"\n  /bank"}},
		{"service", []string{"FILE", "bank.lua", ".bank"}},
		{`inject .bank "return _P.accounts.ann"`, []string{"5"}},
		{`inject .bank "_P.accounts.ann = 7041"`, nil},
		{`inject .bank "return _P.accounts.ann"`, []string{"7041"}},
		{"send .bank hold", nil},
		{"call .bank tick 1959", []string{`"ann": 7041`}}, // and hold has begun before that
		{"task /bank", []string{"waits for sleep", "bank.lua:2"}},
		{"uniqtask /bank", []string{"1 ×", "waits for sleep"}},
		{"trace /bank 4", []string{"CONTENT", `"tick" 1959`}},
		{"stat", []string{"handled", "deadletters"}},
		{"mem", []string{"heap_bytes", "goroutines"}},
		{"gc", []string{"heap_bytes_after", "took_ms"}},
		{"info /bank", []string{`"path": "/bank"`, `"handled"`}},
		{"log level debug", []string{"DEBUG"}},
		{"kill /bank", nil},
		{"service", []string{"FILE"}},
		{"ping", []string{"pong"}},
	} {
		s.keys("C-l") // the screen has this answer only
		s.keys("-l", step.line)
		s.keys("Enter")
		s.until(append(append([]string{"> " + step.line}, step.shows...), "\n>")...)
	}
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", level.Level())
	}
	if down, err := service.Wait(t.Context()); err != nil || down.Reason != actor.Killed && down.Reason != actor.NoActor {
		t.Errorf("the service has ended with %+v, %v", down, err)
	}
	s.keys("C-d")
	s.until("ended with 0")
}

// terminal is a session of tmux.
type terminal struct {
	t   *testing.T
	dir string
}

// startTerminal runs a command twice in a terminal, the second time after a line.
func startTerminal(t *testing.T, dir, line string) *terminal {
	t.Helper()
	s := &terminal{t, dir}
	script := "export GREENROOM_HISTORY=" + filepath.Join(dir, "history") + "\n" + line + "\necho ended with $?\nread word\n" + line + "\n"
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	s.tmux("-f", os.DevNull, "new-session", "-d", "-x", "200", "-y", "100", "sh "+filepath.Join(dir, "script"))
	t.Cleanup(sync.OnceFunc(func() { s.tmux("kill-server") }))
	return s
}

func (s *terminal) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), "tmux", append([]string{"-S", filepath.Join(s.dir, "tmux")}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *terminal) keys(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// until waits until the screen shows the texts, in this order.
func (s *terminal) until(texts ...string) {
	s.t.Helper()
	screen := ""
	for began := time.Now(); time.Since(began) < 2*patience; _ = pause.For(s.t.Context(), 20*time.Millisecond) {
		screen = s.tmux("capture-pane", "-p")
		rest, found := screen, true
		for _, text := range texts {
			_, rest, found = strings.Cut(rest, text)
			if !found {
				break
			}
		}
		if found {
			return
		}
	}
	s.t.Fatalf("the screen does not show %q:\n%s", texts, strings.TrimSpace(screen))
}
