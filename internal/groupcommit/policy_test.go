package groupcommit

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var errDisk = errors.New("no space left")

const (
	delay = 8 * time.Millisecond
	step  = delay / growthSteps
)

// bench is a policy of items that cost 1 each, and a clock that the test moves.
type bench struct {
	*Policy[int]
	t   *testing.T
	now int64
}

func newBench(t *testing.T, cfg Config) *bench {
	return &bench{t: t, Policy: NewPolicy(cfg, func(int) int64 { return 1 })}
}

func (b *bench) add(items ...int) {
	for _, item := range items {
		b.Add(item)
	}
}

// wants checks what Next says.
func (b *bench) wants(batch []int, wait time.Duration) {
	b.t.Helper()
	if got, d := b.Next(b.now); !slices.Equal(got, batch) || d != wait {
		b.t.Fatalf("at %v: %v and a wait of %v, want %v and %v", time.Duration(b.now), got, d, batch, wait)
	}
}

func (b *bench) pass(d time.Duration) { b.now += int64(d) }

func TestABatchThatNothingIsAddedToIsCommittedAfterAQuarterOfTheDelay(t *testing.T) {
	b := newBench(t, Config{Bytes: 100, Delay: delay})
	b.wants(nil, 0)
	b.add(1)
	b.wants(nil, step)
	b.pass(step / 2)
	b.wants(nil, step/2) // to ask too early changes nothing
	b.pass(step / 2)
	b.wants([]int{1}, 0)
	b.wants(nil, 0)
	b.Settle(b.now, 1, nil)
	b.wants(nil, 0)
}

func TestABatchGrowsForTheDelayWhileMoreComes(t *testing.T) {
	b := newBench(t, Config{Bytes: 100, Delay: delay})
	var want []int
	for i := range growthSteps {
		b.add(i)
		want = append(want, i)
		b.wants(nil, step)
		b.pass(step)
	}
	b.add(9)
	b.wants(append(want, 9), 0)
}

func TestABatchGrowsAsLongAsCommitsTakeUpToFourTimesTheDelay(t *testing.T) {
	for _, c := range []struct{ took, growth time.Duration }{{delay / 2, delay}, {2 * delay, 2 * delay}, {100 * delay, 4 * delay}} {
		b := newBench(t, Config{Bytes: 100, Delay: delay})
		b.Hasten()
		b.add(1)
		b.wants([]int{1}, 0)
		b.pass(c.took)
		b.Settle(b.now, 1, nil)
		b.hasty = false
		began := b.now
		for {
			b.add(2)
			batch, wait := b.Next(b.now)
			if batch != nil {
				break
			}
			b.pass(wait)
		}
		if got := time.Duration(b.now - began); got != c.growth {
			t.Errorf("after a commit of %v a batch grows for %v, want %v", c.took, got, c.growth)
		}
	}
}

func TestAFullBatchIsDueAtOnceAndCut(t *testing.T) {
	b := newBench(t, Config{Bytes: 3, Delay: delay})
	if _, due := b.Add(1); !due {
		t.Error("the first item is not due")
	}
	b.wants(nil, step)
	if _, due := b.Add(2); due {
		t.Error("an item that fills nothing is due")
	}
	if number, due := b.Add(3); !due || number != 3 {
		t.Errorf("item %d fills the batch: due is %v", number, due)
	}
	if _, due := b.Add(4); due {
		t.Error("an item after the full batch is due once more")
	}
	b.wants([]int{1, 2, 3}, 0)
	b.add(5, 6, 7)
	b.Settle(b.now, 3, nil)
	b.wants([]int{4, 5, 6}, 0)
	b.Settle(b.now, 3, nil)
	b.wants(nil, step)
}

func TestAnItemLargerThanABatchIsOneAlone(t *testing.T) {
	p := NewPolicy(Config{Bytes: 10}, func(cost int64) int64 { return cost })
	for _, cost := range []int64{11, 1, 50, 9, 2} {
		p.Add(cost)
	}
	var got [][]int64
	for batch, _ := p.Next(0); batch != nil; batch, _ = p.Next(0) {
		got = append(got, batch)
		p.Settle(0, len(batch), nil)
	}
	if want := [][]int64{{11}, {1}, {50}, {9}, {2}}; !slices.EqualFunc(got, want, slices.Equal[[]int64]) {
		t.Errorf("batches of %v, want %v", got, want)
	}
}

func TestAFailedCommitIsTriedAgainWithTheSameItemsAfterAPauseThatDoubles(t *testing.T) {
	b := newBench(t, Config{Bytes: 100, RetryMin: 10, RetryMax: 25})
	b.add(1, 2)
	b.wants([]int{1, 2}, 0)
	b.add(3)
	for _, pause := range []time.Duration{10, 20, 25, 25} {
		b.Settle(b.now, 0, errDisk)
		b.wants(nil, pause)
		b.pass(pause - 1)
		b.wants(nil, 1)
		b.pass(1)
		b.wants([]int{1, 2}, 0)
	}
	b.Settle(b.now, 2, nil)
	b.wants([]int{3}, 0)
	b.Settle(b.now, 0, errDisk)
	b.wants(nil, 10) // a new batch begins with the shortest one
}

func TestWhatACommitHasNotTakenComesAtOnceAndBeforeWhatIsNew(t *testing.T) {
	b := newBench(t, Config{Bytes: 100, Delay: delay, RetryMin: 10, RetryMax: 10})
	b.Hasten()
	b.add(1, 2, 3)
	b.wants([]int{1, 2, 3}, 0)
	b.hasty = false
	b.add(4)
	b.Settle(b.now, 1, nil)
	b.wants([]int{2, 3}, 0)
	b.Settle(b.now, 1, errDisk)
	b.wants(nil, 10)
	b.pass(10)
	b.wants([]int{3}, 0)
	b.Settle(b.now, 1, nil)
	b.wants(nil, step)
}

func TestHastenEndsEveryWait(t *testing.T) {
	b := newBench(t, Config{Bytes: 100, Delay: delay, RetryMin: time.Hour, RetryMax: time.Hour})
	b.add(1)
	b.wants(nil, step)
	b.Hasten()
	b.wants([]int{1}, 0)
	b.Settle(b.now, 0, errDisk)
	b.wants([]int{1}, 0)
}

func TestSettleWithoutACommitPanics(t *testing.T) {
	for name, misuse := range map[string]func(*bench){
		"idle": func(b *bench) { b.Settle(0, 0, nil) },
		"more than there are": func(b *bench) {
			b.add(1)
			b.Next(0)
			b.Settle(0, 2, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(newBench(t, Config{Bytes: 1}))
		})
	}
}

// Whatever happens: each item is settled once, in order, no batch is too large, and a
// driver that waits as Next and Add say is never left waiting for nothing.
func TestEveryItemIsCommittedOnceAndInOrder(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{Bytes: 1 + rnd.Int64N(20), Delay: time.Duration(rnd.IntN(3)) * 50, RetryMin: 5, RetryMax: 40}
		b := newBench(t, cfg)
		const items = 200
		next, settled := 1, 0
		wakeAt := int64(-1) // when the driver asks again; -1: when Add says so
		ask := func() {
			wakeAt = -1
			batch, wait := b.Next(b.now)
			for ; batch != nil; batch, wait = b.Next(b.now) {
				if int64(len(batch)) > cfg.Bytes {
					t.Fatalf("seed %d: a batch of %d items, at most %d fit", seed, len(batch), cfg.Bytes)
				}
				for i, item := range batch {
					if item != settled+1+i {
						t.Fatalf("seed %d: item %d comes after %d", seed, item, settled+i)
					}
				}
				b.pass(time.Duration(rnd.IntN(100)))
				for range min(rnd.IntN(5), max(0, items+1-next)) {
					if _, due := b.Add(next); due {
						t.Fatalf("seed %d: due while a commit is under way", seed)
					}
					next++
				}
				n, err := len(batch), error(nil)
				if rnd.IntN(3) == 0 {
					n, err = rnd.IntN(n+1), errDisk
				}
				if n == len(batch) {
					err = nil
				}
				settled += n
				b.Settle(b.now, n, err)
			}
			if wait > 0 {
				wakeAt = b.now + int64(wait)
			}
		}
		for next <= items || settled < next-1 {
			switch {
			case next <= items && rnd.IntN(2) == 0:
				_, due := b.Add(next)
				if next++; due {
					ask()
				}
			case wakeAt >= 0:
				b.now = max(b.now, wakeAt)
				ask()
			case next > items && settled < next-1:
				t.Fatalf("seed %d: %d of %d items are settled and nobody asks again", seed, settled, next-1)
			}
		}
	}
}
