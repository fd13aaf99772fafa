package filter

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is docs/filter.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "filter.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fence returns the fenced block after a heading.
func fence(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n## "+heading+"\n")
	_, rest, ok2 := strings.Cut(rest, "\n```\n")
	block, _, ok3 := strings.Cut(rest, "\n```\n")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("docs/filter.md has no block below %s", heading)
	}
	return block
}

func TestThePageHasTheGrammarOfThePackage(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.ReplaceAll(strings.ReplaceAll(string(source), "//\t", ""), "//", "")
	if grammar := fence(t, page(t), "Grammar"); !strings.Contains(plain, "\n"+grammar+"\n") {
		t.Error("the grammar of docs/filter.md is not the one of doc.go")
	}
}

func TestTheErrorsOfThePageAreThoseOfTheParser(t *testing.T) {
	for line := range strings.SplitSeq(fence(t, page(t), "Errors"), "\n") {
		text, want, ok := strings.Cut(line, "  ")
		if !ok {
			t.Fatalf("a line without a message: %q", line)
		}
		_, err := Parse(text)
		if err == nil || !strings.HasSuffix(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%s: %v, the page says %s", text, err, strings.TrimSpace(want))
		}
	}
}

// examples matches what the page has in code and begins like a condition.
var examples = regexp.MustCompile(`^(a|tags|exists|type|related|temperature|desired\.mode|status|not|attributes\.due)\b.* .`)

func TestTheExamplesOfThePageAreFilters(t *testing.T) {
	seen := 0
	for _, match := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page(t), -1) {
		text := match[1]
		if !examples.MatchString(text) || strings.Contains(text, "…") {
			continue
		}
		if _, err := Parse(text); err != nil && text != "type > 5" {
			t.Errorf("%s: %v", text, err)
		}
		seen++
	}
	if seen < 20 {
		t.Errorf("only %d examples were found", seen)
	}
}

func TestThePageHasTheWords(t *testing.T) {
	text := page(t)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("docs/filter.md does not have the word %s", w)
		}
	}
}
