package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		node: chat path: /chatserver
		the same: true
		numbers are not said: true
		the room hears: hello
		same path: true same actor: false
		the old address: true
		remote: 127.0.0.1:8080/chatserver#1 <nil>
		look up 127.0.0.1:8080/chatserver#1: it is of the system "127.0.0.1:8080" and this one is "chat": actor stopped
	`)
}
