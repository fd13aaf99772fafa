package access

import (
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Rates are how many bytes a principal may send in a second, over all of its connections and requests.
// What it sends beyond that is read later, so that whoever sends without end takes nothing from
// others.
type Rates struct {
	// Device is for principals that have the role device for the entity of their name, and nothing
	// else, and for all devices of an address together that ask for credentials. Gateway is for all others but
	// admins, who may send any number unless their Spec.Rate is set. 0 stands for DefaultRates, and
	// a negative value means any number.
	Device, Gateway int64
}

// DefaultRates returns the rates that are used where none are set: 512 KiB for a device and 2 MiB for
// a gateway, for each processor, because what a message costs is mostly time of processors.
func DefaultRates() Rates {
	n := int64(runtime.GOMAXPROCS(0))
	return Rates{Device: n << 19, Gateway: n << 21}
}

// MaxRate is the most bytes in a second that Spec.Rate may name.
const MaxRate = 1 << 40

// longest bounds what is owed, so that absurd sizes and rates overflow nothing: over a year.
const longest time.Duration = 1 << 55

// burst is the time whose bytes a principal may send at once after it has sent nothing for so long.
const burst = 250 * time.Millisecond

func (r Rates) withDefaults() Rates {
	usual := DefaultRates()
	if r.Device == 0 {
		r.Device = usual.Device
	}
	if r.Gateway == 0 {
		r.Gateway = usual.Gateway
	}
	return r
}

// of returns the rate of a principal, in bytes per second; at most 0 means any number.
func (r *Rates) of(p *Principal) int64 {
	switch {
	case p.name == "":
		return 0 // it is everybody
	case p.stored.Rate > 0:
		return p.stored.Rate
	case p.all[Manage]:
		return 0
	case p.single():
		return r.Device
	default:
		return r.Gateway
	}
}

// single reports whether the principal is the device of one entity, or one that asks for credentials.
func (p *Principal) single() bool {
	for i := range p.grants {
		if p.grants[i].own == "" {
			return false
		}
	}
	return true
}

// allowance is a token bucket. Its zero value is full. Its methods may be called concurrently.
type allowance struct {
	// paid is when everything is paid that was charged, from Book.began on. If that is in the past,
	// the time since then is saved, up to burst.
	paid atomic.Int64
	// waited is the sum of the waits that charge has returned, and late when the last of them ends, or
	// that of who was refused would have; 0 for none.
	waited, late atomic.Int64
}

// settled reports whether the allowance is as good as new.
func (a *allowance) settled(now time.Duration) bool { return time.Duration(a.paid.Load()) <= now-burst }

// owe charges bytes that were received already.
func (a *allowance) owe(now time.Duration, bytes, rate int64) {
	for {
		paid := a.paid.Load()
		if a.paid.CompareAndSwap(paid, after(paid, now, bytes, rate)) {
			return
		}
	}
}

// after returns what paid is once bytes more are charged.
func after(paid int64, now time.Duration, bytes, rate int64) int64 {
	price := longest
	if p := float64(bytes) / float64(rate) * float64(time.Second); p < float64(longest) {
		price = time.Duration(max(0, p))
	}
	return int64(min(max(time.Duration(paid), now-burst)+price, now+longest))
}

// charge charges bytes at a time, and returns how long their sender must wait for what was charged
// before. If that is longer than patience, it charges nothing and reports false.
func (a *allowance) charge(now time.Duration, bytes, rate int64, patience time.Duration) (wait time.Duration, ok bool) {
	for {
		paid := a.paid.Load()
		wait = max(0, time.Duration(paid)-now)
		if wait > patience {
			a.late.Store(paid)
			return wait, false
		}
		if a.paid.CompareAndSwap(paid, after(paid, now, bytes, rate)) {
			if wait > 0 {
				a.waited.Add(int64(wait))
				a.late.Store(paid)
			}
			return wait, true
		}
	}
}

// maxNewcomers bounds the addresses whose devices without credentials have allowances of their own.
const maxNewcomers = 10_000

// newcomers are the allowances of devices that ask for credentials, by the key of their address: one
// of them must not make those of others wait. Its methods may be called concurrently.
type newcomers struct {
	mu sync.Mutex
	of map[string]*allowance // guarded by mu

	others allowance // of those for whom there is no room
}

// at returns the allowance of an address.
func (n *newcomers) at(key string, now time.Duration) *allowance {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.of[key]
	if a != nil {
		return a
	}
	if len(n.of) >= maxNewcomers {
		maps.DeleteFunc(n.of, func(_ string, a *allowance) bool { return a.settled(now) })
	}
	if len(n.of) >= maxNewcomers {
		return &n.others
	}
	if n.of == nil {
		n.of = make(map[string]*allowance)
	}
	a = new(allowance)
	n.of[key] = a
	return a
}

// Charge charges a principal for bytes that it sends, and returns how long the caller must wait before
// it handles them: until what the principal has sent before is within its rate. Those who wait do so
// in the order of their calls. If it would be longer than patience, Charge charges nothing, and the
// error is ErrRate.
//
// Where nobody has to log in, everybody may send any number. Charge does not block.
func (b *Book) Charge(p *Principal, bytes int64, patience time.Duration) (wait time.Duration, err error) {
	a, rate := b.allowanceOf(p)
	if a == nil {
		return 0, nil
	}
	wait, ok := a.charge(time.Since(b.began), bytes, rate, patience)
	if !ok {
		return 0, fmt.Errorf("%w: %q may send %d KiB in a second", ErrRate, p.name, rate>>10)
	}
	if wait > 0 {
		b.waits.Add(1)
		b.waited.Add(int64(wait))
	}
	return wait, nil
}

// Owe is Charge for bytes that were received before their number was known: whatever the principal
// sends next waits for them. It does not block.
func (b *Book) Owe(p *Principal, bytes int64) {
	if a, rate := b.allowanceOf(p); a != nil {
		a.owe(time.Since(b.began), bytes, rate)
	}
}

// allowanceOf returns the allowance of a principal and its rate, or nil if it may send any number.
func (b *Book) allowanceOf(p *Principal) (a *allowance, rate int64) {
	if !b.Guarded() {
		return nil, 0
	}
	if rate = b.rates.of(p); rate <= 0 {
		return nil, 0
	}
	if p.newcomer != nil {
		return p.newcomer, rate
	}
	return &p.allowance, rate
}
