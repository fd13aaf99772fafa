package actor

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// TestKillFencesNoSupervisorWithThousandsOfChildren is the program that found a fence without a
// handler: all children of an AllForOne supervisor stop, because one has failed, and it is killed
// meanwhile.
func TestKillFencesNoSupervisorWithThousandsOfChildren(t *testing.T) {
	children := soaktest.Rounds(t, 3000, 60_000)
	for _, lifetime := range []Lifetime{Transient, Temporary} {
		sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
		refs := make([]Ref[int], children)
		spawned := make(chan struct{})
		top := SpawnFunc(sys, "top", func(ctx *Context[int], _ int) error {
			for i := range refs {
				life := lifetime
				if i == children/2 {
					life = Transient // or it would end alone
				}
				refs[i] = SpawnFunc(ctx, "", func(*Context[int], int) error { return errors.New("no") }, life)
			}
			close(spawned)
			return nil
		}, Supervise(AllForOne, MaxRestarts(1000, time.Minute)))
		c := top.to.base()
		top.Tell(context.Background(), 1)
		<-spawned
		refs[children/2].Tell(context.Background(), 1)
		for youngest := refs[children-1].to.base(); !youngest.hasStopped() && youngest.renewals() == 0; {
			runtime.Gosched()
		}
		top.Kill()
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if c.isFenced() {
			t.Errorf("%v children: the supervisor was taken away from a handler that does not run", lifetime)
		}
	}
}
