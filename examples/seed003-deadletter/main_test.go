package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		dead letter to /gone: main.hello {Who:Roger}
		told: true
		dead letters: 1
	`)
}
