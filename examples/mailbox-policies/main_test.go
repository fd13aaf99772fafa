package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		unbounded:
		handled: [0 1 2 3 4 5]
		bounded:
		4: tell /reader: mailbox full
		5: tell /reader: mailbox full
		handled: [0 1 2 3]
		drop tail:
		handled: [0 1 2 3]
		dead letters: [4 5]
		drop head:
		handled: [0 3 4 5]
		dead letters: [1 2]
		blocking:
		4: tell /reader: mailbox full: no room until the time was up: context deadline exceeded
		5: tell /reader: mailbox full: no room until the time was up: context deadline exceeded
		handled: [0 1 2 3]
		priority:
		handled: [0 5 4 3 2 1]
		conflating:
		handled: [0 5 4]
		replaced by a newer one: 3
	`)
}
