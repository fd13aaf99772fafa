package pgdb

import (
	"strings"
	"unicode/utf8"
)

// Impossible reports whether a name is one that nothing in the database can have: it is
// no text to PostgreSQL, which would refuse the whole statement.
func Impossible(name string) bool { return !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 }

// PossiblePart is a name up to where it becomes impossible.
func PossiblePart(name string) string {
	for i, r := range name {
		if _, size := utf8.DecodeRuneInString(name[i:]); r == 0 || r == utf8.RuneError && size == 1 {
			return name[:i]
		}
	}
	return name
}
