package filter

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a page of docs.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
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
		t.Fatalf("docs/language.md has no block below %s", heading)
	}
	return block
}

func TestTheErrorsOfThePageAreThoseOfTheParser(t *testing.T) {
	for line := range strings.SplitSeq(fence(t, page(t, "language.md"), "Errors"), "\n") {
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
var examples = regexp.MustCompile(`^(a|power|max|updated|tags|exists|type|related|temperature|desired\.mode|status|not|attributes\.due)\b.* .`)

func TestTheExamplesOfThePageAreFilters(t *testing.T) {
	seen := 0
	for _, match := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page(t, "filter.md"), -1) {
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

func TestThePageHasTheWordsSignsAndFunctions(t *testing.T) {
	text := page(t, "language.md")
	grammar := fence(t, text, "Grammar")
	for _, w := range words {
		if !strings.Contains(grammar, `"`+w+`"`) {
			t.Errorf("the grammar of docs/language.md does not have the word %s", w)
		}
	}
	for _, s := range symbols {
		if !strings.Contains(grammar, `"`+s.written+`"`) {
			t.Errorf("the grammar of docs/language.md does not have the sign %s", s.written)
		}
	}
	for _, f := range functions {
		if usage, _, _ := strings.Cut(f.usage, " or "); !strings.Contains(text, "`"+usage+"`") {
			t.Errorf("docs/language.md does not have %s", usage)
		}
	}
}
