package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// pure is the reason of most packages that the race detector does not watch.
// A test holds them to it.
const pure = "starts no goroutine and shares nothing, and neither do its tests"

// simulated is the reason of those that would take ten times as long for nothing.
// The one test of sim that plays on the real scheduler is raced by `make stress`.
const simulated = "one goroutine at a time does something in a simulated run"

// unraced are the packages that are tested without the race detector although
// -race is among the flags, each with the reason. It makes a test up to ten
// times as long and finds something only where goroutines share memory. What is
// not listed is raced: a new package is, until somebody decides otherwise.
var unraced = map[string]string{
	"cmd/greenroom":             "what it puts together is raced by itself, and it by make soak",
	"codec/codectest":           pure,
	"entity/block":              pure,
	"entity/filter":             pure,
	"entity/filter/entityview":  pure,
	"entity/internal/changelog": pure,
	"entity/internal/document":  pure,
	"entity/internal/wire":      pure,
	"entity/model":              pure,
	"entity/series":             pure,
	"remote/internal/recent":    pure,
	"remote/internal/session":   "its tests run on one goroutine; those of remote/internal/transport, which are raced, have its locks",
	"remote/internal/wire":      pure,
	"schedule":                  pure,
	"sim":                       simulated,
	"sim/planted":               simulated,
	"examples/raft":             simulated,
	"internal/check":            "reads the repository's files",
	"internal/check/dashboard":  "npm is another process",
	"internal/check/packaging":  "what it builds and boots are other processes",
	"internal/check/testrun":    "what it runs is another process",
	"internal/pgtest":           "PostgreSQL is another process",
	"server/browsertest":        "the server and the browser are other processes",
}

// unracedTests are tests of raced packages, by package, that are run without the race detector, in
// a run of their own, which takes a tenth to a quarter of the time: they run others once more in
// another way, which are raced where they run first, ask a store or a server one question after
// another, thousands of times, have one script at a time compute until it is stopped, or are
// simulated, where one goroutine at a time does something.
var unracedTests = map[string][]string{
	"server": {
		"TestAnswersAreThoseOfTheDescription",
		"TestNoRequestIsOurFailure",
		"TestRowsAnswerToTheLastBit",
		"TestSealedHistoryAnswersTheSame",
		"TestServerOnPostgres",
	},
	"cluster": {
		"TestSimASuspendedMachineWritesNothing",
		"TestSimNothingAcknowledgedIsLost",
		"TestSimOrderIsKeptOverPlannedMoves",
		"TestSimPlantedMistakesAreFound",
		"TestSimPlantedRoutingMistakesAreFound",
		"TestSimShardsHaveOneOwnerAtATime",
		"TestSimUpgradeNeverGivesToThoseThatCannotRead",
		"TestSimWhatIsAlwaysActiveIsActiveAgain",
	},
	"codec":          {"TestStrictTypesTakeNoMoreMemoryThanBytesAllow"},
	"examples/arena": {"TestNoItemIsLostUnderAThousandBots"},
	"entity/sqlite":  {"TestConformanceWhereverTheTailIs", "TestStoreWithATailAnswersAsOneWithout"},
	"lua": {
		"TestHostileReloadsEndWithinTheirLimits",
		"TestHostileScriptsEndWithinTheirLimits",
		"TestStepsCountWhatTakesLong",
	},
}

// uninstrumented are packages that the race detector does not watch in a raced run: SQLite, which
// is C made into Go, and without which a test of a store takes four times as long. What it is given
// and what it returns is watched where the driver and our code read and write it, and so are their
// locks.
//
// Such a package must have no generic function: of several copies of one the linker keeps any, and with one of
// sync/atomic from here the whole program would be told of races that are none. A test holds them to it.
var uninstrumented = []string{"modernc.org/memory", "modernc.org/sqlite/lib"}

// instrumentation returns the flags that leave uninstrumented to itself.
func instrumentation() []string {
	var flags []string
	for _, pkg := range uninstrumented {
		flags = append(flags, "-gcflags="+pkg+"=-race=false")
	}
	return flags
}

// longest are the packages whose tests take longest. They begin first, so that no
// processor is idle at the end of a run while one of them goes on alone.
var longest = []string{
	"server", "server/browsertest", "entity/mapping", "actor", "entity", "entity/sqlite", "entity/postgres", "cmd/greenroom",
	"internal/check/packaging", "remote", "entity/alarm", "sim", "persist/sqlite", "internal/check", "internal/check/dashboard", "examples/raft",
}

// plan returns the arguments of each `go test` that the arguments ask for. With
// the race detector there are up to three, since a process has it for all of its
// packages or for none, and a pattern of tests is one for all of them.
func plan(ctx context.Context, args []string) ([][]string, error) {
	flags, packages := args, []string(nil)
	if i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }); i >= 0 {
		flags, packages = args[:i], args[i:]
	}
	if !slices.Contains(flags, "-race") {
		return [][]string{args}, nil
	}
	module, listed, err := list(ctx, packages)
	if err != nil {
		return nil, err
	}
	name := func(pkg string) string { return strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/") }
	rank := func(pkg string) int {
		if i := slices.Index(longest, name(pkg)); i >= 0 {
			return i
		}
		return len(longest)
	}
	slices.SortStableFunc(listed, func(a, b string) int { return rank(a) - rank(b) })
	var raced, others, once, tests []string
	for _, pkg := range listed {
		if list := unracedTests[name(pkg)]; len(list) > 0 && !choosesTests(flags) {
			once, tests = append(once, pkg), append(tests, list...)
		}
		if _, ok := unraced[name(pkg)]; ok {
			others = append(others, pkg)
		} else {
			raced = append(raced, pkg)
		}
	}
	plain := slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return flag == "-race" })
	var runs [][]string
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	if len(raced) > 0 && len(once) > 0 {
		runs = append(runs, slices.Concat(flags, []string{"-skip=" + pattern}, raced))
	} else if len(raced) > 0 {
		runs = append(runs, slices.Concat(flags, raced))
	}
	if len(once) > 0 {
		runs = append(runs, slices.Concat(plain, []string{"-run=" + pattern}, once))
	}
	if len(others) > 0 {
		runs = append(runs, slices.Concat(plain, others))
	}
	return runs, nil
}

// choosesTests reports whether flags say which tests are run.
func choosesTests(flags []string) bool {
	return slices.ContainsFunc(flags, func(flag string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		return name == "run" || name == "skip"
	})
}

// list returns the module's path and the packages that the patterns stand for.
// One that does not build is listed, too: `go test` says what is wrong with it.
func list(ctx context.Context, patterns []string) (module string, packages []string, err error) {
	if module, err = output(ctx, "list", "-m"); err != nil {
		return "", nil, err
	}
	out, err := output(ctx, append([]string{"list", "-e", "-f", "{{.ImportPath}}", "--"}, patterns...)...)
	return module, strings.Fields(out), err
}

func output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
