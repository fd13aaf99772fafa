package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		espresso by /baristas/1 <nil>
		espresso by /baristas/2 <nil>
		espresso by /baristas/3 <nil>
		espresso by /baristas/1 <nil>
		latte by /baristas/1
		latte by /baristas/1
		latte by /baristas/2
		latte by /baristas/2
		latte by /baristas/3
		latte by /baristas/3
		after 2.0 s
		resized: <nil> 2
	`)
}
