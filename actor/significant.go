package actor

// Significance says which of its [Significant] children an actor does not outlive. See [AutoStop].
type Significance uint8

const (
	// AnySignificant stops the actor when one of them has ended.
	AnySignificant Significance = 1 + iota
	// AllSignificant stops the actor when the last of them has ended.
	AllSignificant
)

// Significant marks a child whose end its parent may not outlive: see [AutoStop]. A [Permanent] actor
// cannot be one, since it does not end by itself: spawning one fails.
func Significant() SpawnOption { return spawnOption(func(c *spawnConfig) { c.significant = true }) }

// AutoStop stops the actor when [Significant] children of it have ended, like OTP's auto_shutdown: for
// an actor that exists only for the work of its children. It does not matter how they have ended,
// except that a child does not count if a restart together with its siblings ends it, or if [TrySpawn]
// returned an error for it. Without AutoStop no child is significant. It is not for the actors at the
// root: [NewSystem] panics.
func AutoStop(when Significance) SupervisionOption {
	required(when == AnySignificant || when == AllSignificant, "AutoStop: it takes AnySignificant or AllSignificant")
	return func(s *supervision) { s.autoStop = when }
}

// isSignificant reports whether c is a significant child.
func (c *core) isSignificant() bool { return c.flags.Load()&significant != 0 }

// needs reports whether c stops when a child that has ended was the one, or the last one, that it does
// not outlive. REQUIRES: c.mu held.
func (c *core) needs(child *core) bool {
	if !child.isSignificant() {
		return false
	}
	when := c.kind.super.autoStop
	return when == AnySignificant || when == AllSignificant && c.ext.significant == 0
}

// takeStop reports whether c is to stop that was suspended, and forgets it: such a child has ended
// meanwhile, or another handler has asked to.
func (c *core) takeStop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.ext.stopsLater
	c.ext.stopsLater = false
	return was
}

// stopWithout stops the actor if it does not outlive a child that has ended. REQUIRES: the turn owns c.
func (c *core) stopWithout(child *core) {
	c.mu.Lock()
	needs := c.needs(child)
	if needs && c.phase == suspended {
		c.ext.stopsLater = true
	}
	c.mu.Unlock()
	if needs && c.phase == running {
		c.halting = true
		c.quit()
	}
}
