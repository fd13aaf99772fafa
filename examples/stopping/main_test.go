package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		ann handles the first
		ann goes home
		/ann is gone: stopped
		dead letter "the last": stopped
		bob handles the first
		bob handles the last
		bob goes home
		/bob is gone: stopped
		cid handles the first
		/cid is gone: killed
		dead letter "the last": killed
		dan handles the first
		dan handles a resignation
		dan goes home
		/dan is gone: stopped
		dead letter "the last": stopped
	`)
}
