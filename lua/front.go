package lua

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// SpawnTyped starts an actor whose messages are of type M and whose code is a script:
// [Runtime.Spawn] behind Go types. The function that the script has passed to greenroom.dispatch
// gets the name of each message in [Config].Types and a table, and greenroom.ret answers a request
// with a value that is converted to the type of its answer. A value that cannot be converted is an
// error that says where it is: for the asker, or in the log.
//
// The script is a child of the actor, which ends with it and passes on messages in order. The
// Mailboxes must have a [Tells] or an [Asks] of M, and an Asks for each type of answer.
func SpawnTyped[M any](rt *Runtime, parent actor.Spawner, name, file string, args ...any) (actor.Ref[M], error) {
	packed, err := packGo(args)
	if err != nil {
		return actor.Ref[M]{}, fmt.Errorf("spawn %s: %w", file, err)
	}
	var answerers []answerer[M]
	known := false
	for _, b := range rt.words.mailboxes {
		if b.accepts != reflect.TypeFor[M]() {
			continue
		}
		known = true
		if a, ok := b.answerer.(answerer[M]); ok {
			answerers = append(answerers, a)
		}
	}
	if !known {
		return actor.Ref[M]{}, fmt.Errorf("spawn %s: no lua.Config.Mailboxes has the type %v", file, reflect.TypeFor[M]())
	}
	return actor.TrySpawn(parent, name, func() *front[M] {
		return &front[M]{rt: rt, file: file, args: packed, answerers: answerers}
	}, actor.Reentrant())
}

// scriptName is the name of the script's actor behind a front.
const scriptName = "script"

// front is the actor of [SpawnTyped]: it makes tables of messages, and values of Go of answers.
type front[M any] struct {
	rt        *Runtime
	file      string
	args      []byte
	answerers []answerer[M]

	script actor.Ref[Message]
	over   atomic.Bool // the incarnation has ended
}

// Init starts the script.
func (f *front[M]) Init(ctx *actor.Context[M]) (err error) {
	f.script, err = f.rt.spawn(ctx, scriptName, f.file, f.args)
	if err != nil {
		return err
	}
	self := ctx.Self()
	f.rt.sys.AfterEnd(f.script.PID(), func(actor.Down) { f.scriptEnded(self) })
	return nil
}

// scriptEnded ends the front, unless it is a restart of the front that has ended the script: that
// ends the children first, then the incarnation, and starts another script.
func (f *front[M]) scriptEnded(self actor.Ref[M]) {
	now, err := f.rt.sys.Inspect(self.PID().Path(), 0)
	if err != nil || now.State == "restarting" || f.over.Load() {
		return
	}
	self.Stop()
}

// Terminate notes the end of the incarnation.
func (f *front[M]) Terminate(*actor.Context[M], error) { f.over.Store(true) }

// Receive hands over a message.
func (f *front[M]) Receive(ctx *actor.Context[M], m M) error {
	body, err := f.rt.words.packMessage(m)
	if err != nil {
		return f.refuse(ctx, err)
	}
	want := isRequest(reflect.TypeOf(m))
	if want == "" {
		if err := f.script.TryTell(ctx, &told{parcel{body: body}}); err != nil {
			return f.refuse(ctx, err)
		}
		return nil
	}
	a, err := actor.Ask(ctx, f.script, &asked{parcel: parcel{body: body}}, actor.Within(f.limit(ctx)))
	if errors.Is(err, actor.ErrUnhandled) && ctx.Err() == nil {
		return nil // so says the engine of this handler then
	}
	if err != nil {
		return f.refuse(ctx, scriptError(err))
	}
	for _, by := range f.answerers {
		if ok, err := by.answer(f.rt.words, ctx, m, a.body); ok {
			if err != nil {
				return f.refuse(ctx, fmt.Errorf("%s has answered %T: %w", f.file, m, err))
			}
			return nil
		}
	}
	return f.refuse(ctx, fmt.Errorf("no lua.Asks among lua.Config.Mailboxes has the answer of %T, which is a %s", m, want))
}

// limit returns how long the script has for an answer: as long as who has asked waits.
func (f *front[M]) limit(ctx context.Context) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return forever
	}
	return 0
}

// refuse is what becomes of a message that cannot be handed over.
func (f *front[M]) refuse(ctx *actor.Context[M], err error) error {
	ctx.Log().Warn("lua: a message was not handed over to a script", slog.String("file", f.file), slog.Any("error", err))
	return actor.Refuse(ctx, err)
}

// answerer answers the requests of M that have one type of answer.
type answerer[M any] interface {
	answer(v *vocabulary, ctx *actor.Context[M], m M, body []byte) (ok bool, err error)
}

type answererOf[M, R any] struct{}

func (answererOf[M, R]) answer(v *vocabulary, ctx *actor.Context[M], m M, body []byte) (ok bool, err error) {
	req, ok := any(m).(actor.Request[R])
	if !ok {
		return false, nil
	}
	var r R
	if err := v.readAnswer(body, reflect.ValueOf(&r).Elem()); err != nil {
		return true, err
	}
	actor.Reply(ctx, req, r)
	return true, nil
}
