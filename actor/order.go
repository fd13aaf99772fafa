package actor

import "fmt"

// Stop is [Ref.Stop] by address: for tools, which do not know the type of an actor's messages. It
// fails with [ErrStopped] when there is no such actor in this system.
func (s *System) Stop(pid PID) error {
	return s.order("stop", pid, stopNow)
}

// Drain is [Ref.Drain] by address. See [System.Stop].
func (s *System) Drain(pid PID) error {
	return s.order("drain", pid, stopDrain)
}

// Kill is [Ref.Kill] by address. See [System.Stop].
func (s *System) Kill(pid PID) error {
	return s.order("kill", pid, stopKill)
}

// order has the actor with that address stopped. The root takes no order.
func (s *System) order(what string, pid PID, mode stopMode) error {
	c, err := s.resolve(pid)
	if err == nil && c == &s.root.core {
		err = nobody(pid.String())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.stop(mode)
	return nil
}

// stop tells the actor to stop.
func (c *core) stop(mode stopMode) {
	if mode == stopDrain {
		c.impl().drain()
		return
	}
	c.signal(signal{kind: sigStop, mode: mode})
}
