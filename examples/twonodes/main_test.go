package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/killtest"
)

// TestMain makes the test's program the example's, for those that it starts.
func TestMain(m *testing.M) {
	if os.Getenv("TWONODES") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// node is a process that is a node.
type node struct {
	*exec.Cmd
	out *bufio.Reader
}

func start(t *testing.T, args ...string) *node {
	t.Helper()
	cmd, out := killtest.Start(t, "TWONODES=1", args...)
	return &node{cmd, out}
}

// says reads a line and returns what comes after the prefix that it must have.
func (n *node) says(t *testing.T, prefix string) string {
	t.Helper()
	line, err := n.out.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prefix)
	if !ok {
		t.Fatalf("it says %q and not %q; %v", line, prefix, err)
	}
	return rest
}

func TestANodeHearsOfAnotherThatIsKilled(t *testing.T) {
	t.Parallel()
	a := start(t, "-listen", "127.0.0.1:0")
	b := start(t, "-peer", a.says(t, "node a listens at "), "-resume", "500ms")
	b.says(t, "/counter of node a has 7")
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.says(t, "it has ended: no_connection")
	if text := b.says(t, "asked again: "); !strings.HasSuffix(text, "node unreachable") {
		t.Errorf("asked again: %s", text)
	}
	_, _ = io.Copy(io.Discard, b.out)
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
}

func TestANodeHearsOfTheEndOfAnActorOfANodeThatLeaves(t *testing.T) {
	t.Parallel()
	a := start(t, "-listen", "127.0.0.1:0")
	b := start(t, "-peer", a.says(t, "node a listens at "))
	b.says(t, "/counter of node a has 7")
	if err := a.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	b.says(t, "it has ended: stopped")
	b.says(t, "asked again: ")
	if err := a.Wait(); err != nil {
		t.Error(err)
	}
}
