package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Alice do something
		Bob do something
		the walker is at 4850 <nil>
	`)
}
