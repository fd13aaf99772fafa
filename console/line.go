package console

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// split returns the words of a line. A word that begins with a quote is a text of Go.
func split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" {
			return words, nil
		}
		if line[0] != '"' {
			end := strings.IndexFunc(line, unicode.IsSpace)
			if end < 0 {
				end = len(line)
			}
			words, line = append(words, line[:end]), line[end:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("a quoted text must end with a quote and have the escapes of Go: %.100s", line)
		}
		word, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
		words, line = append(words, word), line[len(quoted):]
	}
}

// printable returns s with the characters that steer a terminal as escapes.
func printable(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if r == '\n' || r == '\t' || r == ' ' || unicode.IsGraphic(r) {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRune(r)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}
