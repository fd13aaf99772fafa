// Package soaktest gives a test two lengths: a short one for `make test`, which
// people wait for, and a long one for `make soak`, which runs by itself.
//
// A test checks the same in both; only the number of its rounds differs. The
// environment variable GREENROOM_SOAK chooses the long form when it is not empty.
package soaktest

import (
	"os"
	"testing"
)

// variable chooses the long form. It is the only one that does.
const variable = "GREENROOM_SOAK"

// Rounds returns how many rounds a test makes of what finds more the longer it
// is repeated: short in `make test`, long in `make soak`, and writes the latter
// to the test's log. It panics unless 0 < short < long. It is safe for concurrent
// use, and a process that a test starts gets the same answer.
func Rounds(tb testing.TB, short, long int) int {
	tb.Helper()
	if short <= 0 || short >= long {
		panic("soaktest: short must be positive and less than long")
	}
	if os.Getenv(variable) == "" {
		return short
	}
	tb.Logf("soak: %s: %d rounds, %d in make test", tb.Name(), long, short)
	return long
}
