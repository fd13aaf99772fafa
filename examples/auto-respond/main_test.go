package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		somebody touches the nose
		answered by /statue <nil>
		ask /statue with string: request not answered by its handler: it must reply, return an error, or take a Promise
	`)
}
