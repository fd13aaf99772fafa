// Package exampletest runs an example program in a test and compares what it prints.
package exampletest

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// Check runs an example in a bubble of [testing/synctest], where its pauses take no
// time, and fails the test unless it prints exactly the lines of want. It also fails
// when the example leaves a goroutine behind. Space around want and around its lines is
// for the layout of the test and does not count.
func Check(t *testing.T, run func(w io.Writer), want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out output
		run(&out)
		got, want := lines(out.text()), lines(want)
		if got != want {
			t.Errorf("it prints\n%s\n\nwant\n%s", got, want)
		}
	})
}

// output is a buffer that several actors may write to, as they may to os.Stdout.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write appends p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func lines(text string) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range list {
		list[i] = strings.TrimSpace(line)
	}
	return strings.Join(list, "\n")
}
