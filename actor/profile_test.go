package actor_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// profileOf has two actors do the same every other millisecond, and takes profiles until one has
// samples of both: which turns are timed is a matter of chance.
func profileOf(k *actortest.Kit, work func(*actor.Context[int], int) error, opts ...actor.SpawnOption) (one, two actor.Usage) {
	begin := func(ctx *actor.Context[int], n int) error {
		ctx.Become(work)
		ctx.Every("tick", 2*time.Millisecond, n)
		return nil
	}
	a := actor.SpawnFunc(k.System(), "one", begin, opts...)
	b := actor.SpawnFunc(k.System(), "two", begin, opts...)
	a.Tell(k.Context(), 1)
	b.Tell(k.Context(), 2)
	for range 1000 {
		ctx, cancel := context.WithTimeout(k.Context(), 200*time.Millisecond)
		usage := k.System().Profile(ctx)
		cancel()
		i := slices.IndexFunc(usage, func(u actor.Usage) bool { return u.PID == a.PID() && u.Type == "(timer tick)" })
		j := slices.IndexFunc(usage, func(u actor.Usage) bool { return u.PID == b.PID() && u.Type == "(timer tick)" })
		if i >= 0 && j >= 0 {
			return usage[i], usage[j]
		}
	}
	k.T().Fatal("no profile had samples of both actors")
	return one, two
}

func TestAProfileShowsWhoUsesTheTime(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		one, two := profileOf(k, func(_ *actor.Context[int], n int) error {
			time.Sleep(time.Duration(n) * time.Millisecond)
			return nil
		})
		if one.Longest != time.Millisecond || two.Longest != 2*time.Millisecond {
			k.T().Errorf("one %+v, two %+v", one, two)
		}
		if two.Messages < uint64(two.Samples) || two.Time != time.Duration(two.Messages)*two.Longest {
			k.T().Errorf("two %+v: its time is not that of its messages", two)
		}
	})
}

func TestAProfileLeavesOutWaits(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				one, two := profileOf(k, func(ctx *actor.Context[int], n int) error {
					if err := ctx.Sleep(100 * time.Microsecond); err != nil {
						return err
					}
					time.Sleep(time.Duration(n) * 100 * time.Microsecond)
					return ctx.Sleep(100 * time.Microsecond)
				}, opts...)
				if one.Longest != 100*time.Microsecond || two.Longest != 200*time.Microsecond {
					k.T().Errorf("one %+v, two %+v: that is not the time without the waits", one, two)
				}
				k.AllowFailures() // a wait is cut short at the end
			})
		})
	}
}

// A turn that is long is at the end of the time in which turns are rare.
func TestAProfileShowsWhoComputesInARing(t *testing.T) {
	for _, n := range []int{3, 30, 100} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				const long = 8 * time.Millisecond
				ring := make([]actor.Ref[int], n)
				for i := range ring {
					ring[i] = actor.SpawnFunc(k.System(), strconv.Itoa(i), func(ctx *actor.Context[int], _ int) error {
						if i == 0 {
							time.Sleep(long)
						}
						ring[(i+1)%n].Tell(ctx, 0)
						return nil
					})
				}
				ring[0].Tell(k.Context(), 0)
				ctx, cancel := context.WithTimeout(k.Context(), 30*time.Second)
				usage := k.System().Profile(ctx)
				cancel()
				if len(usage) == 0 || usage[0].PID != ring[0].PID() || usage[0].Longest != long {
					k.T().Fatalf("the profile is %+v", usage)
				}
				if got := usage[0].Time.Seconds(); got < 10 || got > 90 {
					k.T().Errorf("it took 30 s, and the profile says %v s: %+v", got, usage[0])
				}
			})
		})
	}
}

func TestAProfileWithoutAnEndIsAMistake(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		defer func() {
			if recover() == nil {
				k.T().Error("Profile(context.Background()) did not panic")
			}
		}()
		k.System().Profile(context.Background())
	})
}

func TestAProfileCountsNoMessageThatATurnDrops(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[string], m string) error {
			if m == "go" {
				ctx.Every("tick", 5*time.Millisecond, "tick")
				return nil
			}
			ctx.After("dropped", time.Millisecond, "dropped")
			time.Sleep(2 * time.Millisecond) // its message waits now
			ctx.Cancel("dropped")
			return nil
		}).Tell(k.Context(), "go")
		for ticks := 0; ticks < 50; { // of which each is followed by a message that is dropped
			ctx, cancel := context.WithTimeout(k.Context(), 200*time.Millisecond)
			usage := k.System().Profile(ctx)
			cancel()
			for _, u := range usage {
				if u.Type == "(timer dropped)" {
					k.T().Fatalf("%+v", u)
				}
				ticks += u.Samples
			}
		}
	})
}
