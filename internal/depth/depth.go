// Package depth reads and writes how many behaviors stand behind a change. The source of its origin says it,
// as a part behind the version: script:dry-run@7:3. Mappings pass it on, so that a circle that leads through
// them ends as well.
package depth

import (
	"strconv"
	"strings"
)

// Of returns the depth of a source: 0 for "", and 1 for one that does not say it.
func Of(source string) int {
	if source == "" {
		return 0
	}
	_, parts, _ := strings.Cut(source[strings.LastIndexByte(source, '@')+1:], ":")
	for part := range strings.SplitSeq(parts, ":") {
		if n, err := strconv.Atoi(part); err == nil {
			return n
		}
	}
	return 1
}

// With returns a source that says the depth, where that is more than 1.
func With(source string, n int) string {
	if n > 1 {
		return source + ":" + strconv.Itoa(n)
	}
	return source
}
