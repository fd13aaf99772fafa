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
// program has a test of its output and is in the README, and the tour has the programs
// 01 to 10, each once.
func exampleGaps(files []string, readme string) []string {
	programs := make(map[string][]string)
	tour := make(map[string]int)
	for _, name := range files {
		dir, file := path.Split(name)
		if rest, ok := strings.CutPrefix(path.Clean(dir), "examples/"); ok && !strings.Contains(rest, "/") && rest != "internal" {
			if programs[rest] == nil {
				number, _, _ := strings.Cut(rest, "-")
				tour[number]++
			}
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
	}
	for n := range 10 {
		if number := fmt.Sprintf("%02d", n+1); tour[number] != 1 {
			findings = append(findings, fmt.Sprintf("the tour has %d programs with the number %s; it must have one", tour[number], number))
		}
	}
	return findings
}

func TestEachExampleIsTestedAndInTheirReadme(t *testing.T) {
	files := trackedFiles(t)
	if !slices.Contains(files, "examples/01-hello/main.go") {
		t.Fatal("the examples are not among the repository's files")
	}
	report(t, exampleGaps(files, string(readTracked(t, "examples/README.md"))))
}

func TestExampleGapsFindsThem(t *testing.T) {
	files := []string{"examples/README.md", "examples/internal/exampletest/exampletest.go", "actor/doc.go"}
	var readme strings.Builder
	for n := range 10 {
		name := fmt.Sprintf("%02d-step", n+1)
		files = append(files, "examples/"+name+"/main.go", "examples/"+name+"/main_test.go")
		fmt.Fprintf(&readme, "[`%s`](%s) ", name, name)
	}
	if findings := exampleGaps(files, readme.String()); len(findings) > 0 {
		t.Fatalf("a complete tour has findings: %q", findings)
	}
	more := append(slices.Clone(files), "examples/bare/main.go", "examples/hidden/main.go", "examples/hidden/main_test.go")
	wantFindings(t, exampleGaps(more, readme.String()+"[`bare`](bare)"),
		"examples/bare has no main_test.go", "does not name hidden")
	wantFindings(t, exampleGaps(files[:len(files)-2], readme.String()), "0 programs with the number 10")
}
