package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		system: context self: /foreman parent: / from outside: true
		children: /foreman/ann /foreman/bob
		/foreman/bob says "I refuse"
		/foreman/bob is gone: failed no
		children: /foreman/ann
		/foreman/ann is gone: stopped <nil>
	`)
}
