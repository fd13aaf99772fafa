//go:build !invariants

package actor

// invariant is empty in the ordinary build.
type invariant struct{}

func (*invariant) moved(state)     {}
func (*invariant) aged(_, _ phase) {}
func (*invariant) requireNoLock()  {}
func (*core) requireOffStack()     {}
func (*spin) acquired()            {}
func (*spin) released()            {}
