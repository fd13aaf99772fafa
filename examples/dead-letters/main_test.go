package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		event: /once stopped
		dead letter: {Who:Alice} to /once from outside: no_actor
		dead letter: {Who:Bob} to /once from /late: no_actor
		refused: true
		dead letters: 2
		kept: main.hello {Who:Alice} to /once
		kept: main.hello {Who:Bob} to /once
	`)
}
