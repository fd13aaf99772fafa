package actor

// Guardian gives the actor supervision rules of its own, in place of those for its parent's other
// children: for one child among many that may fail more often, or must not be restarted. [Escalate] makes
// the failure the parent's, as always. The rules apply to one actor, so the strategy must be [OneForOne]:
// others panic. Restarts together with its siblings, where the parent's strategy has them, concern the
// actor when one of those fails.
func Guardian(s SuperviseOption) SpawnOption {
	required(s.s.strategy == OneForOne, "Guardian: the strategy must be OneForOne, since a guardian has one child")
	required(s.s.decide != nil, "Guardian: the zero SuperviseOption has no rules: Supervise makes one")
	required(s.s.autoStop == 0, "Guardian: AutoStop is for an actor with children")
	return spawnOption(func(c *spawnConfig) { c.guardian = &s.s })
}

// superOf returns the rules by which a child is supervised.
func (c *core) superOf(child *core) *supervision {
	child.mu.Lock()
	defer child.mu.Unlock()
	if ext := child.ext; ext != nil && ext.guardian != nil {
		return ext.guardian
	}
	return c.kind.super
}
