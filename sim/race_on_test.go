//go:build race

package sim

import (
	"os/exec"
	"testing"
)

const raceEnabled = true

// TestTheEngineKeepsItsPromisesInManyRuns makes all the runs in a process without the race
// detector: in a simulated run there is one goroutine that does something, and nothing for it
// to find.
func TestTheEngineKeepsItsPromisesInManyRuns(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the runs are made by `go test`: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), goTool, "test", "-race=false", "-vet=off", "-count=1", "-timeout=10m",
		"-run=^TestTheEngineKeepsItsPromisesInAnyOrder$", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
