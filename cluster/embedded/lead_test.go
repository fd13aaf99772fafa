package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/cluster/nats"
)

const stream = "GREENROOM_CLUSTER"

// TestTheLeaderOfAStreamIsHandedOver without an election, which takes 4 seconds at least.
func TestTheLeaderOfAStreamIsHandedOver(t *testing.T) {
	t.Parallel()
	servers := three(t)
	engines := make([]*nats.Engine, len(servers))
	for i, s := range servers {
		engines[i] = open(t, s, nats.Config{Replicas: 3})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last cluster.Revision
	put := func(e *nats.Engine) { // what a leader that steps down does not answer is put again
		t.Helper()
		for began := time.Now(); ; {
			once, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
			rev, err := e.Put(once, "k", []byte("v"), last)
			cancel()
			switch {
			case err == nil:
				last = rev
				return
			case time.Since(began) > 4*time.Second:
				t.Fatalf("a put while the leader is another one: %v", err)
			case errors.Is(err, cluster.ErrConflict): // an unsure one has come through
				if at, err := e.Get(ctx, "k"); err == nil {
					last = max(last, at.Revision)
				}
			}
		}
	}
	for i, s := range append(servers, servers[0]) {
		if err := s.Lead(ctx, stream); err != nil {
			t.Fatal(err)
		}
		put(engines[(i+1)%3])
		if !s.Leads(stream) {
			t.Errorf("server %d does not lead", i%3+1)
		}
	}
	if err := servers[1].StepDown(ctx, stream, ""); err != nil {
		t.Errorf("of one that does not lead: %v", err)
	}
	if err := servers[0].StepDown(ctx, stream, "s3"); err != nil {
		t.Fatal(err)
	}
	if err := servers[2].Lead(ctx, stream); err != nil { // at once, or a moment later
		t.Fatal(err)
	}
	if err := servers[2].StepDown(ctx, stream, ""); err != nil {
		t.Fatal(err)
	}
	servers[2].Close()
	put(engines[0])
}

func TestALeaderThatCannotBe(t *testing.T) {
	t.Parallel()
	s := start(t, embedded.Config{Dir: t.TempDir(), Name: "s1"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Lead(ctx, "NOTHING"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"NOTHING"`) {
		t.Errorf("of a stream that is not there: %v", err)
	}
	if err := s.StepDown(t.Context(), stream, "s1"); err == nil || !strings.Contains(err.Error(), `not "s1"`) {
		t.Errorf("in favor of itself: %v", err)
	}
}
