package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A newcomer has two commands, and CI runs the second one: what a reader sees
// pass is what is checked.
func TestReadmeNamesTheTwoCommandsAndCIRunsTheSecond(t *testing.T) {
	readme := string(readTracked(t, "README.md"))
	for _, command := range []string{"go run ./cmd/greenroom serve --demo", "make test"} {
		if !strings.Contains(readme, command) {
			t.Errorf("README.md does not name %q", command)
		}
	}
	if ci := string(readTracked(t, ".ci/run")); !strings.Contains(ci, "make test") {
		t.Errorf(".ci/run does not run `make test`; it is\n%s", ci)
	}
	if makefile := string(readTracked(t, "Makefile")); !strings.Contains(makefile, "\ntest: setup ") {
		t.Error("`make test` does not begin with installing what the tests need")
	}
}

func TestScriptsCanBeRun(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "scripts", "*.sh"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no script found in scripts: %v", err)
	}
	for _, name := range append(scripts, filepath.Join(root, ".ci", "run")) {
		info, err := os.Stat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", name)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !strings.HasPrefix(string(content), "#!/usr/bin/env bash\n") || !strings.Contains(string(content), "\nset -euo pipefail\n") {
			t.Errorf("%s does not start bash by env, or does not stop at its first error", name)
		}
	}
}

// The doors to the project. Each of them is linked from README.md or expected
// by a tool.
func TestTheDocumentsOfTheFrameAreThere(t *testing.T) {
	for _, name := range []string{
		"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".golangci.yml",
	} {
		t.Run(name, func(t *testing.T) {
			if size := len(readTracked(t, name)); size < 200 {
				t.Errorf("%s says nothing in its %d bytes", name, size)
			}
		})
	}
}
