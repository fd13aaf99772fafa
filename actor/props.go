package actor

import "slices"

// Props says how to spawn an actor: what makes its state, or its handler, and with which options. It
// is a template, to be kept in a variable, passed on and spawned any number of times. It never
// changes, so it is safe for concurrent use. The zero Props makes no actor: spawning it panics.
type Props[M any] struct {
	state    Actor[M]
	newActor maker[M]
	opts     []SpawnOption
}

// NewProps returns props for actors whose state newActor makes. See [Spawn].
func NewProps[M any, A Actor[M]](newActor func() A, opts ...SpawnOption) Props[M] {
	required(newActor != nil, "NewProps: the function is nil: it makes the actor's state")
	return Props[M]{newActor: stateMaker[M, A](newActor), opts: slices.Clone(opts)}
}

// NewPropsFunc returns props for actors that are a function. See [SpawnFunc].
func NewPropsFunc[M any](receive func(*Context[M], M) error, opts ...SpawnOption) Props[M] {
	required(receive != nil, "NewPropsFunc: the function is nil: it is the handler")
	return Props[M]{state: funcActor[M](receive), opts: slices.Clone(opts)}
}

// With returns props with more options, which are applied after those that p has.
func (p Props[M]) With(opts ...SpawnOption) Props[M] {
	p.opts = slices.Concat(p.opts, opts)
	return p
}

// Spawn starts an actor. See the function [Spawn] for the parent, the name and what panics.
func (p Props[M]) Spawn(parent Spawner, name string) Ref[M] {
	p.check()
	return mustStart(spawn(parent, name, p.state, p.newActor, p.opts))
}

// TrySpawn is Spawn with an error. See the function [TrySpawn].
func (p Props[M]) TrySpawn(parent Spawner, name string) (Ref[M], error) {
	p.check()
	return tryStart(spawn(parent, name, p.state, p.newActor, p.opts))
}

func (p Props[M]) check() {
	required(p.state != nil || p.newActor != nil, "Spawn: the zero Props makes no actor; use NewProps or NewPropsFunc")
}
