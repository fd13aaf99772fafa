package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		ann enters a cave with gold: 30
		ann hears: bob enters the cave
		bob enters a cave with gold: 30
		ann hears: bob digs up 5
		bob digs, and has: 5
		ann comes again: ann is here already
		rooms with new code: 1 new: CMD.dig CMD.enter CMD.enter/1 CMD.leave dispatch luck tell
		bob hears: ann digs up 20
		ann digs, and has: 20
		bob hears: ann digs up 5
		ann digs again, and has: 25
		ann hears: bob leaves the cave
		players: ann
	`)
}
