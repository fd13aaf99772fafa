package actor

import "fmt"

// Stop is [Ref.Stop] by address: for tools, which do not know the type of an actor's messages. It
// fails with [ErrStopped] when there is no such actor in this system.
func (s *System) Stop(pid PID) error {
	return s.order("stop", pid, func(c *core) { c.signal(signal{kind: sigStop, mode: stopNow}) })
}

// Drain is [Ref.Drain] by address. See [System.Stop].
func (s *System) Drain(pid PID) error {
	return s.order("drain", pid, func(c *core) { c.impl().drain() })
}

// Kill is [Ref.Kill] by address. See [System.Stop].
func (s *System) Kill(pid PID) error {
	return s.order("kill", pid, func(c *core) { c.signal(signal{kind: sigStop, mode: stopKill}) })
}

// order gives the actor with that address an order. The root takes none.
func (s *System) order(what string, pid PID, give func(*core)) error {
	c, err := s.resolve(pid)
	if err == nil && c == &s.root.core {
		err = nobody(pid.String())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	give(c)
	return nil
}
