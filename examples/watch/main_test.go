package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		/captain/ann says farewell
		/captain/ann is gone: stopped, error: <nil>
		/captain/bob is gone: failed, error: man overboard
		/captain/bob is gone: no_actor, error: <nil>
	`)
}
