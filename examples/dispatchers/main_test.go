package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		pool
		Tell returned
		handled Hello
		pinned
		Tell returned
		handled Hello
		inline
		handled Hello
		Tell returned
	`)
}
