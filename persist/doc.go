// Package persist keeps what actors record, so that an actor is still itself after a crash.
//
// A [Journal] is where it is kept. Package memory has one for tests; package journaltest is
// the conformance suite.
package persist
