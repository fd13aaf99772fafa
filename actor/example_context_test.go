package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func ExampleContext() {
	sys := actor.NewSystem("family", quiet)
	child := func(ctx *actor.Context[string], m string) error {
		fmt.Printf("%s, child of %s, hears %q from %s\n", ctx.Self().PID().Path(), ctx.Parent().Path(), m, ctx.Sender().Path())
		return nil
	}
	actor.SpawnFunc(sys, "ann", func(ctx *actor.Context[string], m string) error {
		if ctx.Sender().IsZero() {
			fmt.Printf("%q comes from outside\n", m)
		}
		bob := actor.SpawnFunc(ctx, "bob", child)
		fmt.Println("children:", len(ctx.Children()), "in the system", ctx.System().Name())
		bob.Tell(ctx, m) // the handler's ctx says who tells
		return nil
	}).Tell(context.Background(), "hello")
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// "hello" comes from outside
	// children: 1 in the system family
	// /ann/bob, child of /ann, hears "hello" from /ann
}

func ExampleContext_Log() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.Attr{}
			case "actor": // without its numbers, which are others each time
				pid, _ := actor.ParsePID(a.Value.String())
				return slog.String("actor", pid.Node()+pid.Path())
			}
			return a
		},
	}))
	sys := actor.NewSystem("shop", actor.WithLogger(log))
	actor.SpawnFunc(sys, "till", func(ctx *actor.Context[int], cents int) error {
		ctx.Log().LogAttrs(ctx, slog.LevelInfo, "paid", slog.Int("cents", cents))
		return nil
	}).Tell(context.Background(), 250)
	_, _ = sys.Shutdown(context.Background())
	sys.Log().LogAttrs(context.Background(), slog.LevelInfo, "closed")
	// Output:
	// level=INFO msg=paid actor=shop/till cents=250
	// level=INFO msg=closed
}

// A Context is a context.Context: while a request is handled it ends when the asker
// gives up.
func ExampleContext_Done() {
	sys := actor.NewSystem("cancel", quiet)
	defer sys.Shutdown(context.Background())

	entered, seen := make(chan struct{}), make(chan error)
	slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[balance], _ balance) error {
		return actor.Blocking(ctx, func() error {
			close(entered)
			<-ctx.Done()
			seen <- ctx.Err()
			return nil
		})
	})
	asker, giveUp := context.WithCancel(context.Background())
	go func() {
		<-entered
		giveUp()
	}()
	_, err := actor.Ask(asker, slow, balance{})
	fmt.Println(err)
	fmt.Println("the handler saw it too:", <-seen)
	// Output:
	// ask /slow with actor_test.balance: context canceled
	// the handler saw it too: context canceled
}

func ExampleContext_Deadline() {
	sys := actor.NewSystem("hurry", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error {
		_, asked := ctx.Deadline()
		fmt.Println("somebody waits:", asked)
		actor.Reply(ctx, m, 1) // of a message that was told nobody hears the answer
		return nil
	})
	ref.Tell(context.Background(), balance{})
	_, err := actor.Ask(context.Background(), ref, balance{}) // the system's ask timeout is a deadline too
	fmt.Println(err)
	// Output:
	// somebody waits: false
	// somebody waits: true
	// <nil>
}

type tenantKey struct{}

// The values of the asker's context are there while its request is handled.
func ExampleContext_Value() {
	sys := actor.NewSystem("tenants", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error {
		fmt.Println("for", ctx.Value(tenantKey{}))
		actor.Reply(ctx, m, 0)
		return nil
	})
	_, err := actor.Ask(context.WithValue(context.Background(), tenantKey{}, "the bakery"), ref, balance{})
	fmt.Println(err)
	// Output:
	// for the bakery
	// <nil>
}

func ExampleContext_Sleep() {
	sys := actor.NewSystem("patience", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "bed", func(ctx *actor.Context[balance], m balance) error {
		if err := ctx.Sleep(time.Millisecond); err != nil {
			return err // the asker has given up, or the actor was told to stop
		}
		actor.Reply(ctx, m, 8)
		return nil
	})
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output: 8 <nil>
}

func ExampleContext_Stop() {
	sys := actor.NewSystem("once", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "once", func(ctx *actor.Context[balance], m balance) error {
		ctx.Stop() // after this message
		actor.Reply(ctx, m, 1)
		return nil
	})
	ended := endOf(sys, ref.PID())
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	fmt.Println("gone:", <-ended)
	_, err := actor.Ask(context.Background(), ref, balance{})
	fmt.Println(errors.Is(err, actor.ErrStopped))
	// Output:
	// 1 <nil>
	// gone: stopped
	// true
}

func ExampleContext_Become() {
	sys := actor.NewSystem("light", quiet)
	var off, on func(*actor.Context[string], string) error
	off = func(ctx *actor.Context[string], m string) error {
		fmt.Println("off, and then", m)
		ctx.Become(on)
		return nil
	}
	on = func(ctx *actor.Context[string], m string) error {
		fmt.Println("on, and then", m)
		ctx.Become(off)
		return nil
	}
	light := actor.SpawnFunc(sys, "light", off)
	tellAll(light, "press", "press", "press")
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// off, and then press
	// on, and then press
	// off, and then press
}

func ExampleContext_BecomeStacked() {
	sys := actor.NewSystem("phone", quiet)
	talking := func(ctx *actor.Context[string], m string) error {
		if m == "hang up" {
			ctx.Unbecome() // whatever it was before
			return nil
		}
		fmt.Println("talking:", m)
		return nil
	}
	phone := actor.SpawnFunc(sys, "phone", func(ctx *actor.Context[string], m string) error {
		if m == "answer" {
			ctx.BecomeStacked(talking)
			return nil
		}
		fmt.Println("idle:", m)
		return nil
	})
	tellAll(phone, "ring", "answer", "hello", "hang up", "ring")
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// idle: ring
	// talking: hello
	// idle: ring
}

func ExampleContext_After() {
	sys := actor.NewSystem("timers", quiet)
	done := make(chan struct{})
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
		switch m {
		case "type":
			for n := range 3 { // the same key: each one replaces the one before
				ctx.After("save", time.Millisecond, fmt.Sprintf("save draft %d", n+1))
			}
		default:
			fmt.Println(m)
			close(done)
		}
		return nil
	}).Tell(context.Background(), "type")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: save draft 3
}

// Any type with Next is a schedule; package schedule has those of cron lines.
func ExampleContext_On() {
	sys := actor.NewSystem("timers", quiet)
	done := make(chan struct{})
	n := 0
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
		switch m {
		case "start":
			ctx.On("backup", eachMillisecond{}, "back up")
		case "back up":
			if n++; n == 2 {
				fmt.Println("backed up twice; still set:", ctx.Cancel("backup"))
				close(done)
			}
		}
		return nil
	}).Tell(context.Background(), "start")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: backed up twice; still set: true
}

type eachMillisecond struct{}

func (eachMillisecond) Next(after time.Time) time.Time { return after.Add(time.Millisecond) }

// poll does not count as a sign of life.
type poll struct{ actor.Unobtrusive }

type idle struct{}

func ExampleContext_SetReceiveTimeout() {
	sys := actor.NewSystem("session", quiet)
	done := make(chan struct{})
	actor.SpawnFunc(sys, "session", func(ctx *actor.Context[any], m any) error {
		switch m.(type) {
		case string:
			fmt.Println(m)
			ctx.Self().Tell(ctx, poll{})
			ctx.SetReceiveTimeout(5*time.Millisecond, idle{})
		case poll:
			fmt.Println("polled")
		case idle:
			fmt.Println("log out: nobody is there")
			ctx.SetReceiveTimeout(0, nil) // else it comes again and again
			close(done)
		}
		return nil
	}).Tell(context.Background(), "log in")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// log in
	// polled
	// log out: nobody is there
}

type page struct {
	text    string
	printed chan<- struct{}
}

// errAtThePrinter is for who would wait for itself.
var errAtThePrinter = errors.New("the printer cannot wait for itself")

// printAndWait waits until the pages are printed.
func printAndWait(ctx context.Context, printer actor.Ref[page], texts ...string) error {
	if actor.InHandler(ctx, printer.PID()) {
		return errAtThePrinter
	}
	printed := make(chan struct{})
	for _, text := range texts {
		printer.Tell(ctx, page{text, printed})
		<-printed
	}
	return nil
}

func ExampleInHandler() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())
	printer := actor.SpawnFunc(sys, "printer", func(ctx *actor.Context[page], p page) error {
		fmt.Println("printed:", p.text)
		if p.text == "order more paper" {
			fmt.Println(printAndWait(ctx, ctx.Self(), "paper is ordered"))
		}
		p.printed <- struct{}{}
		return nil
	})
	fmt.Println(printAndWait(context.Background(), printer, "hello", "order more paper"))
	// Output:
	// printed: hello
	// printed: order more paper
	// the printer cannot wait for itself
	// <nil>
}
