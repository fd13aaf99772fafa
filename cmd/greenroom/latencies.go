package main

import (
	"math"
	"sync"
	"time"
)

// latencies counts durations in buckets that grow by 2 %, from a microsecond to more than an hour.
// The zero value is ready to use. Methods may be called concurrently.
type latencies struct {
	mu     sync.Mutex
	counts [1200]uint64
	n      uint64
	most   time.Duration
}

const (
	latencyUnit   = float64(time.Microsecond)
	latencyGrowth = 1.02
)

var logGrowth = math.Log(latencyGrowth)

func (l *latencies) add(d time.Duration) {
	i := 0
	if d > time.Microsecond {
		i = min(int(math.Log(float64(d)/latencyUnit)/logGrowth)+1, len(l.counts)-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[i]++
	l.n++
	l.most = max(l.most, d)
}

// quantile returns the upper bound of the bucket that contains the quantile.
func (l *latencies) quantile(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	rank := uint64(math.Ceil(q * float64(l.n)))
	for i, n := range l.counts {
		if rank <= n {
			if l.n == 0 {
				return 0
			}
			return min(l.most, time.Duration(latencyUnit*math.Pow(latencyGrowth, float64(i))))
		}
		rank -= n
	}
	return l.most
}

// merge adds the counts of other, which must not change meanwhile.
func (l *latencies) merge(other *latencies) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.n += other.n
	l.most = max(l.most, other.most)
}

// max returns the longest duration.
func (l *latencies) max() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}
