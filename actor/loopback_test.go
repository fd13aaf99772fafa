package actor_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// loopback is a carrier between two systems of one process. What is sent waits in a lane in each
// direction, which a goroutine empties; messages of the type int are bytes on the way, others go as
// they are, and functions cannot be sent.
type loopback struct {
	far  *actor.Far
	peer *loopback

	mu     sync.Mutex
	queue  []frame       // to the peer; guarded by mu
	held   bool          // the lane is not emptied; guarded by mu
	limit  int           // frames that may wait, 0 for any number; guarded by mu
	room   chan struct{} // somebody waits for room; guarded by mu
	dead   bool          // guarded by mu
	open   map[actor.FarAsk]*actor.FarRequest
	wake   chan struct{}
	closed chan struct{}
}

// frame is something on its way.
type frame struct {
	to, from actor.PID
	msg      actor.FarMessage // a message, if do is nil
	do       func(at *actor.Far)
}

// connect returns two systems that know each other, "a" and "b".
func connect(t testing.TB, opts ...actor.SystemOption) (a, b *loopback) {
	t.Helper()
	a, b = newLoopback(t, "a", opts), newLoopback(t, "b", opts)
	a.peer, b.peer = b, a
	for _, l := range []*loopback{a, b} {
		l.far.Go(l.carry)
		l.far.After(100*time.Millisecond, l.sweep)
	}
	return a, b
}

func newLoopback(t testing.TB, name string, opts []actor.SystemOption) *loopback {
	t.Helper()
	sys := actor.NewSystem(name, append([]actor.SystemOption{actor.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	l := &loopback{open: map[actor.FarAsk]*actor.FarRequest{}, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	actor.Carry(sys, l)
	t.Cleanup(func() {
		if _, err := sys.Shutdown(bg); err != nil {
			t.Errorf("shut down %s: %v", name, err)
		}
	})
	return l
}

func (l *loopback) sys() *actor.System { return l.far.System() }

func (l *loopback) Attach(far *actor.Far) { l.far = far }

func (l *loopback) Way(to actor.PID) (actor.Way, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead || to.Node() != l.peer.sys().Name() || to.Incarnation() != l.peer.sys().Incarnation() {
		return nil, fmt.Errorf("%w: no node %q", actor.ErrUnreachable, to.Node())
	}
	return &lane{l, to}, nil
}

func (l *loopback) Peers() []actor.Peer { return nil }

func (l *loopback) Close(context.Context) error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// lane is the way to one actor.
type lane struct {
	*loopback
	to actor.PID
}

func (l *lane) Encoder(m reflect.Type) any {
	if m != reflect.TypeFor[int]() {
		return nil
	}
	return func(dst []byte, m int) ([]byte, error) { return binary.AppendVarint(dst, int64(m)), nil }
}

func (l *lane) Send(from actor.FarSender, m actor.FarMessage) actor.FarVerdict {
	if m.Message != nil && reflect.TypeOf(m.Message).Kind() == reflect.Func {
		return actor.FarNotAccepted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead:
		return actor.FarUnreachable
	case l.limit > 0 && len(l.queue) >= l.limit && m.Patient:
		return actor.FarWait
	case l.limit > 0 && len(l.queue) >= 2*l.limit:
		return actor.FarFull
	}
	m.Data = append([]byte(nil), m.Data...)
	if !m.Ask.IsZero() {
		l.open[m.Ask] = nil
	}
	l.put(frame{to: l.to, from: from.PID(), msg: m})
	return actor.FarTaken
}

func (l *lane) Room() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.tellRoom()
	return room
}

func (l *lane) Failure(err error) error { return err }

func (l *lane) Signal(s actor.FarSignal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.put(frame{do: func(at *actor.Far) { at.Signal(s) }})
	}
	return !l.dead
}

// tellRoom wakes who waits for room, if there is some. REQUIRES: l.mu held.
func (l *loopback) tellRoom() {
	if l.room != nil && (l.dead || len(l.queue) < l.limit || l.limit == 0) {
		close(l.room)
		l.room = nil
	}
}

// put queues a frame. REQUIRES: l.mu held.
func (l *loopback) put(f frame) {
	l.queue = append(l.queue, f)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// hold keeps the lane from being emptied, or lets it go on.
func (l *loopback) hold(held bool, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.limit = held, limit
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// carry empties the lane.
func (l *loopback) carry() {
	for {
		select {
		case <-l.wake:
		case <-l.closed:
			return
		}
		l.mu.Lock()
		var run []frame
		if !l.held {
			run, l.queue = l.queue, nil
		}
		l.tellRoom()
		l.mu.Unlock()
		l.bring(run)
	}
}

// pass brings the first frame of a lane that is held, and reports whether there was one.
func (l *loopback) pass() bool {
	l.mu.Lock()
	run := l.queue[:min(1, len(l.queue))]
	l.queue = l.queue[len(run):]
	l.mu.Unlock()
	l.bring(run)
	return len(run) > 0
}

func (l *loopback) bring(run []frame) {
	for len(run) > 0 {
		if f := run[0]; f.do != nil {
			f.do(l.peer.far)
			run = run[1:]
			continue
		}
		n := 1
		for n < len(run) && run[n].do == nil && run[n].to == run[0].to {
			n++
		}
		l.deliver(run[:n])
		run = run[n:]
	}
}

// deliver gives the peer messages to one actor: several as a run, a single one as such.
func (l *loopback) deliver(run []frame) {
	if len(run) == 1 {
		l.peer.far.Deliver(run[0].to, l.delivery(run[0], nil))
		return
	}
	l.peer.far.DeliverRun(run[0].to, func(scratch any) (d actor.FarDelivery, ok bool) {
		if len(run) == 0 {
			return d, false
		}
		d, run = l.delivery(run[0], scratch), run[1:]
		return d, true
	})
}

func (l *loopback) delivery(f frame, scratch any) actor.FarDelivery {
	d := actor.FarDelivery{From: l.peer.far.Sender(f.from), Message: f.msg.Message, Header: f.msg.Header}
	if f.msg.Type != nil {
		n, _ := binary.Varint(f.msg.Data)
		if into, ok := scratch.(*int); ok {
			*into, d.Message = int(n), into
		} else {
			d.Message = int(n)
		}
	}
	if ask := f.msg.Ask; !ask.IsZero() {
		d.Request = actor.NewFarRequest(time.Until(ask.Deadline()), func(answer any, err error) { l.peer.answer(ask, answer, err) })
		l.mu.Lock()
		l.open[ask] = d.Request
		l.mu.Unlock()
	}
	return d
}

// answer sends an answer back to the asker.
func (l *loopback) answer(ask actor.FarAsk, answer any, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(frame{do: func(*actor.Far) {
		l.peer.mu.Lock()
		delete(l.peer.open, ask)
		l.peer.mu.Unlock()
		if err != nil {
			ask.Reject(err)
			return
		}
		ask.Settle(func(into any) error { return assign(into, answer) })
	}})
}

func assign(into, answer any) error {
	if relay, ok := answer.(actor.FarRelay); ok {
		answer = relay.Answer
	}
	if relay, ok := into.(*actor.FarRelay); ok {
		relay.Answer = answer
		return nil
	}
	to := reflect.ValueOf(into).Elem()
	if answer == nil || !reflect.TypeOf(answer).AssignableTo(to.Type()) {
		return fmt.Errorf("it is a %T and not a %s", answer, to.Type())
	}
	to.Set(reflect.ValueOf(answer))
	return nil
}

// sweep cancels the requests whose asker has given up.
func (l *loopback) sweep() {
	l.mu.Lock()
	for ask, request := range l.open {
		if ask.Over() && request != nil {
			l.put(frame{do: func(*actor.Far) { request.Cancel() }})
			delete(l.open, ask)
		}
	}
	l.mu.Unlock()
	l.far.After(100*time.Millisecond, l.sweep)
}

var errCut = fmt.Errorf("%w: %w", actor.ErrUnreachable, io.ErrUnexpectedEOF)

// lose ends the connection for both. What has not been carried is a dead letter.
func (l *loopback) lose() {
	for _, side := range []*loopback{l, l.peer} {
		side.mu.Lock()
		side.dead = true
		rest, open := side.queue, side.open
		side.queue, side.open = nil, map[actor.FarAsk]*actor.FarRequest{}
		side.tellRoom()
		side.mu.Unlock()
		down := actor.NodeDown{Node: side.peer.sys().Name(), Err: errCut}
		for _, f := range rest {
			if f.do == nil {
				side.far.DeadLetter(actor.DeadLetter{To: f.to, From: f.from, Message: f.msg.Message, Type: "int", Reason: actor.NoConnection})
				down.Dropped++
			}
		}
		for ask := range open {
			ask.Reject(errCut)
		}
		side.far.Lost(side.peer.sys().Incarnation(), down)
	}
}

// remoteRef returns a reference, in the system of l, to an actor of its peer.
func remoteRef[M any](t testing.TB, l *loopback, pid actor.PID) actor.Ref[M] {
	t.Helper()
	ref, err := actor.Lookup[M](l.sys(), pid)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

var errFar = errors.New("refused")
