package behavior

import "time"

// What goes beyond a limit is refused with an error that names it, if nothing else is said.
const (
	// MaxBehaviors bounds the behaviors of a service. Each follows all changes.
	MaxBehaviors = 64
	// MaxNameBytes bounds the name of a behavior.
	MaxNameBytes = 128
	// MaxKeys bounds Spec.Keys.
	MaxKeys = 64
	// MaxStateBytes bounds the state of a behavior for one entity.
	MaxStateBytes = 4 << 10
	// MaxEffects bounds the readings, patches and commands of one call of a handler, and
	// MaxEffectBytes their texts together.
	MaxEffects     = 64
	MaxEffectBytes = 16 << 10
	// MaxDepth bounds how many behaviors may stand behind a change: one that was written
	// by a behavior, because of a change that was written by another one, has the depth 2.
	MaxDepth = 8
	// MaxInRow is how many failures in a row switch a behavior off.
	MaxInRow = 100
	// MaxFailures bounds the failures that are kept of a behavior, the newest, and
	// MaxFailureBytes the text of each.
	MaxFailures     = 20
	MaxFailureBytes = 4 << 10
	// MaxPending bounds the effects of a behavior that are decided and not carried out:
	// with more it waits.
	MaxPending = 4096
	// MaxRunners bounds Config.Runners.
	MaxRunners = 64
	// MinEvery bounds Spec.Every.
	MinEvery = time.Second
	// MaxTrySteps bounds the readings of one Try, and MaxTryBytes about the size of its
	// answer: it ends with the step that exceeds it.
	MaxTrySteps = 1000
	MaxTryBytes = 4 << 20
)
