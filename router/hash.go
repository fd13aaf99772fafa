package router

import (
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/actor"
)

// ConsistentHash returns the [Strategy] that sends all messages with the same key to the
// same routee. Keys are spread evenly, and when a routee is added or removed only its
// keys move: with n routees about one in n.
//
// The hash depends on the routee's path: a routee of the same name gets the same keys,
// in every process, and also after it was replaced or the program was restarted. (It is
// rendezvous hashing over FNV-1a: there is no ring and there are no virtual nodes to
// tune. The price is a choice in time proportional to the number of routees, a few
// nanoseconds each.)
//
// The key function runs on the senders' goroutines and must be quick and pure. A key is
// a string, bytes or a UUID; for numbers see [ConsistentHashNumber].
func ConsistentHash[M any, K ~string | ~[]byte | ~[16]byte](key func(M) K, opts ...HashOption) Strategy[M] {
	return rendezvous(func(msg M) uint64 {
		k := key(msg)
		h := uint64(fnvOffset)
		for i := range len(k) {
			h = (h ^ uint64(k[i])) * fnvPrime
		}
		return mix(h)
	}, opts)
}

// ConsistentHashNumber is [ConsistentHash] for keys that are numbers.
func ConsistentHashNumber[M any, K integer](key func(M) K, opts ...HashOption) Strategy[M] {
	return rendezvous(func(msg M) uint64 { return mix(uint64(key(msg))) }, opts)
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// HashOption refines [ConsistentHash].
type HashOption func(*hashConfig)

type hashConfig struct{ bound float64 } // 0: no bound

// BoundedLoad keeps a popular key from overloading its routee: a routee that has more
// than factor times its share of all waiting messages is skipped, and the message goes
// to the next one in the key's order of preference, which is the same for all senders. A
// factor of 1.25 is a good start: no routee then has more than a quarter above the mean,
// give or take one message of each sender that chooses at the same moment. The factor
// must be greater than 1; otherwise BoundedLoad panics.
//
// This gives up what ConsistentHash is often used for: under load, several routees
// handle messages of one key, at the same time and out of order. Mailboxes are inspected
// as by [LeastLoaded]; while the key's routee is idle, only one is.
func BoundedLoad(factor float64) HashOption {
	if !(factor > 1) || math.IsInf(factor, 1) {
		panic(fmt.Sprintf("router: BoundedLoad(%v): the factor must be greater than 1, 1.25 for example", factor))
	}
	return func(c *hashConfig) { c.bound = factor }
}

// ranking is what a consistent hash knows of a set of routees.
type ranking[M any] struct {
	names []uint64 // a hash of each routee's path
	loads loads[M]
	bound float64 // 0 for none
}

func rendezvous[M any](hash func(M) uint64, opts []HashOption) Strategy[M] {
	var cfg hashConfig
	for _, opt := range opts {
		opt(&cfg)
	}
	return func(sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
		r := &ranking[M]{names: make([]uint64, len(routees)), loads: loads[M]{sys.Rand(), routees}, bound: cfg.bound}
		for i, routee := range routees {
			r.names[i] = hashString(routee.PID().Path())
		}
		return func(msg M, to func(actor.Ref[M])) {
			to(routees[r.pick(hash(msg))])
		}
	}
}

// pick returns the routee for a key.
func (r *ranking[M]) pick(key uint64) int {
	i, score := r.next(key, -1, 0)
	if r.bound == 0 {
		return i
	}
	capacity, best, least := 0, i, gone
	for i >= 0 {
		load := r.loads.of(i)
		if load == 0 {
			return i
		}
		if capacity == 0 {
			// A routee may hold its share of the messages, this one included, times the bound.
			capacity = int(math.Ceil(r.bound * (r.loads.total() + 1) / float64(len(r.names))))
		}
		if load < capacity {
			return i
		}
		if load < least {
			best, least = i, load
		}
		i, score = r.next(key, i, score)
	}
	return best // all of them are full; they were not when they were counted
}

// next returns the routee that follows the given one in the key's order of
// preference, the first for -1, and its score; -1 when there is none left.
func (r *ranking[M]) next(key uint64, after int, below uint64) (routee int, score uint64) {
	routee = -1
	for i, name := range r.names {
		s := mix(key ^ name)
		if after >= 0 && (s > below || s == below && i <= after) {
			continue
		}
		if routee < 0 || s > score {
			routee, score = i, s
		}
	}
	return routee, score
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// hashString is FNV-1a, finished so that all bits depend on all others.
func hashString(s string) uint64 {
	h := uint64(fnvOffset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64: a bijection without visible structure.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
