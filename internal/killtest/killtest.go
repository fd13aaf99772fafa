// Package killtest kills processes that test binaries start of themselves.
package killtest

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Run starts the test binary once more, with a variable in its environment by which its TestMain
// knows what to do, and passes on each line that it prints. It kills the process when each returns
// true, and returns when it has ended; what it had printed by then is passed on as well, but for
// the last line, which may be half a one. The test fails if the process ends by itself.
func Run(t *testing.T, variable string, each func(line string) (kill bool)) {
	t.Helper()
	cmd, lines := Start(t, variable)
	killed := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if each(line[:len(line)-1]) && !killed {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !killed {
		t.Fatalf("the process has ended by itself: %v", err)
	}
}

// Start starts the test binary once more, with a variable in its environment and with arguments,
// and returns what it prints as well. The process is killed at the end of the test.
func Start(t *testing.T, variable string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := Command(t, nil, variable, args...)
	return cmd, Begin(t, cmd)
}

// Command returns the command that Start starts. If it is to be started by another program, that
// one and its arguments come first.
func Command(t *testing.T, program []string, variable string, args ...string) *exec.Cmd {
	t.Helper()
	all := slices.Concat(program, []string{os.Args[0]}, args)
	cmd := exec.CommandContext(t.Context(), all[0], all[1:]...)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	return cmd
}

// Begin starts a command and returns what it prints. The process is killed at the end of the test.
func Begin(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewReader(out)
}
