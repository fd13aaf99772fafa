package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		on their way: 2 <nil>
		page 1: text of page 1 <nil>
		page 404: ask /library with main.Fetch: no such page
		again: text of page 1 <nil> at once: true
	`)
}
