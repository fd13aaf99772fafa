package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		/pool/1 does one, its job number 1
		/pool/2 does one, its job number 1
		/pool/3 does one, its job number 1
		/pool/4 does one, its job number 1
		/pool/5 does one, its job number 1
		ask /pool with main.job: bad job
		/pool/2 does two, its job number 2
		/pool/3 does two, its job number 2
		/pool/4 does two, its job number 2
		/pool/5 does two, its job number 2
		/pool/1 does three, its job number 1
		resized: <nil> 2
		/ann does one, its job number 1
		/bob does last, its job number 1
		/ann does two, its job number 2
		/ann does three, its job number 3
		added: <nil>
		/ann does roll call, its job number 4
		/cid does roll call, its job number 1
	`)
}
