package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		main.Withdraw: insert a card first
		card of Roger
		please wait: 10
		please wait: 20
		wrong PIN
		PIN accepted
		10 for Roger
		20 for Roger
		30 for Roger
		good-bye Roger
		main.Withdraw: insert a card first
	`)
}
