//go:build !invariants

package actor

// invariant is empty in the ordinary build.
type invariant struct{}

func (*invariant) beginTurn() {}
func (*invariant) endedTurn() {}
