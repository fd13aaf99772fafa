package lua

import (
	"context"

	"github.com/greenroom-go/greenroom/actor"
)

// keeper is the actor that knows the services of which there is one for the runtime. They are
// children of the system, and are started on goroutines of their own: what one does in its start
// may need another one.
type keeper struct {
	rt      *Runtime
	running map[string]actor.Ref[Message]
	waiting map[string][]*actor.Promised[actor.Ref[Message]] // for one that is being started
}

// keeperMessage is a *keep or a *kept.
type keeperMessage interface{ keeper() }

// keep asks for the one service of a file, which is started unless it runs, or with find for that if there is one.
type keep struct {
	actor.Returns[actor.Ref[Message]]
	file string
	args []byte
	find bool // with the zero Ref as the answer if there is none
}

// kept says what has become of one that was started.
type kept struct {
	file string
	ref  actor.Ref[Message]
	err  error
}

func (*keep) keeper() {}
func (*kept) keeper() {}

// Receive handles a message.
func (k *keeper) Receive(ctx *actor.Context[keeperMessage], m keeperMessage) error {
	switch m := m.(type) {
	case *keep:
		k.keep(ctx, m)
	case *kept:
		k.kept(m)
	}
	return nil
}

func (k *keeper) keep(ctx *actor.Context[keeperMessage], m *keep) {
	if ref, ok := k.running[m.file]; ok {
		if _, err := actor.Lookup[Message](ctx.System(), ref.PID()); err == nil {
			actor.Reply(ctx, m, ref)
			return
		}
		delete(k.running, m.file)
	}
	others, starting := k.waiting[m.file]
	if !starting && m.find {
		actor.Reply(ctx, m, actor.Ref[Message]{})
		return
	}
	k.waiting[m.file] = append(others, actor.Promise(ctx, m))
	if starting {
		return
	}
	actor.Pipe(ctx, func(context.Context) (actor.Ref[Message], error) {
		return k.rt.spawn(k.rt.sys, "", m.file, m.args)
	}, func(ref actor.Ref[Message], err error) keeperMessage {
		return &kept{m.file, ref, err}
	})
}

func (k *keeper) kept(m *kept) {
	if m.err == nil {
		k.running[m.file] = m.ref
	}
	for _, other := range k.waiting[m.file] {
		if m.err != nil {
			other.Reject(m.err)
		} else {
			other.Resolve(m.ref)
		}
	}
	delete(k.waiting, m.file)
}
