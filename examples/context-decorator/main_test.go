package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		decorator: receives Roger
		Hello Roger
		decorator: becomes another
		decorator: receives myself
		Good-bye myself from myself: true
		decorator: stops
	`)
}
