package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runIn runs testrun on a module that consists of the named files, and returns
// its exit status and what it printed.
func runIn(t *testing.T, files map[string]string) (status int, out string) {
	t.Helper()
	writeModule(t, files)
	var stdout, stderr bytes.Buffer
	status = run([]string{"-count=1", "./..."}, &stdout, &stderr)
	return status, stdout.String() + stderr.String()
}

// writeModule makes a module of the named files the working directory.
func writeModule(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
}

func wantOutput(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("the output lacks %q; it is\n%s", part, out)
		}
	}
}

// wantLastLine checks the line that other programs read.
func wantLastLine(t *testing.T, out, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("the last line is %q, want %q; the output is\n%s", got, want, out)
	}
}

func TestCountsWhatPassedAndSkippedAndNamesTheReason(t *testing.T) {
	status, out := runIn(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestPlain(t *testing.T) { t.Log("noise of a test that passes") }
func TestTable(t *testing.T) {
	t.Run("first", func(t *testing.T) {})
	t.Run("with/slash", func(t *testing.T) {})
}
func TestWantsABrowser(t *testing.T) { t.Skip("no browser here") }
`,
		"b/b.go": "package b\n",
	})
	if status != 0 {
		t.Errorf("status is %d, want 0", status)
	}
	wantOutput(t, out, "example.test/m/a TestWantsABrowser: no browser here", "[no tests]")
	if strings.Contains(out, "noise") {
		t.Errorf("the output of a test that passed is shown:\n%s", out)
	}
	wantLastLine(t, out, "3 passed, 0 failed, 1 skipped")
}

func TestShowsAFailureInFullAndFails(t *testing.T) {
	status, out := runIn(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestGood(t *testing.T) {}
func TestTable(t *testing.T) {
	t.Run("bad", func(t *testing.T) { t.Log("the way there"); t.Error("the verdict") })
	t.Run("good", func(t *testing.T) {})
}
`,
	})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "the way there", "the verdict", "1 FAILED:", "example.test/m/a TestTable/bad")
	wantLastLine(t, out, "2 passed, 1 failed, 0 skipped")
}

func TestCountsATestThatFailsBesideItsSubtests(t *testing.T) {
	status, out := runIn(t, map[string]string{
		"a/a_test.go": `package a
import "testing"
func TestTable(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Error("after the subtests")
}
`,
	})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "after the subtests")
	wantLastLine(t, out, "1 passed, 1 failed, 0 skipped")
}

func TestCountsAPackageThatDiesWithATestRunning(t *testing.T) {
	status, out := runIn(t, map[string]string{
		"a/a_test.go": `package a
import ("os"; "testing")
func TestOne(t *testing.T) {}
func TestExits(t *testing.T) { os.Exit(3) }
`,
		"b/b_test.go": `package b
import "testing"
func TestPanics(t *testing.T) { panic("by surprise") }
`,
	})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "TestExits (did not finish)", "by surprise", "example.test/m/b TestPanics")
	wantLastLine(t, out, "1 passed, 2 failed, 0 skipped")
}

func TestCountsAPackageThatDoesNotBuildAndShowsTheCompiler(t *testing.T) {
	status, out := runIn(t, map[string]string{
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestOne(t *testing.T) { undefinedName() }\n",
		"b/b_test.go": "package b\nimport \"testing\"\nfunc TestOne(t *testing.T) {}\n",
	})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "undefined: undefinedName", "example.test/m/a (does not build: ")
	wantLastLine(t, out, "1 passed, 1 failed, 0 skipped")
}

// TestATestThatFailsOnceIsUnstable has tests that fail in the run that leaves a file behind, and pass after it.
func TestATestThatFailsOnceIsUnstable(t *testing.T) {
	once := `package %s
import ("fmt"; "os"; "testing")
func TestGood(t *testing.T) {}
func first(t *testing.T) bool {
	_, err := os.Stat("ran")
	os.WriteFile("ran", nil, 0o644)
	return err != nil
}
func TestOnce(t *testing.T) {
	t.Run("sub", func(t *testing.T) { if first(t) { %s } })
}
var _ = fmt.Sprint
`
	for name, c := range map[string]struct {
		how, last string
		status    int
		want      string
	}{
		"by its own verdict": {`t.Error("this time")`, "2 passed, 0 failed, 0 skipped", 0, "1 UNSTABLE: failed beside other tests and passed 5 times alone"},
		"by a panic":         {`panic("this time")`, "1 passed, 1 failed, 0 skipped", 1, "1 FAILED:"},
		"by a data race":     {`fmt.Println("WARNING: DATA RACE: this time"); t.Error("race detected during execution of test")`, "1 passed, 1 failed, 0 skipped", 1, "1 FAILED:"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out := runIn(t, map[string]string{"a/a_test.go": fmt.Sprintf(once, "a", c.how)})
			if status != c.status {
				t.Errorf("status is %d, want %d", status, c.status)
			}
			wantOutput(t, out, "this time", c.want, "example.test/m/a TestOnce/sub")
			wantLastLine(t, out, c.last)
		})
	}
}

func TestATestThatFailsAgainHasFailed(t *testing.T) {
	status, out := runIn(t, map[string]string{"a/a_test.go": `package a
import ("os"; "testing")
func TestGood(t *testing.T) {}
func TestThrice(t *testing.T) {
	ran, _ := os.ReadFile("ran")
	os.WriteFile("ran", append(ran, '.'), 0o644)
	if n := len(ran); n == 0 || n == 3 { t.Error("after", n) }
}
`})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "again, alone, 5 times: example.test/m/a TestThrice", "1 FAILED:")
	wantLastLine(t, out, "1 passed, 1 failed, 0 skipped")
}

func TestManyThatFailAreNotRepeated(t *testing.T) {
	var text strings.Builder
	text.WriteString(`package a
import ("os"; "testing")
var fails = func() bool { _, err := os.Stat("ran"); return err != nil }()
`)
	for i := range maxAgain + 1 {
		fmt.Fprintf(&text, `func Test%d(t *testing.T) { os.WriteFile("ran", nil, 0o644); if fails { t.Error() } }
`, i)
	}
	status, out := runIn(t, map[string]string{"a/a_test.go": text.String()})
	if status != 1 || strings.Contains(out, "again") {
		t.Errorf("status %d, want 1:\n%s", status, out)
	}
	wantLastLine(t, out, fmt.Sprintf("0 passed, %d failed, 0 skipped", maxAgain+1))
}

func TestFailsWhenNoTestRan(t *testing.T) {
	status, out := runIn(t, map[string]string{"a/a.go": "package a\n"})
	if status != 1 {
		t.Errorf("status is %d, want 1", status)
	}
	wantOutput(t, out, "testrun: no test ran", "0 passed, 0 failed, 0 skipped")
}

func TestNothingThatGoSaysIsLost(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	err := r.read(strings.NewReader("go: downloading something\n" +
		`{"Action":"run","Package":"p","Test":"TestX"}` + "\n" +
		`{"Action":"output","Package":"p","Test":"TestX","Output":"last words\n"}` + "\n" +
		"a line without an end"))
	if err != nil {
		t.Fatal(err)
	}
	r.processor = 61 * time.Second
	r.close(1500 * time.Millisecond)
	wantOutput(t, out.String(), "go: downloading something\n", "a line without an end", "last words", "p TestX (did not finish)", "took 2s, 1m1s of processor time\n")
	wantLastLine(t, out.String(), "0 passed, 1 failed, 0 skipped")
}
