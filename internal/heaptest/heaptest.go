// Package heaptest compares what values take of the heap with an estimate.
package heaptest

import (
	"fmt"
	"runtime"
	"strings"
)

// Live returns the bytes of the heap that are alive. A test that uses it must not be parallel.
func Live() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // less than the machine has
}

// Times returns a text n times, in which # is the number of each, with another text between them.
func Times(n int, text, between string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(text, "#", fmt.Sprint(i))
	}
	return strings.Join(parts, between)
}
