package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Mailbox started
		Message posted Hello
		Message received Hello
		No more messages
	`)
}
