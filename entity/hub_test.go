package entity

import (
	"context"
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
)

// BenchmarkPublished passes a batch of 500 readings of one entity on, beside subscriptions to others, by
// the hub and by a bus: ARCHITECTURE.md says why the hub is none.
func BenchmarkPublished(b *testing.B) {
	const batch = 500
	done := committed{deliveries: []*delivery{{h: &handle{id: "e-0"}, readings: make([]Reading, batch)}}}
	for _, subscribers := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("hub/%d", subscribers), func(b *testing.B) {
			h := newHub(StoreInfo{}, batch, &counters{})
			rt := &Runtime{hub: h}
			var first *Subscription
			for i := range subscribers {
				s := &Subscription{rt: rt, filter: map[string]struct{}{fmt.Sprintf("e-%d", i): {}}, values: true, most: batch, ready: make(chan struct{}, 1)}
				h.open[s] = struct{}{}
				h.join(s)
				if i == 0 {
					first = s
				}
			}
			for b.Loop() {
				h.publish(done)
				if first != nil {
					if len(first.buffer) != batch {
						b.Fatalf("%d changes", len(first.buffer))
					}
					first.buffer = first.buffer[:0]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/reading")
		})
		b.Run(fmt.Sprintf("bus/%d", subscribers), func(b *testing.B) {
			sys := actor.NewSystem("bench")
			defer sys.Shutdown(context.Background()) //nolint:errcheck // nothing runs
			bus := eventbus.New(sys)
			var got []LoggedChange
			for i := range subscribers {
				f := func(context.Context, string, *LoggedChange) {}
				if i == 0 {
					f = func(_ context.Context, _ string, c *LoggedChange) { got = append(got, *c) }
				}
				if _, err := eventbus.SubscribeFunc(bus, fmt.Sprintf("e-%d", i), f); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				seq := done.first
				for _, d := range done.deliveries {
					for i := range d.readings {
						r := &d.readings[i]
						if err := eventbus.Publish(context.Background(), bus, d.h.id, &LoggedChange{Seq: seq, Entity: d.h.id, TS: r.TS, Values: r.Values}); err != nil {
							b.Fatal(err)
						}
						seq++
					}
				}
				if subscribers > 0 && len(got) != batch {
					b.Fatalf("%d changes", len(got))
				}
				got = got[:0]
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/reading")
		})
	}
}
