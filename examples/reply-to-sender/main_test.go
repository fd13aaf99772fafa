package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		"is anybody there?" comes from outside of any actor: nobody to respond to
		"what is it?" comes from /pilgrim
		/pilgrim is told "42" by /oracle
		asked: 42, of course <nil>
	`)
}
