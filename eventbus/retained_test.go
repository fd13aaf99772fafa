package eventbus_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

func TestNewSubscriberGetsWhatIsRetained(t *testing.T) {
	for name, opts := range map[string][]eventbus.SubscribeOption{
		"direct": nil, "small buffer": {eventbus.Buffer(1, eventbus.Block)},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System(), eventbus.Retain("state.*", "config.>"))
				publish(k, bus, "state.a", 1, 2)
				publish(k, bus, "state.b", 3)
				publish(k, bus, "state.deep.er", 4)
				publish(k, bus, "config.x.y", "text")
				publish(k, bus, "config.x.z", 5)
				publish(k, bus, "state.a", 6)
				ear := listen[int](k, bus, []string{">"}, opts...)
				publish(k, bus, "state.a", 7)
				ear.ExpectAll("state.b=3", "config.x.z=5", "state.a=6", "state.a=7")

				if v, ok := eventbus.Last[int](bus, "state.b"); v != 3 || !ok {
					k.T().Errorf("last %v %v", v, ok)
				}
				if v, ok := eventbus.Last[string](bus, "state.b"); ok {
					k.T().Errorf("last as a string %v", v)
				}
				if !eventbus.Forget(bus, "state.b") || eventbus.Forget(bus, "state.b") {
					k.T().Error("forget")
				}
				if st := bus.Stats(); st.Retained != 3 || st.Mismatched != 1 {
					k.T().Errorf("stats %+v", st)
				}
			})
		})
	}
}

// Whoever subscribes while values are published sees each topic's values in order,
// without a gap after the first one and without one twice.
func TestRetainedValueIsNeitherMissedNorRepeatedNorOvertaken(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.Retain(">"))
		const last = 3000
		publish(k, bus, "n", 0)
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := range last {
				publish(k, bus, "n", n+1)
				if n%8 == 0 {
					runtime.Gosched()
				}
			}
		})
		var logs []*actortest.Journal
		for i := range 30 {
			opts := buffered["direct"]
			if i%2 == 0 {
				opts = []eventbus.SubscribeOption{eventbus.Buffer(last+1, eventbus.DropNewest)}
			}
			_, log := spawnEar(k, bus, "*", opts...)
			logs = append(logs, log)
		}
		wg.Wait()
		end := fmt.Sprintf("n=%d", last)
		for i, log := range logs {
			lines, first := log.All(), 0
			if len(lines) == 0 || lines[len(lines)-1] != end {
				k.T().Fatalf("subscriber %d did not hear the last event: %q", i, lines)
			}
			if _, err := fmt.Sscanf(lines[0], "n=%d", &first); err != nil {
				k.T().Fatal(err)
			}
			for n, line := range lines {
				if want := fmt.Sprintf("n=%d", first+n); line != want {
					k.T().Fatalf("subscriber %d heard %s, want %s", i, line, want)
				}
			}
		}
	})
}

// between calls changed after a subscription has become known and before the subscriber gets what was retained.
type between struct{ changed func() }

func (between) Forward(context.Context, eventbus.Forwarded) error { return nil }
func (b between) Changed()                                        { b.changed() }

func TestARetainedEventDoesNotOvertakeOlderOnes(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.Retain("t.a"))
		publish(k, bus, "t.a", 0)
		if _, err := bus.Forward(between{func() {
			publish(k, bus, "t.b", 1)
			publish(k, bus, "t.a", 2)
			publish(k, bus, "t.b", 3)
		}}, "t.>"); err != nil {
			t.Fatal(err)
		}
		var got []int
		if _, err := eventbus.SubscribeFunc(bus, "t.*", func(_ context.Context, _ string, n int) { got = append(got, n) }); err != nil {
			t.Fatal(err)
		}
		if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
