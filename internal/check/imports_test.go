package check

import (
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// importOrder is the order of ARCHITECTURE.md: a package may import packages of
// earlier rows and of its own folder, and no sibling of its row. What is listed
// and does not exist yet has its place kept.
var importOrder = [][]string{
	{"internal"}, // pgtest, for the tests of all the others
	{"actor"},
	{"codec"},
	{"router", "eventbus", "schedule", "actortest", "sim", "persist", "remote", "inspect"},
	{"cluster", "console"},
	{"entity", "lua"},
	{"server"},
	{"cmd", "examples"},
}

// innerOrder is the order of the packages within a folder, where it has one: the same
// rule. Packages named internal serve the rows after them and are not ordered; what is
// under a listed package and not listed itself has that one's row.
var innerOrder = map[string][][]string{
	"entity": {
		{"entity/value"},
		{"entity/model", "entity/filter", "entity/series"},
		{"entity/block"},
		{"entity"},
		{"entity/filter/entityview", "entity/sqlite", "entity/postgres", "entity/storetest"},
		{"entity/mapping", "entity/search", "entity/retention", "entity/alarm", "entity/behavior"},
	},
	"server": {
		{"server/access"},
		{"server/refusal"},
		{"server/layout"},
		{"server/mqtt", "server/thingsboard", "server/awsshadow", "server/sparkplug", "server/homie", "server/azure", "server/template", "server/script"},
		{"server"},
		{"server/browsertest", "server/clienttest"},
	},
}

// innerRank returns the row of a package within its folder, and whether it has one.
func innerRank(pkg string) (row int, ok bool) {
	for p := pkg; p != "."; p = path.Dir(p) {
		if path.Base(p) == "internal" {
			return 0, false
		}
		for row, packages := range innerOrder[folder(pkg)] {
			if slices.Contains(packages, p) && (p == pkg || strings.Contains(p, "/")) {
				return row, true
			}
		}
	}
	return 0, false
}

// innerViolation says what is wrong with an import within a folder, "" for nothing.
func innerViolation(pkg, dep string) string {
	if innerOrder[folder(pkg)] == nil || strings.Contains(pkg, "/internal/") || strings.Contains(dep, "/internal/") {
		return ""
	}
	row, ok := innerRank(pkg)
	depRow, depOK := innerRank(dep)
	switch {
	case !ok || !depOK:
		return fmt.Sprintf("%s needs %s: both must have a place in innerOrder in internal/check/imports_test.go", pkg, dep)
	case depRow == row:
		return fmt.Sprintf("%s needs %s: siblings do not import each other", pkg, dep)
	case depRow > row:
		return fmt.Sprintf("%s needs %s, which comes after it in the order of %s", pkg, dep, folder(pkg))
	}
	return ""
}

// apart are folders outside of the order: no package of the product may import
// them, and they may import nothing of it either.
var apart = []string{"internal/check"}

// rank returns the row of a package of this module, and whether it has one.
func rank(pkg string) (row int, ok bool) {
	for row, folders := range importOrder {
		if slices.Contains(folders, folder(pkg)) {
			return row, true
		}
	}
	return 0, false
}

// folder is the first part of a package's path within the module.
func folder(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

func isApart(pkg string) bool {
	return slices.ContainsFunc(apart, func(a string) bool { return pkg == a || strings.HasPrefix(pkg, a+"/") })
}

// orderViolations checks the imports, given as package to the packages of the
// module that it needs, all of them by their path within the module.
func orderViolations(imports map[string][]string) []string {
	var findings []string
	for pkg, needed := range imports {
		row, ok := rank(pkg)
		if !ok && !isApart(pkg) {
			findings = append(findings, fmt.Sprintf("%s has no place in the import order: give its folder one in internal/check/imports_test.go and in CONTRIBUTING.md", pkg))
			continue
		}
		for _, dep := range needed {
			depRow, _ := rank(dep)
			switch {
			case isApart(pkg) && isApart(dep):
			case !isApart(pkg) && folder(pkg) == folder(dep):
				if text := innerViolation(pkg, dep); text != "" {
					findings = append(findings, text)
				}
			case isApart(pkg), isApart(dep):
				findings = append(findings, fmt.Sprintf("%s needs %s: internal/check and the product stay apart", pkg, dep))
			case depRow == row:
				findings = append(findings, fmt.Sprintf("%s needs %s: siblings do not import each other", pkg, dep))
			case depRow > row:
				findings = append(findings, fmt.Sprintf("%s needs %s, which comes after it in the import order", pkg, dep))
			}
		}
	}
	slices.Sort(findings)
	return findings
}

// imported maps each package to the packages of this module that it needs,
// directly or through others.
func imported(packages []goPackage) map[string][]string {
	imports := make(map[string][]string)
	for _, p := range packages {
		imports[p.path()] = []string{}
		for _, dep := range p.Deps {
			if pkg, ok := strings.CutPrefix(dep, module+"/"); ok {
				imports[p.path()] = append(imports[p.path()], pkg)
			}
		}
	}
	return imports
}

// listings are the builds that the rules hold for.
var listings = map[string][]string{
	"plain":      nil,
	"invariants": {"-tags=invariants"},
}

func TestPackagesFollowTheImportOrder(t *testing.T) {
	for name, args := range listings {
		t.Run(name, func(t *testing.T) {
			report(t, orderViolations(imported(modulePackages(t, args...))))
		})
	}
}

func TestImportOrderFindsWhatBreaksIt(t *testing.T) {
	findings := orderViolations(map[string][]string{
		"actor":                  {"actor/internal/wheel"},
		"actor/internal/wheel":   {"entity"},
		"remote":                 {"actor", "eventbus"},
		"entity/sqlite":          {"actor", "entity", "cluster"},
		"server":                 {"internal/check"},
		"internal/check/testrun": {"internal/check"},
		"cmd/greenroom":          {"server", "entity", "actor"},
		"util":                   {},
		"entity/filter":          {"entity"},
		"entity/search":          {"entity/retention", "entity/filter", "entity", "entity/filter/entityview"},
		"entity/scripts":         {"entity"},
		"server/mqtt":            {"server", "server/refusal", "entity"},
	})
	wantFindings(t, findings,
		"actor/internal/wheel needs entity, which comes after",
		"entity/filter needs entity, which comes after",
		"entity/scripts needs entity: both must have a place",
		"entity/search needs entity/retention: siblings",
		"remote needs eventbus: siblings",
		"server needs internal/check: internal/check and the product stay apart",
		"server/mqtt needs server, which comes after",
		"util has no place",
	)
}

// foreignDeps returns what a package that has to do with the standard library
// alone needs beside it and its own folder.
func foreignDeps(p goPackage, standard map[string]bool) []string {
	var findings []string
	own := module + "/" + folder(p.path())
	for _, dep := range p.Deps {
		if !standard[dep] && dep != own && !strings.HasPrefix(dep, own+"/") {
			findings = append(findings, fmt.Sprintf("%s needs %s: it has to do with the standard library", p.path(), dep))
		}
	}
	return findings
}

// standardPackages are the packages of Go itself, those it vendors included.
func standardPackages(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "std").Output()
	if err != nil {
		t.Fatalf("go list std: %v", err)
	}
	standard := map[string]bool{"C": true, "unsafe": true}
	for name := range strings.FieldsSeq(string(out)) {
		standard[name] = true
	}
	if !standard["context"] {
		t.Fatal("go list std does not name context")
	}
	return standard
}

func TestActorNeedsNothingButTheStandardLibrary(t *testing.T) {
	standard := standardPackages(t)
	for name, args := range listings {
		t.Run(name, func(t *testing.T) {
			seen := false
			for _, p := range modulePackages(t, args...) {
				if folder(p.path()) == "actor" {
					seen = true
					report(t, foreignDeps(p, standard))
				}
			}
			if !seen {
				t.Error("there is no package actor")
			}
		})
	}
}

func TestForeignDepsFindsAThirdPartyAndAnotherFolder(t *testing.T) {
	p := goPackage{
		ImportPath: module + "/actor",
		Deps:       []string{"context", module + "/actor/internal/wheel", module + "/entity", "golang.org/x/sync/errgroup"},
	}
	wantFindings(t, foreignDeps(p, map[string]bool{"context": true}), "needs "+module+"/entity", "golang.org/x/sync/errgroup")
}

// testLibraries have no place in a binary that somebody runs: they bring flags,
// global state and megabytes. A prefix ends at a slash or at the end.
var testLibraries = []string{
	"testing",
	"github.com/chromedp",
	"github.com/google/go-cmp",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"net/http/httptest",
	"pgregory.net/rapid",
}

// isTestKit reports whether a package exists for tests: actortest, storetest.
// sim is one too: users simulate their actors with it in tests.
func isTestKit(pkg string) bool {
	return strings.HasSuffix(path.Base(pkg), "test") || folder(pkg) == "sim"
}

func linkedTestLibraries(p goPackage) []string {
	if isTestKit(p.path()) {
		return nil
	}
	var findings []string
	for _, dep := range p.Deps {
		for _, library := range testLibraries {
			if dep == library || strings.HasPrefix(dep, library+"/") {
				findings = append(findings, fmt.Sprintf("%s links %s: only tests and test kits may", p.path(), dep))
			}
		}
	}
	return findings
}

func TestNoPackageLinksATestLibrary(t *testing.T) {
	for name, args := range listings {
		t.Run(name, func(t *testing.T) {
			for _, p := range modulePackages(t, args...) {
				report(t, linkedTestLibraries(p))
			}
		})
	}
}

func TestLinkedTestLibrariesFindsThem(t *testing.T) {
	deps := []string{"context", "testing", "testing/fstest", "testingground", "github.com/chromedp/chromedp"}
	wantFindings(t, linkedTestLibraries(goPackage{ImportPath: module + "/server", Deps: deps}),
		"server links testing:", "testing/fstest", "github.com/chromedp/chromedp")
	wantFindings(t, linkedTestLibraries(goPackage{ImportPath: module + "/entity/storetest", Deps: deps}))
}
