package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		/lattes [] <nil>
		/screen [] <nil>
		one espresso <nil>
		one latte <nil>
		one mocha <nil>
		/lattes [ready.latte for Bob] <nil>
		/screen [ready.espresso for Ann ready.latte for Bob ready.mocha for Cid] <nil>
	`)
}
