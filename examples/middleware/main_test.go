package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		receiving:
		middleware 1
		middleware 2
		Hello Roger
		sending:
		Hello Roger
		middleware 1
		middleware 2
		header: middleware 1;middleware 2;
		spawning:
		about to spawn host under /, for messages of type main.knock
		about to spawn guest-* under /host, for messages of type string
		<nil> <nil>
		about to spawn guest-* under /host, for messages of type string
		spawn "guest-*" under /host: the house is full <nil>
	`)
}
