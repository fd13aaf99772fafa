package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Hello Roger, you are guest number 1
		Hello Alice, you are guest number 2
		Hello Roger, from a function
	`)
}
