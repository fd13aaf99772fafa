package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		count: 6 error: <nil>
		error: ask /counter with main.Get: actor stopped
	`)
}
