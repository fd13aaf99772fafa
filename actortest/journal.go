package actortest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Journal is a list of lines about what happened. Handlers, middleware and goroutines
// write to it, and the test reads it: for what is not a message, such as the order in
// which actors start and stop. Writing to it sends nothing, so it changes nothing in the
// system.
type Journal struct {
	k *Kit

	mu    sync.Mutex
	lines []string
}

// NewJournal returns an empty journal.
func NewJournal(k *Kit) *Journal { return &Journal{k: k} }

// Addf writes a line, formatted as by [fmt.Sprintf]. It may be called from any
// goroutine. A nil journal ignores it.
func (j *Journal) Addf(format string, args ...any) {
	if j == nil {
		return
	}
	line := fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// All settles and takes all lines. It may return none.
func (j *Journal) All() []string {
	j.k.Settle()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// Expect settles, takes all lines and reports a failure unless they are exactly those,
// in that order. The test continues.
func (j *Journal) Expect(want ...string) {
	j.k.t.Helper()
	got := j.All()
	if !slices.Equal(got, want) {
		j.k.t.Errorf("journal: the lines do not match\n  want: %q\n  got:  %q\n  differs: %s", want, got, strings.Join(diff(want, got), "\n           "))
	}
}
