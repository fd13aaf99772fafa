package workload

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// meter measures a stretch of a run: its time and what the process allocated.
type meter struct {
	mallocs, bytes uint64
	began          time.Time
}

func startMeter() meter {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{m.Mallocs, m.TotalAlloc, time.Now()}
}

func (m meter) stop(ops int) Figures {
	took := time.Since(m.began)
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	n := float64(ops)
	return Figures{
		NsPerOp:     float64(took) / n,
		AllocsPerOp: float64(now.Mallocs-m.mallocs) / n,
		BytesPerOp:  float64(now.TotalAlloc-m.bytes) / n,
	}
}

// measure warms up with a tenth of the operations, so that queues and pools
// have the size that they will have, and measures a pass of all of them. pass
// validates what it did. What was needed to get there is collected before.
func measure(ops int, pass func(ops int) error) (Figures, error) {
	runtime.GC()
	if err := pass(max(1, ops/10)); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	m := startMeter()
	if err := pass(ops); err != nil {
		return nil, err
	}
	return m.stop(ops), nil
}

// await waits for a value that a handler will send.
func await[T any](ctx context.Context, done <-chan T) (T, error) {
	select {
	case v := <-done:
		return v, nil
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the last message has not come: %w", context.Cause(ctx))
	}
}

// tally is what an actor has received: how many messages and the sum of their
// numbers, which a lost message and a doubled one in its place would not keep.
type tally struct{ count, sum int64 }

// upTo is the tally of the numbers from 0 to n-1.
func upTo(n int) tally { return tally{int64(n), int64(n) * (int64(n) - 1) / 2} }

func (t *tally) add(m Msg) {
	t.count++
	t.sum += m.N
}

func (t tally) plus(other tally) tally { return tally{t.count + other.count, t.sum + other.sum} }

// check compares what was received with what was sent.
func (t tally) check(want tally) error {
	if t != want {
		return fmt.Errorf("%w: %d messages with the sum %d were handled, %d with the sum %d were sent",
			ErrWrongCount, t.count, t.sum, want.count, want.sum)
	}
	return nil
}
