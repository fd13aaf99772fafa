package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Hello Roger
		Roger, ey we are now handling messages in another behavior
		Roger, a third one, and back to the one before
		Roger, ey we are now handling messages in another behavior
	`)
}
