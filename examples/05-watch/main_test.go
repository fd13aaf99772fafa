package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		/owner/ann says: I quit
		/owner/ann has ended: stopped, error: <nil>
		/owner/bob has ended: failed, error: burnt my hand
		/owner/bob has ended: no_actor, error: <nil>
		dead letter: {Drink:espresso} from /owner to /owner/bob: no_actor
	`)
}
