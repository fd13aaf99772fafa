package actortest

import (
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// Addressed is what has an address: an [actor.Ref] of any message type.
type Addressed interface{ PID() actor.PID }

// downs is what the kit's watcher knows.
type downs struct {
	mu      sync.Mutex
	watched map[actor.PID]bool // false once it has ended
	ended   map[actor.PID]actor.Down
}

// watchRequest asks the kit's watcher to watch; it answers when the watch is set.
type watchRequest struct {
	actor.Returns[bool]
	pid actor.PID
}

// Watch watches an actor for [ExpectDown], which otherwise cannot say how an actor ended
// that is already gone when it is called.
func (k *Kit) Watch(target Addressed) {
	k.t.Helper()
	if k.downs == nil {
		d := &downs{watched: map[actor.PID]bool{}, ended: map[actor.PID]actor.Down{}}
		k.downs, k.watcher = d, actor.SpawnFunc(k.sys, "actortest-watcher", d.receive)
	}
	if _, err := actor.Ask(k.ctx, k.watcher, watchRequest{pid: target.PID()}); err != nil {
		k.t.Fatalf("Watch(%s): %v", target.PID(), err)
	}
}

func (d *downs) receive(ctx *actor.Context[any], msg any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m := msg.(type) {
	case watchRequest:
		if _, known := d.watched[m.pid]; !known {
			d.watched[m.pid] = true
			ctx.Watch(m.pid, func(down actor.Down) any { return down })
		}
		actor.Reply(ctx, m, true)
	case actor.Down:
		d.watched[m.PID] = false
		d.ended[m.PID] = m
	}
	return nil
}

func (d *downs) of(pid actor.PID) (actor.Down, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	down, ok := d.ended[pid]
	return down, ok
}

// ExpectDown settles and returns how an actor ended. The test fails if it is still
// alive. If the actor had ended before ExpectDown was called, the reason is known only
// if [Kit.Watch] was called in time; otherwise it is [actor.NoActor].
func ExpectDown(k *Kit, target Addressed) actor.Down {
	k.t.Helper()
	k.Watch(target)
	k.Settle()
	pid := target.PID()
	down, ok := k.downs.of(pid)
	if !ok {
		k.t.Fatalf("ExpectDown: actor %s has not ended%s%s", pid, k.life(pid), k.circumstances(pid))
	}
	return down
}

// life describes an actor that was expected to have ended.
func (k *Kit) life(pid actor.PID) string {
	tree, err := k.sys.Inspect(pid.Path(), 0)
	if err != nil {
		return "" // an actor without a name
	}
	text := "\n  it is " + tree.State + ", " + count(tree.Mailbox, "message waits", "messages wait") + ", " + count(tree.Info.Children, "child", "children")
	if tree.Restarts > 0 {
		text += ", restarted " + times(tree.Restarts)
	}
	return text
}
