package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		first is committed
		second is committed, by another leader: true
		committed: [first second] <nil>
		committed: [first second] <nil>
	`)
}
