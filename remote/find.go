package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// findRequest is the payload of a find. The answer is a found.
type findRequest struct{ Path string }

// found is an actor that was found or spawned.
type found struct{ PID actor.PID }

// Find returns a reference to a living actor of another node by its path, and connects to that node
// if necessary. It fails with [actor.ErrStopped] if no actor has the path, and with
// [actor.ErrUnreachable] if the node cannot be reached. It does not check that the actor accepts an
// M: a message that it does not accept becomes a dead letter there.
//
// It blocks until the answer comes or ctx ends, at most 5 seconds if ctx has no deadline. In a
// handler call it within [actor.Blocking].
func Find[M any](ctx context.Context, n *Node, node, path string) (actor.Ref[M], error) {
	f, err := query[found](ctx, n, node, wire.KindFind, findRequest{path})
	if err != nil {
		return actor.Ref[M]{}, fmt.Errorf("find %s on node %s: %w", path, node, err)
	}
	return actor.Lookup[M](n.sys, f.PID)
}

// queryLimit is how long a query waits whose context has no deadline.
const queryLimit = 5 * time.Second

// query asks another node for something and waits for its answer.
func query[R any](ctx context.Context, n *Node, node string, kind wire.Kind, request any) (answer R, err error) {
	if node == n.sys.Name() {
		return answer, errors.New("it is this node: use package actor")
	}
	payload, err := n.types.AppendValue(nil, request)
	if err != nil {
		return answer, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(queryLimit)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	q := &pendingQuery[R]{done: make(chan struct{})}
	s := n.session(node)
	if s == nil {
		return answer, fmt.Errorf("%w: there is neither an address nor a connection of the node", actor.ErrUnreachable)
	}
	switch v := s.Request(kind, session.Sender{}, payload, q, max(time.Until(deadline), time.Millisecond)); v {
	case session.Sent:
	case session.Gone:
		return answer, fmt.Errorf("%w: it has just been lost", actor.ErrUnreachable)
	default:
		return answer, fmt.Errorf("%w: too much is not confirmed", actor.ErrUnreachable)
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		q.Reject(context.Cause(ctx))
	}
	return q.answer, q.err
}

// pendingQuery is a query that waits for its answer.
type pendingQuery[R any] struct {
	once   sync.Once
	answer R // set before done is closed, as err
	err    error
	done   chan struct{}
}

// Over implements session.Asker.
func (q *pendingQuery[R]) Over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// Settle implements settler.
func (q *pendingQuery[R]) Settle(decode func(into any) error) (first bool) {
	q.once.Do(func() {
		q.err = decode(&q.answer)
		first = true
		close(q.done)
	})
	return first
}

// Reject implements settler.
func (q *pendingQuery[R]) Reject(err error) (first bool) {
	q.once.Do(func() {
		q.err = err
		first = true
		close(q.done)
	})
	return first
}

// Request implements session.Handler.
func (n handler) Request(s *session.Session, k wire.Kind, r session.ReceivedRequest) {
	number := r.Ask
	reply := func(pid actor.PID, err error) { n.answer(s, number, found{pid}, err) }
	switch k {
	case wire.KindFind:
		var q findRequest
		if err := n.types.DecodeValue(r.Payload, &q); err != nil {
			reply(actor.PID{}, err)
			return
		}
		reply(n.find(q.Path))
	case wire.KindSpawn:
		var q spawnRequest
		if err := n.types.DecodeValue(r.Payload, &q); err != nil {
			reply(actor.PID{}, err)
			return
		}
		n.spawn(s.Peer(), q, reply)
	default:
		reply(actor.PID{}, fmt.Errorf("%w: %v", actor.ErrNotAccepted, k))
	}
}

// find returns the address of a living actor with a path. The root is nobody's to tell.
func (n *Node) find(path string) (actor.PID, error) {
	tree, err := n.sys.Inspect(path, 0)
	if err != nil {
		return actor.PID{}, err
	}
	if path == "/" {
		return actor.PID{}, fmt.Errorf("%w: it is the root", actor.ErrStopped)
	}
	return actor.ParsePID(tree.PID)
}
