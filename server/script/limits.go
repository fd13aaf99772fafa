package script

import "github.com/greenroom-go/greenroom/entity/behavior"

// What goes beyond a limit is refused with an error that names it, if nothing else is said.
const (
	// MaxScripts bounds the scripts of a server, and MaxOwned those of an owner who may not write
	// all entities.
	MaxScripts = behavior.MaxBehaviors
	MaxOwned   = 8
	// Reserved is how many of MaxScripts are left to owners who may write all entities.
	Reserved = 16
	// MaxSourceBytes bounds the text of a script, and MaxNoteBytes what is noted about a version.
	MaxSourceBytes = 64 << 10
	MaxNoteBytes   = 1024
	// MaxWhereBytes bounds Script.Where.
	MaxWhereBytes = 4096
	// MaxVersions bounds the versions that are kept of a script besides the one in force, the newest.
	MaxVersions = 50
	// Runners is how many entities a script is called for at the same time.
	Runners = 4
	// Steps bounds a call.
	Steps = 100_000
	// RestSteps is how many steps a call may take without a rest after it: of its runner, for about ten
	// times as long as the call has taken, so that scripts with much to do leave the processors to
	// others.
	RestSteps = 10_000
	// MemoryBytes bounds the values that a script has on each runner.
	MemoryBytes = 2 << 20
	// MaxPrinted bounds the lines that are shown of one call in a trial.
	MaxPrinted = 20
	// MaxTrials bounds the trials under way.
	MaxTrials = 2
)
