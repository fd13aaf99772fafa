package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Receive timeout test
		received 'hello'
		received 'hello'
		received 'hello'
		received 'hello'
		received 'hello'
		received 'hello'
		hit [return] to send no-influence messages
		ReceiveTimeout: 1
		received a no-influence message
		received a no-influence message
		received a no-influence message
		received a no-influence message
		received a no-influence message
		received a no-influence message
		hit [return] to send a message to cancel the timeout
		received 'cancel'
		Canceling
		hit [return] to finish
	`)
}
