// Package text shortens what came from outside for errors and logs.
package text

import "strings"

// Shorten returns s if it has at most limit bytes, and otherwise its beginning in whole
// characters, with an ellipsis. What is cut is valid UTF-8.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
