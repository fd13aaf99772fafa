package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Started, initialize actor here
		Hello Roger
		Stopping, actor is about shut down
		Stopped, actor and its children are stopped
	`)
}
