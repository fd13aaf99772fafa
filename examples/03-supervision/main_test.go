package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		barista starts
		one espresso
		one latte
		barista ends: out of decaf, sold: 2
		barista starts
		one mocha
		barista ends: panic: this is a coffee bar, sold: 1
		barista starts
		one cortado
		sold since the last restart: 1 error: <nil>
		failures: 2 restarts: 2
		barista ends: <nil>, sold: 1
	`)
}
