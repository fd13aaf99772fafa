package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Starting, initialize actor here
		Hello Roger
		Restarting, actor is about to restart (panic: Ouch)
		Starting, initialize actor here
		Stopping, actor is about to shut down
		Stopped, actor and its children are stopped
	`)
}
