package groupcommit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// disk is a store whose commits the test decides about.
type disk struct {
	commit   func(items []int) (int, error) // nil for all of them
	batches  [][]int                        // tried
	acked    []int
	refused  []int
	failures []error // with which they were refused
}

func (d *disk) Commit(_ context.Context, items []int) (int, func(), error) {
	d.batches = append(d.batches, items)
	n, err := len(items), error(nil)
	if d.commit != nil {
		n, err = d.commit(items)
	}
	if n == 0 {
		return 0, nil, err
	}
	return n, func() { d.acked = append(d.acked, items[:n]...) }, err
}

func (d *disk) Refuse(items []int, err error) {
	d.refused, d.failures = append(d.refused, items...), append(d.failures, err)
}

// within calls f in a bubble with a committer on d, and ends it.
func within(t *testing.T, cfg Config, d *disk, f func(t *testing.T, c *Committer[int], cancel func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := New(ctx, cfg, d, func(int) int64 { return 1 }, func() int64 { return int64(time.Since(began)) })
		go c.Run()
		acker := make(chan struct{})
		go func() {
			defer close(acker)
			c.Acknowledge()
		}()
		f(t, c, cancel)
		c.Stop()
		<-acker
	})
}

func TestWhatGathersDuringACommitIsCommittedTogether(t *testing.T) {
	t.Parallel()
	d := &disk{commit: func(items []int) (int, error) {
		return len(items), pause.For(context.Background(), 10*time.Millisecond)
	}}
	within(t, Config{Bytes: 100}, d, func(t *testing.T, c *Committer[int], _ func()) {
		first := c.Accept(1)
		synctest.Wait()
		c.Accept(2)
		last := c.Accept(3)
		if err := c.Wait(t.Context(), first); err != nil || !c.Committed(first) || c.Committed(last) {
			t.Errorf("after the first commit: %v, committed %v and %v", err, c.Committed(first), c.Committed(last))
		}
		if err := c.Wait(t.Context(), last); err != nil {
			t.Error(err)
		}
	})
	if want := [][]int{{1}, {2, 3}}; !slices.EqualFunc(d.batches, want, slices.Equal[[]int]) || !slices.Equal(d.acked, []int{1, 2, 3}) {
		t.Errorf("commits of %v, acknowledged %v", d.batches, d.acked)
	}
}

func TestAFailedCommitKeepsItsItemsAndWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	failing := true
	d := &disk{commit: func(items []int) (int, error) {
		if failing {
			return 0, errDisk
		}
		return len(items), nil
	}}
	within(t, Config{Bytes: 100, RetryMin: time.Second, RetryMax: time.Minute}, d, func(t *testing.T, c *Committer[int], _ func()) {
		n := c.Accept(1)
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, enough)
		defer cancel()
		if err := c.Wait(ctx, n); !errors.Is(err, enough) {
			t.Errorf("wait: %v", err)
		}
		synctest.Wait()
		if len(d.batches) != 4 { // at 0, 1, 3 and 7 seconds
			t.Errorf("%d tries in 10 seconds", len(d.batches))
		}
		failing = false
		if err := c.Wait(context.Background(), n); err != nil {
			t.Error(err)
		}
	})
	if !slices.Equal(d.acked, []int{1}) || d.refused != nil {
		t.Errorf("acknowledged %v, refused %v", d.acked, d.refused)
	}
}

func TestTheEndOfTheContextRefusesWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	d := &disk{commit: func(items []int) (int, error) {
		if items[0] == 1 {
			return 1, nil
		}
		return 0, errDisk
	}}
	within(t, Config{Bytes: 100, Delay: time.Hour, RetryMin: time.Hour, RetryMax: time.Hour}, d, func(t *testing.T, c *Committer[int], cancel func()) {
		first := c.Accept(1)
		second := c.Accept(2)
		if err := c.Wait(context.Background(), first); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		third := c.Accept(3)
		cancel()
		synctest.Wait()
		if c.Committed(second) || c.Committed(third) {
			t.Error("what was refused is committed")
		}
	})
	if !slices.Equal(d.acked, []int{1}) || !slices.Equal(d.refused, []int{2, 3}) {
		t.Errorf("acknowledged %v, refused %v", d.acked, d.refused)
	}
	if len(d.failures) != 2 || !errors.Is(d.failures[0], errDisk) || d.failures[1] != nil {
		t.Errorf("refused with %v", d.failures)
	}
}

func TestStopLetsWhatGathersBeCommitted(t *testing.T) {
	t.Parallel()
	d := &disk{}
	within(t, Config{Bytes: 2, Delay: time.Minute}, d, func(_ *testing.T, c *Committer[int], _ func()) {
		for i := range 5 {
			c.Accept(i)
		}
	})
	if !slices.Equal(d.acked, []int{0, 1, 2, 3, 4}) {
		t.Errorf("acknowledged %v", d.acked)
	}
}
