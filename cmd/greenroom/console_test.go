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
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
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
	for began := time.Now(); time.Since(began) < 2*patience; pause.For(s.t.Context(), 20*time.Millisecond) {
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
