package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Received pong message &main.pong{count:0x1}
		Received pong message &main.pong{count:0x4}
		Received pong message &main.pong{count:0x3}
		Received pong message &main.pong{count:0x7}
		Received pong message &main.pong{count:0x6}
		Received pong message &main.pong{count:0xa}
		Received pong message &main.pong{count:0x9}
		Received pong message &main.pong{count:0xd}
		Received pong message &main.pong{count:0xc}
		Received pong message &main.pong{count:0x10}
		Received pong message &main.pong{count:0xf}
		Received pong message &main.pong{count:0x13}
		Received pong message &main.pong{count:0x12}
		Received pong message &main.pong{count:0x16}
	`)
}
