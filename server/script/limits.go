package script

import (
	"time"

	"github.com/greenroom-go/greenroom/entity/behavior"
)

// Limits of scripts. Exceeding one is an error that names it, unless its comment says otherwise.
const (
	// MaxScripts bounds the scripts of a server, and MaxOwned those of an owner who may not write
	// all entities.
	MaxScripts = behavior.MaxBehaviors
	MaxOwned   = 8
	// Reserved is how many of MaxScripts are reserved for owners who may write all entities.
	Reserved = 16
	// MaxSourceBytes bounds Script.Source, and MaxNoteBytes Script.Note.
	MaxSourceBytes = 64 << 10
	MaxNoteBytes   = 1024
	// MaxWhereBytes bounds Script.Where.
	MaxWhereBytes = 4096
	// MaxVersions bounds the earlier versions of a script; the oldest are removed.
	MaxVersions = 50
	// Runners is how many entities a script is called for concurrently.
	Runners = 4
	// Steps bounds the steps of a call.
	Steps = 100_000
	// RestSteps is how many steps a call may take before its runner pauses after it, for about ten
	// times as long as the call took, so that busy scripts leave the processors to others.
	RestSteps = 10_000
	// MaxAhead is how far the scripts of an owner may be ahead of their share: all scripts have half of the
	// time of the processors, divided equally among the owners whose scripts run. Beyond that they rest,
	// however little each call does.
	MaxAhead = 100 * time.Millisecond
	// MemoryBytes bounds the values that a script has on each runner.
	MemoryBytes = 2 << 20
	// MaxPrinted bounds the lines printed by a call that a trial returns.
	MaxPrinted = 20
	// MaxTrials bounds the trials under way; an owner has one at a time.
	MaxTrials = 2
)
