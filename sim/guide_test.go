package sim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guide = "../docs/guides/simulation.md"

// fenced finds the blocks of code of a guide, with their languages.
var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// seconds are what a run of go test took: the only thing in the guide that is another each time.
var seconds = regexp.MustCompile(`\d+\.\d+s`)

// guideReader does what a reader of the guide does, in a module of its own.
type guideReader struct {
	t    *testing.T
	dir  string
	text map[string][]string // the guide's blocks by language
}

func newGuideReader(t *testing.T) *guideReader {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	r := &guideReader{t: t, dir: t.TempDir(), text: make(map[string][]string)}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		r.text[block[1]] = append(r.text[block[1]], block[2])
	}
	r.write("go.mod", fmt.Sprintf("module example.com/shop\n\ngo 1.26.0\n\nrequire github.com/greenroom-go/greenroom v0.0.0\n\n"+
		"replace github.com/greenroom-go/greenroom => %q\n", root))
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	r.write("go.sum", string(sums))
	return r
}

func (r *guideReader) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command of the guide, `go test .` for example, and returns what it prints.
func (r *guideReader) run(command string) string {
	r.t.Helper()
	sh := exec.CommandContext(r.t.Context(), "sh", "-c", command)
	sh.Dir = r.dir
	sh.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, _ := sh.CombinedOutput() // tests that fail are what the guide is about
	return string(out)
}

// same compares what was printed with what the guide says, but for the time that it took.
func (r *guideReader) same(got, want string) {
	r.t.Helper()
	got, want = seconds.ReplaceAllString(got, "0.00s"), seconds.ReplaceAllString(want, "0.00s")
	if got != want {
		r.t.Errorf("printed:\n%s\nthe guide says:\n%s", got, want)
	}
}

func TestTheGuideIsARun(t *testing.T) {
	r := newGuideReader(t)
	code, printed := r.text["go"], r.text[""]
	if len(code) != 5 || len(printed) != 2 || len(r.text["mermaid"]) != 1 {
		t.Fatalf("the guide has %d blocks of Go, %d of what is printed, %d diagrams", len(code), len(printed), len(r.text["mermaid"]))
	}
	shop := strings.Join(code[:3], "\n")
	r.write("shop.go", shop)
	r.write("shop_test.go", code[3])
	command, want, _ := strings.Cut(printed[0], "\n")
	found := r.run(strings.TrimPrefix(command, "$ "))
	r.same(found, want)
	for _, replay := range regexp.MustCompile(`go test example.com/shop .*`).FindAllString(found, -1) {
		if again := r.run(replay + " -sim.diagram=trace.mmd"); !strings.Contains(again, "the stock is not below zero: it is -1") {
			t.Errorf("%s printed:\n%s", replay, again)
		}
	}
	diagram, err := os.ReadFile(filepath.Join(r.dir, "trace.mmd"))
	if err != nil {
		t.Fatal(err)
	}
	r.same(string(diagram), r.text["mermaid"][0])

	wrong := "\tcase Take:\n\t\ts.Left--\n\t\tactor.Reply(ctx, m, true)\n"
	if !strings.Contains(shop, wrong) {
		t.Fatalf("the guide does not have the mistake that it mends: %s", wrong)
	}
	r.write("shop.go", strings.Replace(shop, wrong, code[4], 1))
	command, want, _ = strings.Cut(printed[1], "\n")
	r.same(r.run(strings.TrimPrefix(command, "$ ")), want)
}
