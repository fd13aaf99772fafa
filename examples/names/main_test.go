package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		generated: true
		prefix: /prefix-1
		named: /my-actor
		again: spawn /my-actor: name taken true
		reserved: true
	`)
}
