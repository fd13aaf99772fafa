package actortest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Probe is an actor that records the messages it gets. Give its [Probe.Ref] to the actor
// under test. Expectations settle first, take messages in the order of arrival, and end
// the test if they are not met. Each message is taken once.
type Probe[M any] struct {
	k   *Kit
	ref actor.Ref[M]

	mu     sync.Mutex
	queue  []letter[M] // what came and was not taken
	taken  int         // how many were
	last   letter[M]   // the message taken last
	held   []*heldAsk[M]
	handle func(ctx *actor.Context[M], msg M) error
	// What Do wants run: one for each message of the kit's prompter that waits.
	scripts []func(ctx *actor.Context[M]) error
}

// letter is a message, who sent it, and when it was handled.
type letter[M any] struct {
	msg  M
	from actor.PID
	at   time.Duration
}

// NewProbe starts a probe named "probe-*" under the root. opts are options of spawning:
// a mailbox, a [Gate].
func NewProbe[M any](k *Kit, opts ...actor.SpawnOption) *Probe[M] {
	p := &Probe[M]{k: k}
	k.held = append(k.held, p)
	p.ref = actor.SpawnFunc(k.sys, "probe-*", p.receive, opts...)
	return p
}

// Ref returns the probe's reference. It may be used from any goroutine.
func (p *Probe[M]) Ref() actor.Ref[M] { return p.ref }

// Handle makes the probe call f with each message that it records from now on, as an
// actor's handler: to reply at once, to tell others, to fail or to stop. Requests are
// then f's to answer. A nil f ends that.
func (p *Probe[M]) Handle(f func(ctx *actor.Context[M], msg M) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = f
}

// Do runs f in the turn of a probe, as a handler of its messages, and settles: for what
// only an actor can do, such as to watch, to subscribe or to set a timer. An error or a
// panic of f is a failure of the probe, which is restarted. f does not run if the probe
// has stopped, or has no room for one more message; it takes a place in the mailbox like a
// message that is the zero M, and is not recorded. A full mailbox that drops or replaces
// messages without an error, as with [actor.DropNewest], may so drop f: the next Do then
// runs it instead of its own function.
func Do[M any](p *Probe[M], f func(ctx *actor.Context[M]) error) {
	if p.k.prompter.PID().IsZero() {
		p.k.prompter = actor.SpawnFunc(p.k.sys, "actortest-prompter", func(ctx *actor.Context[prompt], send prompt) error {
			send(ctx)
			return nil
		})
	}
	p.k.prompter.Tell(p.k.ctx, func(ctx context.Context) {
		p.mu.Lock()
		p.scripts = append(p.scripts, f)
		p.mu.Unlock()
		var nothing M
		if err := p.ref.TryTell(ctx, nothing); err != nil {
			p.mu.Lock()
			p.scripts = p.scripts[:len(p.scripts)-1]
			p.mu.Unlock()
		}
	})
	p.k.Settle()
}

// prompt sends the message that makes a probe run the function of a [Do]. A probe knows it by its
// sender, the kit's prompter, since any value of its type may be a message of the test.
type prompt func(ctx context.Context)

func (p *Probe[M]) receive(ctx *actor.Context[M], msg M) error {
	p.mu.Lock()
	if len(p.scripts) > 0 && ctx.Sender() == p.k.prompter.PID() { // which is there since before the first of them
		f := p.scripts[0]
		p.scripts = p.scripts[1:]
		p.mu.Unlock()
		return f(ctx)
	}
	p.queue = append(p.queue, letter[M]{msg, ctx.Sender(), p.k.Elapsed()})
	handle := p.handle
	p.mu.Unlock()
	if handle != nil {
		return handle(ctx, msg)
	}
	if _, asked := ctx.Deadline(); asked {
		return p.hold(ctx, msg)
	}
	return nil
}

// Expect takes the next message, and fails the test unless it equals want: the same type
// and, deeply, the same contents. If a type has an Equal method, as [time.Time] does,
// that decides; nil and empty slices and maps are equal; functions are equal only if
// both are nil.
func (p *Probe[M]) Expect(want M) {
	p.k.t.Helper()
	got, ok := p.take()
	if !ok {
		p.k.t.Fatalf("%s: Expect: no message arrived\n  want: %s%s", p.ref.PID().Path(), show(want), p.circumstances())
	}
	if d := diff(want, got); len(d) > 0 {
		p.k.t.Fatalf("%s: Expect: message %d does not match\n  want: %s\n  got:  %s\n  differs: %s%s",
			p.ref.PID().Path(), p.taken, show(want), show(got), strings.Join(d, "\n           "), p.circumstances())
	}
}

// ExpectMsg takes the next message and returns it as a T. The test fails if there is
// none, or if it is of another type.
func ExpectMsg[T, M any](p *Probe[M]) T {
	p.k.t.Helper()
	got, ok := p.take()
	if !ok {
		p.k.t.Fatalf("%s: ExpectMsg: no message arrived\n  want: a message of type %s%s", p.ref.PID().Path(), reflect.TypeFor[T](), p.circumstances())
	}
	msg, ok := any(got).(T)
	if !ok {
		p.k.t.Fatalf("%s: ExpectMsg: message %d is of another type\n  want: a message of type %s\n  got:  %s%s",
			p.ref.PID().Path(), p.taken, reflect.TypeFor[T](), show(got), p.circumstances())
	}
	return msg
}

// Next takes the next message. The test fails if there is none.
func (p *Probe[M]) Next() M {
	p.k.t.Helper()
	got, ok := p.take()
	if !ok {
		p.k.t.Fatalf("%s: Next: no message arrived%s", p.ref.PID().Path(), p.circumstances())
	}
	return got
}

// All takes all messages, for example if their order is not determined. It may return
// none.
func (p *Probe[M]) All() []M {
	var all []M
	for {
		msg, ok := p.take()
		if !ok {
			return all
		}
		all = append(all, msg)
	}
}

// ExpectAll takes all messages, and fails the test unless they are exactly those, in
// that order. Messages are compared as by [Probe.Expect].
func (p *Probe[M]) ExpectAll(want ...M) {
	p.k.t.Helper()
	got := p.All()
	if d := diff(want, got); len(d) > 0 {
		p.k.t.Fatalf("%s: ExpectAll: the messages do not match\n  want: %s\n  got:  %s\n  differs: %s%s",
			p.ref.PID().Path(), show(want), show(got), strings.Join(d, "\n           "), p.circumstances())
	}
}

// ExpectNone fails the test if a message has arrived that was not taken. That none
// arrives is certain until virtual time passes.
func (p *Probe[M]) ExpectNone() {
	p.k.t.Helper()
	p.k.Settle()
	p.mu.Lock()
	n := len(p.queue)
	p.mu.Unlock()
	if n > 0 {
		p.k.t.Fatalf("%s: ExpectNone: %s%s", p.ref.PID().Path(), count(n, "message arrived", "messages arrived"), p.circumstances())
	}
	if n := p.k.sys.Stats().Queued; n > 0 {
		p.k.t.Fatalf("%s: ExpectNone: cannot tell yet%s", p.ref.PID().Path(), p.circumstances())
	}
}

// Sender returns who sent the message that was taken last. It is the zero PID if the
// message came from outside any actor, or if none was taken.
func (p *Probe[M]) Sender() actor.PID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.from
}

// At returns when the probe handled the message that was taken last, in virtual time
// since the start of the test as by [Kit.Elapsed]. It is 0 if none was taken.
func (p *Probe[M]) At() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.at
}

func (p *Probe[M]) take() (msg M, ok bool) {
	p.k.Settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return msg, false
	}
	l := p.queue[0]
	p.queue = p.queue[1:]
	p.taken++
	p.last = l
	return l.msg, true
}

// circumstances returns what else there is to know, as lines to append.
func (p *Probe[M]) circumstances() string {
	p.mu.Lock()
	var b strings.Builder
	fmt.Fprintf(&b, "\n  queued: %d", len(p.queue))
	for i, l := range p.queue {
		if i == showMax {
			fmt.Fprintf(&b, "\n    … and %d more", len(p.queue)-i)
			break
		}
		fmt.Fprintf(&b, "\n    %s from %s", show(l.msg), l.from)
	}
	fmt.Fprintf(&b, "\n  taken before: %d", p.taken)
	p.mu.Unlock()
	return b.String() + p.k.circumstances(p.ref.PID())
}

// showMax bounds how many queued messages a failure lists.
const showMax = 20
