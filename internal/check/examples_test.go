package check

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// exampleGaps compares the folders of examples with what their README names: each
// program has a test of its output and is in the README, with its test.
func exampleGaps(files []string, readme string) []string {
	programs := make(map[string][]string)
	for _, name := range files {
		dir, file := path.Split(name)
		if rest, ok := strings.CutPrefix(path.Clean(dir), "examples/"); ok && !strings.Contains(rest, "/") && rest != "internal" {
			programs[rest] = append(programs[rest], file)
		}
	}
	linked := links(readme)
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if !slices.Contains(programs[name], "main_test.go") {
			findings = append(findings, fmt.Sprintf("examples/%s has no main_test.go that compares its output", name))
		}
		if !slices.Contains(linked, name) {
			findings = append(findings, fmt.Sprintf("examples/README.md does not name %s", name))
		}
		if strings.HasPrefix(name, "seed") && !slices.Contains(linked, name+"/main_test.go") {
			findings = append(findings, fmt.Sprintf("examples/README.md does not name the test of %s", name))
		}
	}
	return findings
}

func TestEachExampleIsTestedAndInTheirReadme(t *testing.T) {
	files := trackedFiles(t)
	if !slices.Contains(files, "examples/hello/main.go") {
		t.Fatal("the examples are not among the repository's files")
	}
	report(t, exampleGaps(files, string(readTracked(t, "examples/README.md"))))
}

func TestExampleGapsFindsThem(t *testing.T) {
	files := []string{
		"examples/README.md", "examples/internal/exampletest/exampletest.go", "actor/doc.go",
		"examples/hello/main.go", "examples/hello/main_test.go",
		"examples/bare/main.go",
		"examples/seed1-x/main.go", "examples/seed1-x/main_test.go",
		"examples/seed1-y/main.go", "examples/seed1-y/main_test.go",
	}
	readme := "[`hello`](hello) [`bare`](bare) [`x`](seed1-x) [test](seed1-x/main_test.go) [y](seed1-y)"
	wantFindings(t, exampleGaps(files, readme), "examples/bare has no main_test.go", "does not name the test of seed1-y")
	wantFindings(t, exampleGaps(files[:5], ""), "does not name hello")
}
