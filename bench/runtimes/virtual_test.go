package runtimes

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// closing is the control with an end of its goroutines, which a synctest bubble
// needs, and with a handler's delay.
type closing struct {
	routines
	mu    sync.Mutex
	mails []chan workload.Msg
	slow  time.Duration
}

func (c *closing) Role(newHandler func() workload.Handler[*routine]) func(*routine) chan workload.Msg {
	spawn := c.routines.Role(func() workload.Handler[*routine] {
		handle := newHandler()
		return func(ctx *routine, m workload.Msg) {
			<-time.After(c.slow)
			handle(ctx, m)
		}
	})
	return func(ctx *routine) chan workload.Msg {
		mail := spawn(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mails = append(c.mails, mail)
		return mail
	}
}

func (c *closing) Close() error {
	for _, mail := range c.mails {
		close(mail)
	}
	return nil
}

func TestTheQuietActorsDelaysAreThoseOfItsMessages(t *testing.T) {
	for _, c := range []struct {
		name string
		slow time.Duration
		want workload.Figures
	}{
		{
			// 49 messages, one at each whole millisecond before 50.
			"at once", 0,
			workload.Figures{workload.Samples: 49, workload.P50Us: 0, workload.MaxUs: 0, workload.E2EMaxUs: 0, workload.DrainMs: 50},
		},
		{
			"each a quarter of a millisecond late", 250 * time.Microsecond,
			workload.Figures{workload.Samples: 49, workload.P50Us: 250, workload.MaxUs: 250, workload.E2EMaxUs: 250, workload.DrainMs: 50.25},
		},
		{
			// The second message waits for the first one, and so on: the last has
			// waited for all.
			"slower than they come", 2 * time.Millisecond,
			workload.Figures{workload.Samples: 49, workload.P50Us: 26_000, workload.MaxUs: 50_000, workload.E2EMaxUs: 50_000},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := workload.Suite(func(string) (*closing, error) {
					return &closing{routines: routines{mailboxSize}, slow: c.slow}, nil
				})
				got, err := run(t.Context(), "blocked", workload.Size{Actors: 4, Window: 50 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				for name, want := range c.want {
					if got[name] != want {
						t.Errorf("%s is %v, want %v", name, got[name], want)
					}
				}
			})
		})
	}
}
