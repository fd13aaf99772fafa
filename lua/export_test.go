package lua

import "github.com/greenroom-go/greenroom/actor"

// NewAsk returns the message of a call without values, for asks with a limit of their own.
func NewAsk() actor.Request[answer] { return &asked{} }
