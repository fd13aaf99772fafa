package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// noRestarts makes each failure the end of its actor.
var noRestarts = actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop }))

// endWatcher watches one actor.
type endWatcher struct {
	pid   actor.PID
	ended chan<- actor.Reason
}

func (w *endWatcher) Init(ctx *actor.Context[actor.Down]) error {
	ctx.Watch(w.pid, func(d actor.Down) actor.Down { return d })
	return nil
}

func (w *endWatcher) Receive(_ *actor.Context[actor.Down], d actor.Down) error {
	w.ended <- d.Reason
	return actor.ErrStop
}

// endOf watches an actor from now on and returns how it ends.
func endOf(sys *actor.System, pid actor.PID) <-chan actor.Reason {
	ended := make(chan actor.Reason, 1)
	actor.Spawn(sys, "", func() *endWatcher { return &endWatcher{pid, ended} })
	return ended
}

// clerk is busy with the message 0 until it is released.
type clerk struct{ *busy }

func (clerk) Terminate(*actor.Context[int], error) { fmt.Println("goes home") }

// busyClerk starts a clerk that is busy with the first of three messages.
func busyClerk(sys *actor.System) (ref actor.Ref[int], release func(), ended <-chan actor.Reason) {
	c := clerk{newBusy()}
	ref = actor.Spawn(sys, "clerk", func() clerk { return c })
	tellAll(ref, 0, 1, 2)
	<-c.entered
	ended = endOf(sys, ref.PID())
	return ref, func() { close(c.release) }, ended
}

// printDeadLetters prints them oldest first.
func printDeadLetters(sys *actor.System) {
	for _, d := range slices.Backward(sys.DeadLetters()) {
		fmt.Println("dead letter:", d.Message, d.Reason)
	}
}

func ExampleRef_Stop() {
	sys := actor.NewSystem("office", quiet)
	ref, release, ended := busyClerk(sys)
	ref.Stop() // after the current message
	release()
	fmt.Println(<-ended == actor.Stopped)
	_, _ = sys.Shutdown(context.Background())
	printDeadLetters(sys)
	// Output:
	// handles 0
	// goes home
	// true
	// dead letter: 1 stopped
	// dead letter: 2 stopped
}

func ExampleRef_Drain() {
	sys := actor.NewSystem("office", quiet)
	ref, release, ended := busyClerk(sys)
	ref.Drain() // after all that is in the mailbox
	ref.Tell(context.Background(), 3)
	release()
	fmt.Println(<-ended == actor.Stopped)
	_, _ = sys.Shutdown(context.Background())
	printDeadLetters(sys)
	// Output:
	// handles 0
	// handles 1
	// handles 2
	// goes home
	// true
	// dead letter: 3 no_actor
}

func ExampleRef_Kill() {
	sys := actor.NewSystem("office", quiet)
	ref, release, ended := busyClerk(sys)
	ref.Kill() // as soon as possible, and without Terminate
	release()
	fmt.Println(<-ended == actor.Killed)
	_, _ = sys.Shutdown(context.Background())
	printDeadLetters(sys)
	// Output:
	// handles 0
	// true
	// dead letter: 1 killed
	// dead letter: 2 killed
}

func ExampleContext_Unwatch() {
	sys := actor.NewSystem("watch", quiet, noRestarts)
	ann := actor.SpawnFunc(sys, "ann", func(*actor.Context[string], string) error { return nil })
	bob := actor.SpawnFunc(sys, "bob", func(*actor.Context[string], string) error { return errors.New("no") })
	done := make(chan struct{})
	actor.SpawnFunc(sys, "watcher", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			for _, ref := range []actor.Ref[string]{ann, bob} {
				ctx.Watch(ref.PID(), func(d actor.Down) any { return d })
			}
			ctx.Unwatch(ann.PID()) // of her nothing more is heard
			ann.Stop()
			bob.Tell(ctx, "work")
		case actor.Down:
			fmt.Println(m.PID.Path(), m.Reason == actor.Failed, m.Err)
			close(done)
		}
		return nil
	}).Tell(context.Background(), "begin")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: /bob true no
}

// Whoever is watched when it is gone already is reported at once.
func ExampleContext_Watch_nobody() {
	sys := actor.NewSystem("watch", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "ann", func(*actor.Context[string], string) error { return nil })
	ref.Stop()
	<-endOf(sys, ref.PID())
	fmt.Println(<-endOf(sys, ref.PID()) == actor.NoActor)
	// Output: true
}

// partner is linked with the actor it is told of.
type partner struct{}

func (partner) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case actor.PID:
		ctx.Link(m)
		actor.ReplyFor(ctx, "linked")
	case divorce:
		ctx.Unlink(m.from)
		actor.ReplyFor(ctx, "free")
	case error:
		return m
	}
	return nil
}

type divorce struct{ from actor.PID }

func ExampleContext_Link() {
	sys := actor.NewSystem("links", quiet, noRestarts) // a failure ends an actor, and so whom it is linked with
	defer sys.Shutdown(context.Background())

	newPartner := func() partner { return partner{} }
	tell := func(to actor.Ref[any], m any) {
		fmt.Println(actor.AskFor[string](context.Background(), to, m))
	}
	ann, bob, cid := actor.Spawn(sys, "ann", newPartner), actor.Spawn(sys, "bob", newPartner), actor.Spawn(sys, "cid", newPartner)
	tell(bob, ann.PID())
	tell(cid, ann.PID())
	tell(cid, divorce{ann.PID()})

	ended := endOf(sys, bob.PID())
	ann.Tell(context.Background(), errors.New("heart attack"))
	fmt.Println("bob:", <-ended)
	fmt.Println("cid:", cid.TryTell(context.Background(), "how are you?"))
	// Output:
	// linked <nil>
	// linked <nil>
	// free <nil>
	// bob: failed
	// cid: <nil>
}

func ExampleSystem_DeadLetters() {
	sys := actor.NewSystem("post", quiet)
	ref := actor.SpawnFunc(sys, "ann", func(*actor.Context[string], string) error { return nil })
	ref.Stop()
	<-endOf(sys, ref.PID())
	ref.Tell(context.Background(), "are you there?")
	for _, d := range sys.DeadLetters() {
		fmt.Printf("%q to %s, a %s: %s\n", d.Message, d.To.Path(), d.Type, d.Reason)
	}
	_, _ = sys.Shutdown(context.Background())
	// Output: "are you there?" to /ann, a string: no_actor
}

func ExampleSystem_Stats() {
	sys := actor.NewSystem("stats", quiet)
	for range 3 {
		ref := actor.Spawn(sys, "account-*", newAccount)
		ref.Tell(context.Background(), deposit{1})
		if _, err := actor.Ask(context.Background(), ref, balance{}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("actors:", sys.Stats().Actors)
	_, _ = sys.Shutdown(context.Background())
	fmt.Println("actors:", sys.Stats().Actors, "handled:", sys.Stats().Handled, "dead letters:", sys.Stats().DeadLetters)
	// Output:
	// actors: 3
	// actors: 0 handled: 6 dead letters: 0
}

func ExampleSystem_Shutdown() {
	sys := actor.NewSystem("shop", quiet)
	release := make(chan struct{})
	entered := make(chan struct{})
	stubborn := actor.SpawnFunc(sys, "stubborn", func(ctx *actor.Context[int], _ int) error {
		return actor.Blocking(ctx, func() error { // and does not care for ctx.Done
			close(entered)
			<-release
			return nil
		})
	})
	stubborn.Tell(context.Background(), 1)
	<-entered
	stubborn.Tell(context.Background(), 2)

	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	report, err := sys.Shutdown(soon)
	fmt.Println(err)
	for _, a := range report.Unfinished {
		fmt.Println("still there:", a.Path, a.State)
	}
	close(release)
	// Output:
	// shut down shop: 1 actors did not stop, first /stubborn: context deadline exceeded
	// still there: /stubborn running
}
