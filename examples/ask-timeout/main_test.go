package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Received pong message &main.pong{}
		Timed out
		Received pong message &main.pong{}
		Timed out
		Received pong message &main.pong{}
		Timed out
	`)
}
