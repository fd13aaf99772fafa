// Package guidetest shows that the Go of a guide compiles: a test file has the blocks of the guide
// as they are, in functions that give them their variables.
package guidetest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Blocks returns the blocks of code of a page that are of a language.
func Blocks(t testing.TB, page, language string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		list = append(list, string(block[1]))
	}
	return list
}

// Compiled fails the test if the page has fewer blocks of Go than least, or one that the file does
// not have. Spaces do not count.
func Compiled(t testing.TB, page, file string, least int) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := Blocks(t, page, "go")
	if len(blocks) < least {
		t.Fatalf("%s has %d blocks of Go", page, len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(spaced(string(source)), spaced(block)) {
			t.Errorf("this block of %s is not in %s:\n%s", page, file, block)
		}
	}
}

// spaced returns a text with one space where it has several, and none at the ends of its lines.
func spaced(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
