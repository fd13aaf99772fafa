// Isolated-state shows a score that only its owner can change, and a user who copies the
// score of another one by asking for it.
//
// While a handler waits for the other user, its own user handles nothing else. Two that
// wait for each other would wait for ever: the runtime sees the cycle, and the ask fails.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// UserMsg is what a user accepts.
type UserMsg interface{ userMsg() }

type (
	score     struct{ actor.Returns[int] }
	win       struct{ points int }
	copyScore struct {
		actor.Returns[int]
		from actor.Ref[UserMsg]
	}
	printScore struct{}
)

func (score) userMsg()      {}
func (win) userMsg()        {}
func (copyScore) userMsg()  {}
func (printScore) userMsg() {}

type user struct {
	w     io.Writer
	score int
}

// Receive handles one request at a time: there is no race for the score.
func (u *user) Receive(ctx *actor.Context[UserMsg], msg UserMsg) error {
	switch m := msg.(type) {
	case score:
		actor.Reply(ctx, m, u.score)
	case win:
		u.score += m.points
	case copyScore:
		other, err := actor.Ask(ctx, m.from, score{})
		if err != nil {
			return err
		}
		u.score = other
		actor.Reply(ctx, m, u.score)
	case printScore:
		fmt.Fprintf(u.w, "My score is %d\n", u.score)
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("isolated-state")
	defer system.Shutdown(ctx)

	newUser := func() *user { return &user{w: w, score: 10} }
	actor1 := actor.Spawn(system, "actor1", newUser)
	actor2 := actor.Spawn(system, "actor2", newUser)

	n, err := actor.Ask(ctx, actor1, score{})
	fmt.Fprintln(w, n, err)
	actor2.Tell(ctx, win{5})
	n, err = actor.Ask(ctx, actor1, copyScore{from: actor2})
	fmt.Fprintln(w, n, err)
	actor1.Tell(ctx, printScore{})

	// Two that wait for each other would wait for ever. The runtime sees it.
	_, err = actor.Ask(ctx, actor1, copyScore{from: actor1})
	fmt.Fprintln(w, err)
}
