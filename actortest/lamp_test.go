package actortest_test

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// The example of the package's documentation, as its reader would write it.

type (
	Reminder struct{ Text string }

	ClerkMsg interface{ clerkMsg() }
	RemindMe struct {
		After time.Duration
		Text  string
	}
	due struct{ Text string }

	Clerk struct{ inbox actor.Ref[Reminder] }
)

func (RemindMe) clerkMsg() {}
func (due) clerkMsg()      {}

func NewClerk(inbox actor.Ref[Reminder]) func() *Clerk {
	return func() *Clerk { return &Clerk{inbox} }
}

func (c *Clerk) Receive(ctx *actor.Context[ClerkMsg], msg ClerkMsg) error {
	switch m := msg.(type) {
	case RemindMe:
		ctx.After(m.Text, m.After, due{m.Text})
	case due:
		c.inbox.Tell(ctx, Reminder(m))
	}
	return nil
}

func TestAReminderComesAfterAnHour(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		inbox := actortest.NewProbe[Reminder](k)
		clerk := actor.Spawn(k.System(), "clerk", NewClerk(inbox.Ref()))

		clerk.Tell(k.Context(), RemindMe{After: time.Hour, Text: "tea"})
		k.Advance(59 * time.Minute)
		inbox.ExpectNone()
		k.Advance(time.Minute)
		inbox.Expect(Reminder{Text: "tea"})
	})
}
