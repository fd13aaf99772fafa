package behavior

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

var (
	// ErrNotFound says that there is no behavior of this name. It wraps [entity.ErrNotFound].
	ErrNotFound = fmt.Errorf("no such behavior: %w", entity.ErrNotFound)

	// ErrLimit says that there are MaxBehaviors already.
	ErrLimit = fmt.Errorf("at most %d behaviors are allowed", MaxBehaviors)

	// ErrTooMuch says that one call of a handler wants more than MaxEffects effects, or
	// more than MaxEffectBytes of them, or a state of more than MaxStateBytes.
	ErrTooMuch = errors.New("too much for one call")

	// ErrDepth says that MaxDepth behaviors stand behind a change: they trigger each other in a
	// cycle.
	ErrDepth = errors.New("a circle of behaviors")

	// ErrClosed says that the service has been closed.
	ErrClosed = errors.New("behaviors closed")
)
