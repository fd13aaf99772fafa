package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Hello Roger
		middleware 1
		middleware 2
		header: middleware 1;middleware 2;
	`)
}
