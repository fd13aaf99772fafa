package runtimes

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// limit is when a test that hangs is told to have hung.
const limit = time.Minute

// The workloads between processes start their own program again: here that is the test.
func TestMain(m *testing.M) {
	BeFar()
	os.Exit(m.Run())
}

func TestEveryRuntimeInGoPassesEveryWorkload(t *testing.T) {
	for _, rt := range All() {
		if rt.Run == nil {
			continue
		}
		for _, w := range workload.All() {
			if _, lacks := rt.Lacks[w.Name]; lacks {
				continue
			}
			t.Run(rt.Name+"/"+w.Name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				figures, err := rt.Run(ctx, w.Name, w.Quick)
				if err != nil {
					t.Fatal(err)
				}
				checkFigures(t, w, figures)
			})
		}
	}
}

// wanted is what a workload must have measured beside the time an operation
// took.
var wanted = map[string][]string{
	"spawn":            {workload.FirstNs, workload.BytesPerActor, workload.GCMs, workload.Actors},
	"fair":             {workload.P50Us, workload.P99Us, workload.MaxUs, workload.E2EP99Us, workload.Samples, workload.FloodPerS},
	"flooded-neighbor": {workload.P50Us, workload.P99Us, workload.MaxUs, workload.E2EP99Us, workload.Samples, workload.FloodPerS},
	"blocked":          {workload.P50Us, workload.P99Us, workload.MaxUs, workload.E2EP99Us, workload.Samples, workload.DrainMs},
	"idle":             {workload.CPUPercent},
}

func checkFigures(t *testing.T, w workload.Workload, figures workload.Figures) {
	t.Helper()
	names := wanted[w.Name]
	if w.Unit != "" {
		names = append(slices.Clone(names), workload.NsPerOp, workload.AllocsPerOp, workload.BytesPerOp)
	}
	if len(names) == 0 {
		t.Fatal("nobody said what this workload measures")
	}
	for _, name := range names {
		if v, ok := figures[name]; !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("the figure %q is %v (there: %t)", name, v, ok)
		}
	}
	for _, name := range []string{workload.NsPerOp, workload.Samples} {
		if v, ok := figures[name]; ok && v <= 0 {
			t.Errorf("the figure %q is %v", name, v)
		}
	}
}

func TestErlangPassesEveryWorkload(t *testing.T) {
	rt := erlangOTP()
	if err := rt.Program.Find(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := rt.Program.Prepare(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if version := rt.Version(t.Context()); !strings.HasPrefix(version, "OTP ") {
		t.Errorf("the version is %q", version)
	}
	for _, w := range workload.All() {
		if _, lacks := rt.Lacks[w.Name]; lacks {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := rt.Program.Command(ctx, dir, w.Name, w.Quick, 1)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %v\n%s", cmd, err, stderrOf(err))
			}
			if !strings.HasPrefix(string(out), "{") || !strings.HasSuffix(string(out), "}\n") {
				t.Errorf("it printed %q", out)
			}
		})
	}
	t.Run("a workload that is not there", func(t *testing.T) {
		if err := rt.Program.Command(t.Context(), dir, "nonsense", workload.Size{}, 1).Run(); err == nil {
			t.Error("it did not fail")
		}
	})
}

func stderrOf(err error) []byte {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Stderr
	}
	return nil
}

func TestWhatRuntimesLackAreWorkloadsAndHasAReason(t *testing.T) {
	seen := make(map[string]bool)
	kinds := make(map[Kind]int)
	for _, rt := range All() {
		if seen[rt.Name] || rt.Name == "" || rt.About == "" {
			t.Errorf("the name %q is empty or taken, or nothing is said about it", rt.Name)
		}
		seen[rt.Name] = true
		kinds[rt.Kind]++
		if (rt.Run == nil) == (rt.Program == nil) {
			t.Errorf("%s runs neither here nor beside, or both", rt.Name)
		}
		for name, why := range rt.Lacks {
			if _, err := workload.Named(name); err != nil || why == "" {
				t.Errorf("%s lacks %q because of %q: %v", rt.Name, name, why, err)
			}
		}
		for name := range rt.Fewer {
			if _, err := workload.Named(name); err != nil {
				t.Errorf("%s has fewer actors in %q: %v", rt.Name, name, err)
			}
		}
	}
	if kinds[Subject] != 1 || kinds[Control] != 1 || kinds[Peer] == 0 {
		t.Errorf("there must be one subject, one control and some peers: %v", kinds)
	}
}

func TestNamedKeepsTheOrderAndNamesWhatThereIs(t *testing.T) {
	got, err := Named("channels", "greenroom")
	if err != nil || len(got) != 2 || got[0].Name != "greenroom" || got[1].Name != "channels" {
		t.Errorf("Named = %v, %v", got, err)
	}
	if _, err := Named("channels", "akka"); err == nil || !strings.Contains(err.Error(), `"akka"`) || !strings.Contains(err.Error(), "protoactor") {
		t.Errorf("the error is %v", err)
	}
}

func TestARuntimeMayHaveFewerActors(t *testing.T) {
	w, err := workload.Named("spawn")
	if err != nil {
		t.Fatal(err)
	}
	rt := Runtime{Fewer: map[string]int{"spawn": 7}}
	if n := rt.Size(w, false).Actors; n != 7 {
		t.Errorf("%d actors, want 7", n)
	}
	if n := rt.Size(w, true).Actors; n != w.Quick.Actors {
		t.Errorf("%d actors in the smoke test, want %d", n, w.Quick.Actors)
	}
	if n := (Runtime{}).Size(w, false).Actors; n != w.Full.Actors {
		t.Errorf("%d actors, want %d", n, w.Full.Actors)
	}
}
