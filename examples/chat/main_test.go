package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/killtest"
)

// TestMain makes the test's program the example's, for those that it starts.
func TestMain(m *testing.M) {
	if os.Getenv("CHAT") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// terminal is a process with its input and its output.
type terminal struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, args ...string) *terminal {
	t.Helper()
	cmd := killtest.Command(t, []string{"sh", "-c", `exec "$0" "$@" 2>&1`}, "CHAT=1", args...)
	cmd.Env = append(cmd.Env, "CHAT_SECRET=the secret of a test")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &terminal{cmd, in, killtest.Begin(t, cmd)}
}

// server starts the server, and returns its address, too.
func server(t *testing.T, args ...string) (s *terminal, addr string) {
	t.Helper()
	s = start(t, append(args, "-listen", "127.0.0.1:0")...)
	line, err := s.out.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "the server listens at ")
	if !ok {
		t.Fatalf("it says %q; %v", line, err)
	}
	return s, addr
}

func (c *terminal) types(t *testing.T, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, text); err != nil {
		t.Fatal(err)
	}
}

func (c *terminal) says(t *testing.T, want string) {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if got := strings.TrimSuffix(line, "\n"); got != want {
		t.Fatalf("it says %q and not %q; %v", got, want, err)
	}
}

func TestPeopleTalk(t *testing.T) {
	t.Parallel()
	_, addr := server(t)
	ann := start(t, "-server", addr, "-nick", "ann")
	ann.says(t, "here: ann")
	bob := start(t, "-server", addr, "-nick", "bob")
	bob.says(t, "here: ann, bob")
	ann.says(t, "bob is here")
	ann.types(t, "hello")
	bob.says(t, "ann: hello")
	bob.types(t, "/nick ann")
	bob.says(t, "not renamed: ask /room with main.rename: node server: somebody has that name")
	bob.types(t, "/nick bea")
	bob.says(t, "bob is bea now")
	ann.says(t, "bob is bea now")
	for range 3 {
		bob.types(t, "one")
		bob.types(t, "two")
		ann.says(t, "bea: one")
		ann.says(t, "bea: two")
	}
	ann.types(t, "/who")
	ann.says(t, "here: ann, bea")
	if err := bob.in.Close(); err != nil {
		t.Fatal(err)
	}
	ann.says(t, "bea has left: stopped")
	if err := bob.Wait(); err != nil {
		t.Error(err)
	}
}

func TestALineThatIsTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	_, addr := server(t)
	ann := start(t, "-server", addr, "-nick", "ann")
	ann.says(t, "here: ann")
	bob := start(t, "-server", addr, "-nick", "bob")
	bob.says(t, "here: ann, bob")
	ann.says(t, "bob is here")
	longest := strings.Repeat("x", maxLine)
	ann.types(t, longest+"x")
	ann.says(t, "not sent: a line must have at most 65536 bytes")
	ann.types(t, strings.Repeat(longest, 3))
	ann.says(t, "not sent: a line must have at most 65536 bytes")
	ann.types(t, longest)
	bob.says(t, "ann: "+longest)
}

func TestAClientThatIsKilledHasLeft(t *testing.T) {
	t.Parallel()
	_, addr := server(t, "-resume", "500ms")
	ann := start(t, "-server", addr, "-nick", "ann")
	ann.says(t, "here: ann")
	bob := start(t, "-server", addr, "-nick", "bob")
	ann.says(t, "bob is here")
	bob.says(t, "here: ann, bob")
	if err := bob.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ann.says(t, "bob has left: no_connection")
}

func TestTheEndOfTheServerEndsItsClients(t *testing.T) {
	t.Parallel()
	s, addr := server(t)
	ann := start(t, "-server", addr, "-nick", "ann")
	ann.says(t, "here: ann")
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ann.says(t, "the server has ended: stopped")
	if err := ann.Wait(); err == nil {
		t.Error("a client without a server has ended well")
	}
}
