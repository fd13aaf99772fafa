package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// word is a request that tells who has got it.
type word struct {
	actor.Returns[string]
	text string
}

var errSecret = errors.New("that is a secret")

// postOffice is middleware that sends on, rewrites and refuses what it reads in words.
func postOffice(sys **actor.System) actor.SystemOption {
	return actor.BeforeSend(func(_ context.Context, s *actor.Sending) error {
		m, ok := s.Message.(word)
		if !ok {
			return nil
		}
		s.Header = actor.Header{"read": m.text}
		switch verb, rest, _ := strings.Cut(m.text, " "); verb {
		case "secret":
			return errSecret
		case "rewrite":
			s.Message = word{text: rest}
		case "spoil":
			s.Message = len(rest)
		case "nothing":
			s.Message = nil
		case "to":
			ref, err := actor.LookupPath[word](*sys, rest)
			if err != nil {
				return err
			}
			s.To = ref.PID()
		case "nowhere":
			s.To = actor.PID{}
		case "mute":
			ref, err := actor.LookupPath[int](*sys, "/mute")
			if err != nil {
				return err
			}
			s.To = ref.PID()
		}
		return nil
	})
}

func TestMiddlewareRefusesChangesAndRedirects(t *testing.T) {
	for name, send := range map[string]func(ctx context.Context, to actor.Ref[word], m word) error{
		"TryTell": func(ctx context.Context, to actor.Ref[word], m word) error { return to.TryTell(ctx, m) },
		"Tell":    func(ctx context.Context, to actor.Ref[word], m word) error { to.Tell(ctx, m); return nil },
		"Ask": func(ctx context.Context, to actor.Ref[word], m word) error {
			_, err := actor.Ask(ctx, to, m)
			return err
		},
		"AskFuture": func(ctx context.Context, to actor.Ref[word], m word) error {
			_, err := actor.AskFuture(ctx, to, m).Wait(ctx)
			return err
		},
	} {
		for _, from := range []string{"outside", "a handler", "a gated handler"} {
			t.Run(name+" from "+from, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sys *actor.System
					sys = actortest.NewSystem(t, postOffice(&sys))
					var got []string
					spawn := func(name string) actor.Ref[word] {
						return actor.SpawnFunc(sys, name, func(ctx *actor.Context[word], m word) error {
							got = append(got, fmt.Sprintf("%s: %s (%s)", name, m.text, actor.HeaderOf(ctx)["read"]))
							actor.Reply(ctx, m, name)
							return nil
						})
					}
					a := spawn("a")
					spawn("b")
					actor.SpawnFunc(sys, "mute", func(*actor.Context[int], int) error { return nil })
					do := func(m word) error { return send(bg, a, m) }
					if from != "outside" {
						var opts []actor.SpawnOption
						if from == "a gated handler" {
							opts = append(opts, actor.Gated(openGate{}))
						}
						errs := make(chan error, 1)
						sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[string], text string) error {
							errs <- send(ctx, a, word{text: text})
							return nil
						}, opts...)
						do = func(m word) error {
							sender.Tell(bg, m.text)
							return <-errs
						}
					}
					silent := name == "Tell" || from == "a gated handler" && name == "TryTell"
					for _, test := range []struct {
						text string
						got  string
						err  error
					}{
						{text: "hello", got: "a: hello (hello)"},
						{text: "rewrite hello", got: "a: hello (rewrite hello)"},
						{text: "to /b", got: "b: to /b (to /b)"},
						{text: "secret", err: errSecret},
						{text: "spoil it", err: actor.ErrNotAccepted},
						{text: "nothing", err: actor.ErrNotAccepted},
						{text: "to /c", err: actor.ErrStopped},
						{text: "nowhere", err: actor.ErrStopped},
						{text: "mute", err: actor.ErrNotAccepted},
					} {
						dead := sys.Stats().DeadLettersByReason["refused"]
						err := do(word{text: test.text})
						synctest.Wait()
						if !silent && !errors.Is(err, test.err) || silent && err != nil {
							t.Errorf("%s: %v", test.text, err)
						}
						if n := sys.Stats().DeadLettersByReason["refused"] - dead; silent && n == 1 != (test.err != nil) || !silent && n != 0 {
							t.Errorf("%s: %d dead letters", test.text, n)
						}
						if want := test.got; want != "" && (len(got) != 1 || got[0] != want) || want == "" && len(got) != 0 {
							t.Errorf("%s: %q, want %q", test.text, got, want)
						}
						got = slices.Delete(got, 0, len(got))
					}
				})
			})
		}
	}
}

// openGate lets everything go at once.
type openGate struct{}

func (openGate) Handle(_ context.Context, next func() error) error { return next() }
func (openGate) Hold(func(error)) bool                             { return false }
func (openGate) Settle(context.Context) error                      { return nil }

// One that was sent to the asker itself is found at once.
func TestRequestThatIsRedirectedToItsAskerIsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sys *actor.System
		sys = actortest.NewSystem(t, postOffice(&sys))
		silent := actor.SpawnFunc(sys, "silent", func(*actor.Context[word], word) error { return nil })
		errs := make(chan error, 1)
		actor.SpawnFunc(sys, "asks", func(ctx *actor.Context[word], m word) error {
			_, err := actor.Ask(ctx, silent, m)
			errs <- err
			return nil
		}).Tell(bg, word{text: "to /asks"})
		if err := <-errs; !errors.Is(err, actor.ErrDeadlock) {
			t.Errorf("%v", err)
		}
	})
}

// A request that was sent elsewhere is waited for there: a cycle through it is found.
func TestCycleThroughARedirectedRequestIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sys *actor.System
		sys = actortest.NewSystem(t, postOffice(&sys))
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[word], m word) error {
			actor.Reply(ctx, m, "")
			return nil
		})
		errs := make(chan error, 1)
		var first actor.Ref[word]
		actor.SpawnFunc(sys, "b", func(ctx *actor.Context[word], m word) error {
			_, err := actor.Ask(ctx, first, word{text: "again"})
			errs <- err
			actor.Reply(ctx, m, "")
			return nil
		})
		first = actor.SpawnFunc(sys, "first", func(ctx *actor.Context[word], m word) error {
			_, err := actor.Ask(ctx, a, word{text: "to /b"})
			return err
		})
		first.Tell(bg, word{text: "begin"})
		if err := <-errs; !errors.Is(err, actor.ErrDeadlock) {
			t.Errorf("%v", err)
		}
	})
}
