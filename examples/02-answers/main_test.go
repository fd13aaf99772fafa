package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		one espresso
		one latte
		sold: 2 error: <nil>
		error: ask /barista with main.Sold: actor stopped true
	`)
}
