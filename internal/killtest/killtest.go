// Package killtest kills processes that test binaries start of themselves.
package killtest

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// Run starts the test binary once more, with a variable in its environment by which its TestMain
// knows what to do, and passes on each line that it prints. It kills the process when each returns
// true, and returns when it has ended; what it had printed by then is passed on as well, but for
// the last line, which may be half a one. The test fails if the process ends by itself.
func Run(t *testing.T, variable string, each func(line string) (kill bool)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), variable)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewReader(out); ; {
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
