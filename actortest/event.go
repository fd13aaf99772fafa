package actortest

import "github.com/greenroom-go/greenroom/actor"

// Events returns a new probe that is subscribed to the system's events of type E from
// now on: [actor.ActorFailed], [actor.Stuck], or all of them as [actor.Event]. They
// include events of the kit's own actors.
func Events[E actor.Event](k *Kit) *Probe[E] {
	p := NewProbe[E](k)
	actor.Subscribe(k.sys, p.ref)
	return p
}
