package actortest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// heldAsk is a request that waits for the test to answer it. The runtime lets a request
// be answered in a handler that has it, or by a promise whose type of answer is known
// when it comes; a probe knows neither. So each request is forwarded to an actor of its
// own that keeps it until the test decides.
type heldAsk[M any] struct {
	msg    M
	decide chan func(ctx *actor.Context[M]) // one decision; closed when the test is over
	over   chan struct{}                    // closed when the request is answered or its asker has given up
}

// hold keeps the request that is being handled.
func (p *Probe[M]) hold(ctx *actor.Context[M], msg M) error {
	h := &heldAsk[M]{msg: msg, decide: make(chan func(*actor.Context[M]), 1), over: make(chan struct{})}
	p.mu.Lock()
	p.held = append(p.held, h)
	p.mu.Unlock()
	return actor.Forward(ctx, actor.SpawnFunc(ctx, "", h.receive))
}

func (h *heldAsk[M]) receive(ctx *actor.Context[M], _ M) error {
	_ = actor.Blocking(ctx, func() error {
		select {
		case answer := <-h.decide:
			close(h.over)
			if answer != nil {
				answer(ctx)
			}
		case <-ctx.Done():
			close(h.over)
			// The asker has given up. Its own error shall reach it, and not that we have
			// stopped: virtual time goes on only when it has had it.
			<-time.After(time.Nanosecond)
		}
		return nil
	})
	return actor.ErrStop
}

// Reply answers the oldest unanswered request of the probe that equals req, and settles.
// The test fails if there is none, or if its asker has given up.
//
//	req := actortest.ExpectMsg[Price](store)
//	actortest.Reply(store, req, 42)
func Reply[R, M any](p *Probe[M], req actor.Request[R], answer R) {
	p.k.t.Helper()
	p.answer("Reply", req, func(ctx *actor.Context[M]) { actor.Reply(ctx, req, answer) })
}

// Reject ends the oldest unanswered ask whose request equals req with an error, and
// settles. See [Reply].
func Reject[R, M any](p *Probe[M], req actor.Request[R], err error) {
	p.k.t.Helper()
	p.answer("Reject", req, func(ctx *actor.Context[M]) { actor.Promise(ctx, req).Reject(err) })
}

// ReplyFor is [Reply] for a request made by [actor.AskFor].
func ReplyFor[R, M any](p *Probe[M], req M, answer R) {
	p.k.t.Helper()
	p.answer("ReplyFor", req, func(ctx *actor.Context[M]) { actor.ReplyFor(ctx, answer) })
}

func (p *Probe[M]) answer(verb string, req any, answer func(*actor.Context[M])) {
	p.k.t.Helper()
	p.k.Settle()
	h, others := p.unanswered(req)
	if h == nil {
		p.k.t.Fatalf("%s: %s: no such request waits for an answer\n  request: %s\n  waiting: %d%s%s",
			p.ref.PID().Path(), verb, show(req), len(others), indented(others), p.circumstances())
	}
	h.decide <- answer
	p.k.Settle()
}

// unanswered takes the oldest request that equals req and still waits; without one it
// returns those that wait.
func (p *Probe[M]) unanswered(req any) (found *heldAsk[M], others []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h *heldAsk[M]) bool {
		select {
		case <-h.over:
			return true
		default:
			return false
		}
	})
	for i, h := range p.held {
		if len(diff(req, any(h.msg))) == 0 {
			p.held = slices.Delete(p.held, i, i+1)
			return h, nil
		}
		others = append(others, show(h.msg))
	}
	return nil, others
}

// release lets go of the requests that were never answered.
func (p *Probe[M]) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.held {
		close(h.decide)
	}
	p.held = nil
}

func indented(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "\n    %s", line)
	}
	return b.String()
}
