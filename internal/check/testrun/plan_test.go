package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository's folder, seen from this package's.
const root = "../../.."

func TestOnlyWhatIsNotListedIsRaced(t *testing.T) {
	runs, err := plan(t.Context(), []string{"-count=1", "-race", root + "/actor", root + "/entity/...", root + "/schedule"})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 3 {
		t.Fatalf("%d runs, want 3: %q", len(runs), runs)
	}
	for i, want := range []struct {
		race           bool
		has, has2, not string
	}{
		{true, "actor", "entity", "entity/filter"},
		{false, "entity/sqlite", "entity/sqlite", "entity"},
		{false, "schedule", "entity/filter", "entity"},
	} {
		has := func(arg string) bool { return slices.Contains(runs[i], arg) }
		const module = "github.com/greenroom-go/greenroom/"
		if has("-race") != want.race || !has("-count=1") || !has(module+want.has) || !has(module+want.has2) || has(module+want.not) {
			t.Errorf("run %d is %q, want %+v", i, runs[i], want)
		}
	}
}

func TestPlanLeavesOutARunWithoutPackages(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-race", root + "/actor"}, "-race github.com/greenroom-go/greenroom/actor"},
		{[]string{"-race", root + "/schedule"}, "github.com/greenroom-go/greenroom/schedule"},
		{[]string{"-count=1", root + "/..."}, "-count=1 " + root + "/..."},
		{[]string{"-count=1"}, "-count=1"},
		{[]string{"-race", "-run=Login", root + "/server"}, "-race -run=Login github.com/greenroom-go/greenroom/server"},
	} {
		runs, err := plan(t.Context(), tt.args)
		if err != nil || len(runs) != 1 || strings.Join(runs[0], " ") != tt.want {
			t.Errorf("%q gives %q, %v; want one run %q", tt.args, runs, err, tt.want)
		}
	}
}

func TestTheLongestBeginFirst(t *testing.T) {
	for _, name := range longest {
		if files, err := filepath.Glob(filepath.Join(root, name, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s is in the list and has no tests: take it off (%v)", name, err)
		}
	}
	runs, err := plan(t.Context(), []string{"-race", root + "/actor", root + "/router", root + "/schedule", root + "/server", root + "/sim"})
	const module = "github.com/greenroom-go/greenroom/"
	once := "^(" + strings.Join(unracedTests["server"], "|") + ")$"
	want := [][]string{
		{"-race", "-skip=" + once, module + "server", module + "actor", module + "router"},
		{"-run=" + once, module + "server"},
		{module + "sim", module + "schedule"},
	}
	if err != nil || !slices.EqualFunc(runs, want, slices.Equal) {
		t.Errorf("the runs are %q, %v; want %q", runs, err, want)
	}
}

// What is not instrumented is there, and has no generic functions.
func TestWhatIsNotInstrumentedHasNoGenericFunctions(t *testing.T) {
	for _, pkg := range append([]string{"encoding/json"}, uninstrumented...) {
		archive, err := output(t.Context(), "list", "-export", "-f", "{{.Export}}", pkg)
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := output(t.Context(), "tool", "nm", archive)
		if err != nil {
			t.Fatal(err)
		}
		generic := strings.Contains(symbols, "go.shape.")
		if foreign := strings.Contains(pkg, "."); generic == foreign {
			t.Errorf("%s has generic functions: %v", pkg, generic)
		}
	}
}

// The tests that are run by themselves, without the race detector, are there.
func TestTheTestsThatAreNotRacedAreThere(t *testing.T) {
	for pkg, tests := range unracedTests {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range tests {
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && bytes.Contains(text, []byte("func "+test+"(t *testing.T)"))
			}) {
				t.Errorf("%s has no test %s", pkg, test)
			}
		}
	}
}

// A package whose reason is pure and that has a go statement or imports a part of
// sync is to be raced again.
func TestUnracedPackagesAreWhatTheyAreListedAs(t *testing.T) {
	for name, reason := range unraced {
		files, err := filepath.Glob(filepath.Join(root, name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s is in the list and has no Go files: take it off (%v)", name, err)
			continue
		}
		for _, file := range files {
			if reason != pure {
				break
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := sharing(t, file, text); found != "" {
				t.Errorf("%s: %s, and the list in plan.go says that the package %s", file, found, pure)
			}
		}
	}
}

// sharing returns the first thing in a file that the race detector is for, or "".
func sharing(t *testing.T, name string, text []byte) (found string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		if path := strings.Trim(spec.Path.Value, `"`); path == "sync" || path == "sync/atomic" {
			return "it imports " + path
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok && found == "" {
			found = "it has a go statement"
		}
		return found == ""
	})
	return found
}

func TestSharingFindsGoroutinesAndLocks(t *testing.T) {
	for text, want := range map[string]string{
		"package a\nfunc f() { go f() }":          "it has a go statement",
		"package a\nimport _ \"sync/atomic\"":     "it imports sync/atomic",
		"package a\nimport _ \"golang.org/sync\"": "",
	} {
		if got := sharing(t, "a.go", []byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSeveralRunsAreCountedTogether(t *testing.T) {
	writeModule(t, map[string]string{
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"the verdict\") }\n",
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestGood(t *testing.T) {}\n",
		"c/c_test.go": "package c\nimport \"testing\"\nfunc TestFine(t *testing.T) {}\n",
	})
	var stdout bytes.Buffer
	status := testAll(t.Context(), [][]string{{"-count=1", "./a"}, {"-count=1", "./b"}, {"-count=1", "./c"}}, &stdout, os.Stderr)
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, stdout.String(), "the verdict")
	wantLastLine(t, stdout.String(), "2 passed, 1 failed, 0 skipped")
}
