package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		worker starts
		one done, 1 since the start
		two done, 2 since the start
		worker ends: bad job
		worker starts
		three done, 1 since the start
		worker ends: panic: worse than bad
		worker starts
		four done, 1 since the start
		worker ends: <nil>
		failures: 2 restarts: 2
	`)
}
