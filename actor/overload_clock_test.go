package actor_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// heldLog is a log handler that takes as long for each line about an overload as slow does.
type heldLog struct{ slow func() }

func (heldLog) Enabled(context.Context, slog.Level) bool { return true }

func (l heldLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "keep up") {
		l.slow()
	}
	return nil
}

func (l heldLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l heldLog) WithGroup(string) slog.Handler      { return l }

type neverAnswered struct{ actor.Returns[int] }

// What a timer's message has to tell about an overload does not hold up the clock, whatever the log's handler does.
func TestALogHandlerDoesNotStopTheClock(t *testing.T) {
	const limit = 60 * time.Millisecond
	promise := func(ctx *actor.Context[any], m any) error {
		if r, ok := m.(neverAnswered); ok {
			actor.Promise(ctx, r)
		}
		return nil
	}
	last := map[string]func(*actor.Context[any], actor.Ref[any]){ // what is to send the message that makes the overload
		"timer":           func(ctx *actor.Context[any], _ actor.Ref[any]) { ctx.Every("tick", 100*time.Millisecond, nil) },
		"receive timeout": func(ctx *actor.Context[any], _ actor.Ref[any]) { ctx.SetReceiveTimeout(100*time.Millisecond, nil) },
		"ask": func(ctx *actor.Context[any], silent actor.Ref[any]) {
			actor.AskThen(ctx, silent, neverAnswered{}, func(int, error) any { return nil }, actor.Within(100*time.Millisecond))
		},
	}
	boxes := map[string][]actor.SpawnOption{
		"plain":    nil,
		"priority": {actor.Priority(func(any) int { return 0 })},
	}
	for by, arm := range last {
		for box, opts := range boxes {
			t.Run(by+", "+box, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lines := 0
					sys := actor.NewSystem("s", actor.WithLogger(slog.New(heldLog{func() {
						lines++
						time.Sleep(2 * time.Second)
					}})))
					silent := actor.SpawnFunc(sys, "silent", promise)
					release := make(chan struct{})
					busy := actor.SpawnFunc(sys, "busy", func(ctx *actor.Context[any], m any) error {
						if m == "go" {
							arm(ctx, silent)
							<-release
						}
						return nil
					}, opts...)
					busy.Tell(t.Context(), "go")
					synctest.Wait()
					for range 1023 { // and one more is an overload
						busy.Tell(t.Context(), nil)
					}
					time.Sleep(50 * time.Millisecond)
					began := time.Now()
					_, err := actor.Ask(t.Context(), silent, neverAnswered{}, actor.Within(limit))
					if took := time.Since(began); took != limit {
						t.Errorf("an ask with a limit of %v has taken %v: %v", limit, took, err)
					}
					synctest.Wait()
					if lines != 1 {
						t.Errorf("%d lines about overloads, want 1", lines)
					}
					close(release)
					if _, err := sys.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
