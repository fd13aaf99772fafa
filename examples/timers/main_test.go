package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		1.0 s: tick
		2.0 s: tick
		no toast, it was there: true
		3.0 s: tick
		3.5 s: egg ready
	`)
}
