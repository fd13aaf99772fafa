package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programs returns the Go programs among the fenced blocks of a page, and what their
// last comment, "// Output: ", says they print.
func programs(page string) (list, outputs []string) {
	fenced := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")
	output := regexp.MustCompile(`(?m)^\s*// Output: (.*)$`)
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		list = append(list, block[1])
		want := ""
		if m := output.FindStringSubmatch(block[1]); m != nil {
			want = m[1]
		}
		outputs = append(outputs, want)
	}
	return list, outputs
}

// The programs that a newcomer copies first compile, pass vet and print what they say.
func TestProgramsInTheReadmeAndTheFirstGuideRun(t *testing.T) {
	seen := make(map[string]bool) // the two pages may show the same program
	for _, page := range []string{"README.md", "docs/guides/start.md"} {
		list, outputs := programs(string(readTracked(t, page)))
		if len(list) == 0 {
			t.Errorf("%s has no Go block that begins with \"package main\"", page)
		}
		for i, program := range list {
			if seen[program] {
				continue
			}
			seen[program] = true
			if outputs[i] == "" {
				t.Errorf("%s: a program has no comment \"// Output: …\" that says what it prints", page)
				continue
			}
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range [][]string{{"vet", file}, {"run", file}} {
				cmd := exec.CommandContext(t.Context(), "go", command...)
				cmd.Dir = root
				got, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: go %s: %v\n%s", page, command[0], err, got)
				}
				if text := strings.TrimSpace(string(got)); command[0] == "run" && text != outputs[i] {
					t.Errorf("%s: the program prints %q, and its comment says %q", page, text, outputs[i])
				}
			}
		}
	}
}

func TestProgramsFindsThem(t *testing.T) {
	list, outputs := programs("```go\nn := 1\n```\n\n```go\npackage main\n\nfunc main() {\n\t// Output: 7\n}\n```\n```go\npackage main\n```\n")
	if len(list) != 2 || !slices.Equal(outputs, []string{"7", ""}) {
		t.Errorf("found %d programs with the outputs %q; want two, with \"7\" and none", len(list), outputs)
	}
}
