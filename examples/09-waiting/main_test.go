package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		one by one: 3 <nil>, after 3.0 s
		all at once: 3 <nil>, after 1.0 s
		meanwhile: [a drink by /ann beans from the cellar] <nil>, after 1.5 s
	`)
}
