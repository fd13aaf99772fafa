package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		user messages keep their order, and wait while the actor is suspended:
		handled 0
		handled 1
		handled 2
		suspended: not a number that I like
		handled 4
		handled 5
		stopping
		stop overtakes them:
		handled 0
		stopping
		dead letter 1
		dead letter 2
		dead letter 3
		dead letter 4
		dead letter 5
	`)
}
