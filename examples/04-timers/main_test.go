package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		1.0 s: clean the machine
		2.0 s: clean the machine
		no music today: true
		3.0 s: clean the machine
		3.5 s: close
	`)
}
