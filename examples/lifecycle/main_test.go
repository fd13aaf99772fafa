package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		a quiet life:
		Started, initialize actor here
		Hello Roger
		Stopping, actor is about to shut down
		Stopped, actor and its children are stopped
		a life with a failure:
		Started, initialize actor here
		Hello nobody
		Restarting, actor is about to restart (panic: Ouch)
		Started, initialize actor here
		Hello Roger
		Stopping, actor is about to shut down
		Stopped, actor and its children are stopped
	`)
}
