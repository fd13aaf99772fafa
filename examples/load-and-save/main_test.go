package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		roger starts with 10
		roger restarts: fool's gold
		roger starts with 15
		counted: 16 <nil>
		roger stops with 16
		roger starts with 16
		roger restarts: fool's gold
		roger starts with 21
		counted: 22 <nil>
		roger stops with 22
	`)
}
