package check

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapFile is what the map calls a file, not a command or a type.
var mapFile = regexp.MustCompile(`^[\w./-]+\.(go|json|yaml|sh|md|service)$`)

// span matches what a document shows as code.
var span = regexp.MustCompile("`([^`]+)`")

// mapGaps compares the table under the heading "Map of the code" with the files and the packages of the
// repository. It returns what the map names and does not exist, and the packages that it does not name. A
// row names folders by links and as code, as they are from the root, or from a folder that it links or the
// folder of that; files as they are from one of its folders.
func mapGaps(document string, files, packages []string) []string {
	content := make(map[string]string)
	for _, name := range files {
		content[name] = ""
	}
	var findings []string
	named := make(map[string]bool)
	_, section, _ := strings.Cut(document, "## Map of the code")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		folders := links(line)
		if len(folders) == 0 {
			continue
		}
		within := []string{"."}
		for _, linked := range slices.Clone(folders) {
			within = append(within, linked, path.Dir(linked))
		}
		var called []string
		for _, match := range span.FindAllStringSubmatch(codeOfLinks.ReplaceAllString(line, ""), -1) {
			if mapFile.MatchString(match[1]) {
				called = append(called, match[1])
				continue
			}
			for _, above := range within {
				if name := path.Join(above, match[1]); isThere(name, content) {
					folders = append(folders, name)
				}
			}
		}
		for _, folder := range folders {
			named[folder] = true
			if !isThere(folder, content) {
				findings = append(findings, fmt.Sprintf("the map names the folder %s, which does not exist", folder))
			}
		}
		for _, file := range called {
			if !slices.ContainsFunc(append(folders, "."), func(folder string) bool { _, ok := content[path.Join(folder, file)]; return ok }) {
				findings = append(findings, fmt.Sprintf("the map names the file %s, which is in none of %s", file, strings.Join(folders, ", ")))
			}
		}
	}
	for _, name := range packages {
		if !named[name] && !strings.HasPrefix(name, "examples/") {
			findings = append(findings, fmt.Sprintf("the map does not name the package %s", name))
		}
	}
	return findings
}

// codeOfLinks matches links, whose text is code for the eye only.
var codeOfLinks = regexp.MustCompile(`\[[^\]]*\]\([^)]*\)`)

func TestTheMapMatchesTheTree(t *testing.T) {
	var packages []string
	for _, p := range modulePackages(t) {
		packages = append(packages, p.path())
	}
	report(t, mapGaps(string(readTracked(t, "ARCHITECTURE.md")), trackedFiles(t), packages))
}

func TestMapGapsFindsThem(t *testing.T) {
	document := "## Before\n| [`x`](x) | `gone.go` | |\n## Map of the code\n" +
		"| [`actor`](actor) | the engine; `actor/internal/bars`, `internal/lost` | `state.go`, `was.go`, `Props` |\n" +
		"| [`gone`](gone) | | |\n" +
		"| [`filter`](entity/filter), [`value`](entity/value) | `filter/view` | `entity/value/sum.go`, `plan.go` |\n" +
		"## After\n| `other.go` |\n"
	files := []string{"actor/state.go", "actor/internal/bars/main.go", "entity/filter/plan.go", "entity/filter/view/view.go", "entity/value/sum.go", "sim/sim.go"}
	packages := []string{"actor", "actor/internal/bars", "entity/filter", "entity/filter/view", "entity/value", "sim", "examples/01-hello"}
	wantFindings(t, mapGaps(document, files, packages),
		"the file was.go", "the folder gone", "the package sim")
}
