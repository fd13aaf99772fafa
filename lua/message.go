package lua

import (
	"context"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// Message is a message to a service: from [Send], from [Call], and from other services.
type Message interface{ message() }

// told is a message that nobody waits for.
type told struct{ parcel }

// asked is a message with an answer. Its pointer is how the answer finds it.
type asked struct {
	actor.Returns[answer]
	parcel

	// An answer counts as a message for the service that has asked, until that takes it or does not wait any more.
	asker   *account // nil if Go has asked
	replied atomic.Pointer[parcel]
	over    atomic.Bool
}

type answer struct{ body []byte }

// reply counts the answer, and gives it to send. It fails when the asker has no room.
func (m *asked) reply(body []byte, send func(answer)) error {
	p := &parcel{body: body}
	if err := p.enter(m.asker); err != nil {
		return err
	}
	if earlier := m.replied.Swap(p); earlier != nil {
		earlier.leave() // nobody takes a second answer
	}
	send(answer{body})
	if m.over.Load() {
		p.leave()
	}
	return nil
}

// finish is called by the asker when it has the answer or does not wait any more: err is what the ask has ended with.
func (m *asked) finish(err error) {
	m.settle(err)
	m.over.Store(true)
	if p := m.replied.Load(); p != nil {
		p.leave()
	}
}

func (*told) message()  {}
func (*asked) message() {}
func (*job) message()   {}

// Send sends a service a message of these values, which may be nil, a bool, any number, a string, a
// []byte, an [actor.PID], a *[Table], a []any or a map[string]any; they are copied. It does not
// block. It fails with a [*ValueError] if one of them cannot be sent, and as [actor.Ref.TryTell]
// does.
func Send(ctx context.Context, to actor.Ref[Message], args ...any) error {
	body, err := packGo(args)
	if err != nil {
		return err
	}
	return to.TryTell(ctx, &told{parcel{body: body}})
}

// Call sends a service a message as [Send] does, and waits for its answer as [actor.Ask] does. It
// returns Go values: nil, bool, float64, string, *[Table], and int64 for an int64. It fails with a
// [*ValueError], with an [*Error] if the handler has failed, and as actor.Ask does.
func Call(ctx context.Context, to actor.Ref[Message], args ...any) ([]any, error) {
	body, err := packGo(args)
	if err != nil {
		return nil, err
	}
	a, err := actor.Ask(ctx, to, &asked{parcel: parcel{body: body}})
	if err != nil {
		return nil, scriptError(err)
	}
	return unpackGo(a.body)
}
