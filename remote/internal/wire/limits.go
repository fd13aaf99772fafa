package wire

import "math"

// The limits of the protocol. A peer that breaks one loses its session.
const (
	// MaxFrame is the length of the longest frame that the form allows, kind included.
	MaxFrame = 1<<24 - 1
	// DefaultFrame is the length of the longest frame that each node accepts. Its hello may
	// allow longer ones.
	DefaultFrame = 4 << 20
	// MaxHello is the length of the longest frame before a connection is open.
	MaxHello = 4 << 10
	// MaxNodeName is the length of the longest name of a node or a cluster, in bytes.
	MaxNodeName = 255
	// MaxPath is the length of an actor's longest path, in bytes.
	MaxPath = 4 << 10
	// MaxText is the length of the longest text that may have a number, in bytes: an
	// address of the longest path.
	MaxText = MaxPath + MaxNodeName + 64
	// MaxNumber is the highest number of a text. 0 is none.
	MaxNumber = 1 << 16
	// MaxTextBytes is how long all texts with a number may be together, in bytes.
	MaxTextBytes = 16 << 20
	// MaxHeaderEntries is how many entries the header of a message may have.
	MaxHeaderEntries = 64
	// MaxHeaderBytes is the length of the longest header, in bytes.
	MaxHeaderBytes = 8 << 10
	// MaxErrorText is the length of the longest text of an error, in bytes.
	MaxErrorText = 8 << 10
	// MaxAsks is how many asks of one direction may be open.
	MaxAsks = 1 << 20
	// MaxRemaining is the longest time that an ask may have left, in milliseconds.
	MaxRemaining = math.MaxInt64 / 1_000_000
)

// FrameHead is the length of what precedes a frame's body.
const FrameHead = 4
