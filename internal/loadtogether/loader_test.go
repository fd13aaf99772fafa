package loadtogether

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

func TestWhatIsWantedDuringAReadIsReadTogether(t *testing.T) {
	q := Queue[int]{Readers: 2, Together: 3}
	for i := range 2 {
		if !q.Add(i) {
			t.Fatalf("item %d begins no read", i)
		}
		if got := q.Next(); !slices.Equal(got, []int{i}) {
			t.Fatalf("read %v", got)
		}
	}
	for i := 2; i < 6; i++ {
		if q.Add(i) {
			t.Errorf("item %d begins a third read", i)
		}
	}
	if n := q.Waiting(); n != 4 {
		t.Errorf("%d wait", n)
	}
	for _, want := range [][]int{{2, 3, 4}, {5}, nil, nil} {
		if got := q.Next(); !slices.Equal(got, want) {
			t.Errorf("read %v, want %v", got, want)
		}
	}
	if !q.Add(6) || !q.Add(7) || q.Add(8) {
		t.Error("reads that have ended are still counted")
	}
}

func TestLoadReturnsWhatWasReadForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errUnknown, gate := errors.New("unknown"), make(chan struct{})
		var sizes []int
		l := New(1, 8, func(batch []*Want[string]) {
			<-gate
			sizes = append(sizes, len(batch))
			for _, w := range batch {
				if w.ID == "3" {
					w.Err = errUnknown
				} else {
					w.Value = "the value of " + w.ID
				}
			}
		})
		left, leave := context.WithCancelCause(t.Context())
		results := make(chan error)
		for i := range 10 {
			id, ctx := fmt.Sprint(i), t.Context()
			if i == 9 {
				ctx = left
			}
			go func() {
				v, err := l.Load(ctx, id)
				if err == nil && v != "the value of "+id {
					err = fmt.Errorf("%s has %q", id, v)
				}
				results <- err
			}()
			synctest.Wait()
		}
		why := errors.New("gone")
		leave(why)
		if err := <-results; !errors.Is(err, why) {
			t.Errorf("who does not wait any more gets %v", err)
		}
		close(gate)
		unknown := 0
		for range 9 {
			if err := <-results; errors.Is(err, errUnknown) {
				unknown++
			} else if err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if unknown != 1 || !slices.Equal(sizes, []int{1, 8, 1}) || l.Waiting() != 0 {
			t.Errorf("%d unknown, reads of %v, %d waiting", unknown, sizes, l.Waiting())
		}
	})
}
