package check

import (
	"bytes"
	"fmt"
	"go/format"
	"path"
	"regexp"
	"strings"
	"testing"
)

// outside are texts that tie the repository to a machine or to where it was
// built. The words are put together here, or this file would break its own
// rule.
var outside = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a path of somebody's machine", regexp.MustCompile(`(?:^|[^\w./})\]-])/(?:` + strings.Join([]string{"wo" + "rk", "fa" + "rm", "ro" + "ot", "ho" + "me", "Us" + "ers"}, "|") + `)/`)},
	{"the host of a package registry", regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`proxy\.go` + `lang\.org`, `sum\.go` + `lang\.org`, `registry\.npm` + `js\.org`, `registry\.yarn` + `pkg\.com`,
		`(?:deb|security)\.deb` + `ian\.org`, `archive\.ubu` + `ntu\.com`, `py` + `pi\.org`,
	}, "|") + `)\b`)},
}

// isText tells text from pictures and fonts as git does: by a zero byte.
func isText(content []byte) bool {
	return !bytes.Contains(content[:min(len(content), 8000)], []byte{0})
}

func outsideReferences(name string, content []byte) []string {
	var findings []string
	number := 0
	for line := range bytes.Lines(content) {
		number++
		for _, o := range outside {
			if match := o.pattern.Find(line); match != nil {
				findings = append(findings, fmt.Sprintf("%s:%d: %q is %s", name, number, strings.TrimSpace(string(match)), o.what))
			}
		}
	}
	return findings
}

func TestNoFileNamesAMachineOrARegistry(t *testing.T) {
	for _, name := range trackedFiles(t) {
		if content := readTracked(t, name); isText(content) {
			report(t, outsideReferences(name, content))
		}
	}
}

func TestOutsideReferencesFindsThem(t *testing.T) {
	text := "see /wo" + "rk/main\n" +
		"\"/ho" + "me/anna/x\"\n" +
		"GOPROXY=https://proxy.go" + "lang.org\n" +
		"a net/wo" + "rk/load, https://example.org/ro" + "ot/page and ./wo" + "rk/x are fine\n"
	wantFindings(t, outsideReferences("notes.md", []byte(text)),
		"notes.md:1", "notes.md:2", "notes.md:3")
}

func TestGoFilesAreFormatted(t *testing.T) {
	for _, name := range withExt(t, ".go") {
		content := readTracked(t, name)
		formatted, err := format.Source(content)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !bytes.Equal(content, formatted) {
			t.Errorf("%s is not formatted: make fmt", name)
		}
	}
}

// fileLink matches a Markdown link or picture, a link's definition, and the
// two HTML attributes that lead somewhere.
var fileLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s{0,3}\[[^\]]+\]:\s+<?([^\s>]+)|(?:src|srcset|href)="([^"]+)"`)

// codeSpan is what may look like a link and is shown as it is.
var codeSpan = regexp.MustCompile("`[^`]*`")

// links returns the targets of a Markdown document's links, fenced code left
// out.
func links(markdown string) []string {
	var targets []string
	for line := range proseLines(markdown) {
		for _, match := range fileLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "``"), -1) {
			targets = append(targets, match[1]+match[2]+match[3])
		}
	}
	return targets
}

// proseLines yields the lines outside of fenced code.
func proseLines(markdown string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		fence := ""
		for line := range strings.Lines(markdown) {
			trimmed := strings.TrimSpace(line)
			if fence == "" && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")) {
				fence = trimmed[:3]
				continue
			}
			if fence != "" {
				if strings.HasPrefix(trimmed, fence) {
					fence = ""
				}
				continue
			}
			if !yield(line) {
				return
			}
		}
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)

// anchors returns the names that a document's headings can be linked by, made
// the way the usual renderers make them.
func anchors(markdown string) map[string]bool {
	names := make(map[string]bool)
	seen := make(map[string]int)
	for line := range proseLines(markdown) {
		hashes := len(line) - len(strings.TrimLeft(line, "#"))
		if hashes == 0 || hashes > 6 || !strings.HasPrefix(line[hashes:], " ") {
			continue
		}
		text := strings.ToLower(strings.TrimSpace(line[hashes:]))
		text = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1")
		name := strings.ReplaceAll(notInAnchor.ReplaceAllString(text, ""), " ", "-")
		if n := seen[name]; n > 0 {
			names[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			names[name] = true
		}
		seen[name]++
	}
	return names
}

// brokenLinks checks the links of one document against all files of the
// repository, given as name to content; a folder is there if a file is in it.
func brokenLinks(document string, files map[string]string) []string {
	var findings []string
	for _, target := range links(files[document]) {
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		name := document
		if file != "" {
			name = path.Join(path.Dir(document), file)
		}
		if strings.HasPrefix(file, "/") || strings.HasPrefix(name, "../") {
			findings = append(findings, fmt.Sprintf("%s: the link %q leads out of the repository", document, target))
			continue
		}
		if !isThere(name, files) {
			findings = append(findings, fmt.Sprintf("%s: the link %q leads nowhere", document, target))
			continue
		}
		if anchor != "" && path.Ext(name) == ".md" && !anchors(files[name])[strings.ToLower(anchor)] {
			findings = append(findings, fmt.Sprintf("%s: the link %q names a heading that %s does not have", document, target, name))
		}
	}
	return findings
}

func isThere(name string, files map[string]string) bool {
	if _, ok := files[name]; ok || name == "." {
		return true
	}
	for file := range files {
		if strings.HasPrefix(file, name+"/") {
			return true
		}
	}
	return false
}

func TestLinksOfTheDocumentsResolve(t *testing.T) {
	files := make(map[string]string)
	for _, name := range trackedFiles(t) {
		files[name] = ""
		if path.Ext(name) == ".md" {
			files[name] = string(readTracked(t, name))
		}
	}
	for _, name := range withExt(t, ".md") {
		report(t, brokenLinks(name, files))
	}
}

func TestBrokenLinksFindsThem(t *testing.T) {
	files := map[string]string{
		"actor/doc.go": "",
		"docs/b.md":    "# A heading, twice!\n# A heading, twice!\n",
		"docs/a.md": "[good](b.md) ![gone](gone.png) [web](https://example.org/x.md)\n" +
			"[folder](../actor) [heading](b.md#a-heading-twice-1) [own](#top)\n" +
			"`[code](span.md)`\n```\n[code](block.md)\n```\n" +
			"<img src=\"shot.png\"> [out](../../elsewhere.md)\n" +
			"[wrong]: b.md#no-such-heading\n",
	}
	wantFindings(t, brokenLinks("docs/a.md", files),
		`"gone.png" leads nowhere`,
		`"#top" names a heading`,
		`"shot.png" leads nowhere`,
		`"../../elsewhere.md" leads out`,
		`"b.md#no-such-heading" names a heading`,
	)
}
