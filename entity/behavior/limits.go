package behavior

import "time"

// Unless a limit says otherwise, what exceeds it is refused with an error that names it.
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
	// MaxDepth bounds how many behaviors may stand behind a change: if a behavior writes a change
	// because of a change that another behavior wrote, the new change has depth 2.
	MaxDepth = 8
	// MaxInRow is how many failures in a row switch a behavior off.
	MaxInRow = 100
	// MaxFailures is how many failures of a behavior are kept, the newest ones, and MaxFailureBytes
	// bounds the text of each.
	MaxFailures     = 20
	MaxFailureBytes = 4 << 10
	// MaxPending bounds the effects of a behavior that are decided and not carried out; when there
	// are more, the behavior waits.
	MaxPending = 4096
	// MaxRunners bounds Config.Runners.
	MaxRunners = 64
	// MinEvery bounds Spec.Every.
	MinEvery = time.Second
	// MaxTrySteps bounds the readings of one Try, and MaxTryBytes roughly the size of its answer,
	// which ends with the step that exceeds it.
	MaxTrySteps = 1000
	MaxTryBytes = 4 << 20
)
