// Package text shortens what came from outside for errors and logs.
package text

import "unicode/utf8"

// Shorten returns s if it has at most limit bytes, and otherwise its beginning, up to the
// end of a character, with an ellipsis.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
