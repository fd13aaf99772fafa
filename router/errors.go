package router

import "errors"

// The errors that callers can distinguish with [errors.Is]. If the router's actor is gone, its
// functions return [actor.ErrStopped].
var (
	// ErrBadSize says that a pool cannot have that many routees. Nothing was changed.
	ErrBadSize = errors.New("bad pool size")

	// ErrZeroRef says that a member is the zero reference, which refers to nobody.
	// Nothing was changed.
	ErrZeroRef = errors.New("member is the zero Ref")

	// ErrSelf says that a group was to be its own member. Nothing was changed.
	ErrSelf = errors.New("member is the group itself")

	// ErrNoStrategy says that the strategy is nil. Nothing was started.
	ErrNoStrategy = errors.New("no strategy")
)
