// Package check holds the repository to its own rules: tests that read the
// source instead of running it. What they guard is written in ARCHITECTURE.md
// and CONTRIBUTING.md; a rule that a reader could break without noticing
// belongs here.
//
// It has no code but its tests. Each rule is a function over plain input, so
// that beside the test that applies it to the repository stands one that shows
// it finding what it is there to find.
package check
