package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		answered among the greedy: [1 2 3 4 5 6 7 8 9 10]
	`)
}
