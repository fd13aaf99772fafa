package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		host is to be spawned under / and takes messages of type main.knock
		guest-* is to be spawned under /host and takes messages of type string
		<nil> <nil>
		guest-* is to be spawned under /host and takes messages of type string
		spawn "guest-*" under /host: the house is full <nil>
	`)
}
