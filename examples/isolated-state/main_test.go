package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		10 <nil>
		15 <nil>
		My score is 15
		ask /actor1 with main.copyScore: ask /actor1 with main.score: wait would close a cycle of waiting actors; tell, AskThen and Reentrant actors do not: /actor1 -> /actor1
	`)
}
