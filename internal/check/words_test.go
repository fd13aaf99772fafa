package check

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retired are words that the repository does not use any more, with what to write
// instead. A word is found in comments, texts and identifiers alike: sceneOf has the word
// "scene". See the glossary in CONTRIBUTING.md.
var retired = map[string]string{
	"scene":    "mailbox",
	"crew":     "workers",
	"lobby":    "global queue",
	"usurp":    "abandon",
	"baptize":  "say what it does",
	"fledge":   "say what it does",
	"fledged":  "say what it does",
	"nestled":  "say what it does",
	"veteran":  "say what it does",
	"ghost":    "fenced",
	"soil":     "mark as dirty",
	"soiled":   "dirty",
	"chill":    "release",
	"airborne": "in flight",
	"aloft":    "in flight",
	"bereft":   "say what it has lost",
	"carriage": "network",
	"gush":     "saturate",
	"stirred":  "say what it does",
	"on hold":  "parked",
	"on stage": "running",

	"green room": "idle",

	"is right":              "say what the value must be: \"limit must be an integer from 1 to 1000, not 0\"",
	"are right":             "say what the value must be: \"limit must be an integer from 1 to 1000, not 0\"",
	"is not possible":       "say what the value must be: \"limit must be an integer from 1 to 1000, not 0\"",
	"are not possible":      "say what the value must be: \"limit must be an integer from 1 to 1000, not 0\"",
	"tells whether":         "reports whether",
	"what would be right":   "what it must be",
	"would have been right": "what it must be",
}

// plainSense are files that use a retired word in its plain sense, with the reason.
var plainSense = map[string]map[string]string{
	"CONTRIBUTING.md":              {"*": "the glossary names the retired words"},
	"internal/check/words_test.go": {"*": "the list itself"},
	"ARCHITECTURE.md":              {"green room": "the paragraph that explains the name", "on stage": "the same"},
	"actor/doc.go":                 {"green room": "the paragraph that explains the name"},
}

// checkedForWords reports whether a file is written by hand, in a language that the
// check reads.
func checkedForWords(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".ts", ".tsx":
		return !strings.HasPrefix(name, "server/dist/")
	}
	return false
}

// wordsOf splits a line into lower-case words: letters only, identifiers at their capital
// letters, so that "newSceneOf" has the words new, scene and of.
func wordsOf(line string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	for _, r := range line {
		switch {
		case !unicode.IsLetter(r):
			end()
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
			word = append(word, r)
		default:
			word = append(word, r)
		}
	}
	end()
	return words
}

// retiredPhrase is an entry of retired.
type retiredPhrase struct {
	text  string
	words []string
}

// retiredByFirst has the entries of retired by the word that they begin with, which may be a plural.
var retiredByFirst = func() map[string][]retiredPhrase {
	byFirst := make(map[string][]retiredPhrase)
	for text := range retired {
		p := retiredPhrase{text, strings.Fields(text)}
		byFirst[p.words[0]] = append(byFirst[p.words[0]], p)
		if len(p.words) == 1 {
			byFirst[p.words[0]+"s"] = append(byFirst[p.words[0]+"s"], p)
		}
	}
	return byFirst
}()

// retiredWords returns a finding for each retired word in a text.
func retiredWords(name, text string) []string {
	var findings []string
	allowed := plainSense[name]
	for i, line := range strings.Split(text, "\n") {
		words := wordsOf(line)
		for at, word := range words {
			for _, p := range retiredByFirst[word] {
				if beginsPhrase(words[at:], p.words) && allowed["*"] == "" && allowed[p.text] == "" {
					findings = append(findings, fmt.Sprintf("%s:%d: %q is retired: %s", name, i+1, p.text, retired[p.text]))
				}
			}
		}
	}
	slices.Sort(findings)
	return findings
}

// beginsPhrase reports whether words begin with a phrase. The last word of the phrase may
// have a plural s.
func beginsPhrase(words, phrase []string) bool {
	if len(words) < len(phrase) {
		return false
	}
	last := len(phrase) - 1
	return slices.Equal(words[:last], phrase[:last]) && (words[last] == phrase[last] || words[last] == phrase[last]+"s")
}

func TestNoRetiredWords(t *testing.T) {
	var findings []string
	for _, name := range trackedFiles(t) {
		if checkedForWords(name) {
			findings = append(findings, retiredWords(name, string(readTracked(t, name)))...)
		}
	}
	report(t, findings)
}

func TestPlainSenseHasNoEntryTooMany(t *testing.T) {
	files := trackedFiles(t)
	for name, words := range plainSense {
		if !slices.Contains(files, name) {
			t.Errorf("plainSense names %s, which is not in the repository", name)
			continue
		}
		text := string(readTracked(t, name))
		for word := range words {
			if word != "*" && !strings.Contains(strings.ToLower(text), word) {
				t.Errorf("plainSense allows %q in %s, which does not have it", word, name)
			}
		}
	}
}

func TestRetiredWordsFindsThem(t *testing.T) {
	text := "// newScene takes a mailbox\nreturn \"limit=0 is not possible; 1 is right\"\n// the crews; obscene, copyright, ghosting\n// it tells\n// whether"
	wantFindings(t, retiredWords("x.go", text),
		`x.go:1: "scene"`, `x.go:2: "is not possible"`, `x.go:2: "is right"`, `x.go:3: "crew"`)
}
