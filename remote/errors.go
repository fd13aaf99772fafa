package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Error is an error from another node: the error of a handler that was asked, or of an actor that
// has failed. It wraps the error of this program that has the same name, if there is one, so that
// [errors.Is] finds it. The errors of package actor have names, and so do those registered with
// [codec.Sentinel].
type Error struct {
	Node string // where it comes from
	Text string
	Is   error // nil if it has no name that is known here
}

// Error returns the text and the node.
func (e *Error) Error() string { return fmt.Sprintf("node %s: %s", e.Node, e.Text) }

// Unwrap returns the error of this program that has the same name, or nil.
func (e *Error) Unwrap() error { return e.Is }

// builtIn are the errors that each node knows.
var builtIn = codec.NewTypes(
	codec.Sentinel("actor.stopped", actor.ErrStopped),
	codec.Sentinel("actor.unreachable", actor.ErrUnreachable),
	codec.Sentinel("actor.unhandled", actor.ErrUnhandled),
	codec.Sentinel("actor.not_accepted", actor.ErrNotAccepted),
	codec.Sentinel("actor.mailbox_full", actor.ErrMailboxFull),
	codec.Sentinel("actor.deadlock", actor.ErrDeadlock),
	codec.Sentinel("actor.too_many_waiting", actor.ErrTooManyWaiting),
	codec.Sentinel("actor.wrong_goroutine", actor.ErrWrongGoroutine),
	codec.Sentinel("actor.linked", actor.ErrLinked),
	codec.Sentinel("actor.restart_budget", actor.ErrRestartBudget),
	codec.Sentinel("actor.name_taken", actor.ErrNameTaken),
	codec.Sentinel("actor.bad_name", actor.ErrBadName),
	codec.Sentinel("remote.not_offered", ErrNotOffered),
	codec.Sentinel("context.deadline_exceeded", context.DeadlineExceeded),
	codec.Sentinel("context.canceled", context.Canceled),
)

// ErrNotOffered says that a node offers no actor under the given name, see [Offer].
var ErrNotOffered = errors.New("not offered")

// ErrHasNode says that a system is connected already, or was: [Listen] can be called once for each.
var ErrHasNode = errors.New("the system has a node already")

// failure returns an error as it goes to another node. What the program has named comes before what
// each node knows.
func (n *Node) failure(err error) wire.Failure {
	if err == nil {
		return wire.Failure{}
	}
	name, text := n.describe(err)
	if text == "" {
		text = fmt.Sprintf("error without a text: %T", err)
	}
	return wire.Failure{Name: name, Text: text}
}

// describe calls the methods of an error, which may panic: that must not end the node.
func (n *Node) describe(err error) (name, text string) {
	defer func() { _ = recover() }()
	text = err.Error()
	if name = n.types.SentinelName(err); name == "" {
		name = builtIn.SentinelName(err)
	}
	return name, text
}

// errorOf returns an error that has come from another node, nil for none.
func (n *Node) errorOf(node string, f wire.Failure) error {
	if f.Name == "" && f.Text == "" {
		return nil
	}
	is := n.types.SentinelOf(f.Name)
	if is == nil {
		is = builtIn.SentinelOf(f.Name)
	}
	return &Error{Node: node, Text: f.Text, Is: is}
}
