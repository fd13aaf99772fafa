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

// Restart gives an actor a fresh state after its current message, as its supervisor does after a
// failure: its children stop, Terminate is called with nil, and its reference and mailbox stay. If
// it waits for a backoff, or for its supervisor's directive, that wait ends; if the supervisor then
// decides to stop the actor, to escalate its failure, or to restart it together with its siblings, it
// still does. Restart is not a failure, and does not count toward a restart budget. A passivated actor
// has no state, so nothing changes for it. Restart fails with [ErrStopped] if there is no such actor in
// this system, and for an actor of another system.
func (s *System) Restart(pid PID) error {
	c := s.local(pid)
	if c == nil || c == s.root {
		return fmt.Errorf("restart: %w", nobody(pid.String()))
	}
	c.signal(signal{kind: sigRenew})
	return nil
}

// order has the actor with that address stopped. The root takes no order.
func (s *System) order(what string, pid PID, mode stopMode) error {
	c, err := s.resolve(pid)
	if err == nil && c == s.root {
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
	} else {
		c.signal(signal{kind: sigStop, mode: mode})
	}
	if mode != stopKill {
		c.limitStop()
	}
}
