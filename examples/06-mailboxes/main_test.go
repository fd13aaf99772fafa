package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		refuse:
		  0.0 s: order 1, refused: false
		  0.3 s: order 2, refused: false
		  0.6 s: order 3, refused: false
		  0.9 s: order 4, refused: true
		  1.2 s: order 5, refused: false
		  1.5 s: order 6, refused: true
		wait:
		  0.0 s: order 1, refused: false
		  0.3 s: order 2, refused: false
		  0.6 s: order 3, refused: false
		  1.0 s: order 4, refused: false
		  2.0 s: order 5, refused: false
		  3.0 s: order 6, refused: false
	`)
}
