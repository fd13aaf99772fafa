package entity

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/internal/due"
)

// commander tells entities to look after their commands: when one is due to expire or to time out,
// and when there is one to send. It knows all entities with open commands, cold ones included, and
// has one timer for each; after a restart it learns of them from the store. It decides nothing: the
// entity's actor does, and may be asked once too often.
type commander struct {
	rt   *Runtime
	wake chan struct{}
	// ends counts the commands that have ended, of all entities. See Runtime.Command.
	ends atomic.Uint64

	mu     sync.Mutex
	open   map[string]*due.Timer[string] // when the first of its commands is due, by entity; guarded by mu
	queue  due.Queue[string]             // the same, guarded by mu
	kicked map[string]struct{}           // guarded by mu
	order  []string                      // of those that were kicked, guarded by mu
}

const (
	// commanderRetry is how long to wait before asking an entity again that has not answered.
	commanderRetry = 5 * time.Second
	// commanderNap bounds the sleep of the commander: the machine's clock may be set.
	commanderNap = 10 * time.Second
)

func newCommander(rt *Runtime) *commander {
	return &commander{rt: rt, wake: make(chan struct{}, 1), open: make(map[string]*due.Timer[string]), kicked: make(map[string]struct{})}
}

// recall reads the open commands from the store.
func (c *commander) recall(ctx context.Context) error {
	list, err := c.rt.store.OpenCommands(ctx)
	if err != nil {
		return fmt.Errorf("read the open commands: %w", err)
	}
	for _, o := range list {
		c.plan(o.Entity, o.Due)
	}
	return nil
}

// plan sets when the first open command of an entity is due, 0 if it has none.
func (c *commander) plan(id string, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.open[id]
	switch {
	case e == nil && at == 0:
		return
	case e == nil:
		e = &due.Timer[string]{Value: id}
		c.open[id] = e
	case at == 0:
		delete(c.open, id)
	case e.At() == at:
		return
	}
	c.queue.Set(e, at)
	if c.queue.First() == e {
		nudge(c.wake)
	}
}

// kick tells an entity to look after its commands soon.
func (c *commander) kick(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(id)
}

// kickOpen is kick if the entity has open commands, and does nothing otherwise.
func (c *commander) kickOpen(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] != nil {
		c.add(id)
	}
}

// add REQUIRES: mu held.
func (c *commander) add(id string) {
	if _, ok := c.kicked[id]; ok {
		return
	}
	c.kicked[id] = struct{}{}
	c.order = append(c.order, id)
	nudge(c.wake)
}

// entities returns how many entities have open commands.
func (c *commander) entities() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Run works until the runtime is closed.
func (c *commander) Run() {
	for {
		id, wait := c.next(c.rt.clock.stamp())
		if id != "" {
			c.attend(id)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-c.rt.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// next returns the next entity to be asked, or how long to wait for one.
func (c *commander) next(now int64) (id string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) > 0 {
		id = c.order[0]
		if c.order = c.order[1:]; len(c.order) == 0 {
			c.order = nil
		}
		delete(c.kicked, id)
		return id, 0
	}
	e := c.queue.First()
	if e == nil {
		return "", commanderNap
	}
	if e.At() > now {
		return "", min(commanderNap, time.Duration(e.At()-now)*time.Millisecond)
	}
	c.queue.Set(e, now+commanderRetry.Milliseconds()) // the entity will set the exact time itself
	return e.Value, 0
}

// attend tells an entity to look after its commands. While the store has no room it waits, as
// deliveries of computed readings do.
func (c *commander) attend(id string) {
	d := &delivery{step: (*entityActor).attend, cost: editCost, own: true}
	d.done = func(err error) {
		if err != nil {
			c.again(id)
		}
	}
	if c.rt.send(c.rt.ctx, id, sourceKey{}, d) != nil && c.rt.ctx.Err() == nil {
		c.again(id)
	}
}

// again asks an entity once more after a while if asking it has failed.
func (c *commander) again(id string) {
	later := c.rt.clock.stamp() + commanderRetry.Milliseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.open[id]; e != nil && e.At() > later {
		c.queue.Set(e, later)
	}
}
