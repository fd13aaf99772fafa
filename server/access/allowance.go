package access

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// Rates are how many bytes a principal may send in a second, over all of its connections and requests.
// What it sends beyond that is read later, so that whoever sends without end takes nothing from
// others.
type Rates struct {
	// Device is for principals that have the role device for the entity of their name, and nothing
	// else, and for all devices together that ask for credentials. Gateway is for all others but
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
	// waited is the sum of the waits that charge has returned, and late when the last of them ends;
	// 0 for none.
	waited, late atomic.Int64
}

// charge charges bytes at a time, and returns how long their sender must wait for what was charged
// before. If that is longer than patience, it charges nothing and reports false.
func (a *allowance) charge(now time.Duration, bytes, rate int64, patience time.Duration) (wait time.Duration, ok bool) {
	price := time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
	for {
		paid := a.paid.Load()
		wait = max(0, time.Duration(paid)-now)
		if wait > patience {
			return wait, false
		}
		if a.paid.CompareAndSwap(paid, int64(max(time.Duration(paid), now-burst)+price)) {
			if wait > 0 {
				a.waited.Add(int64(wait))
				a.late.Store(paid)
			}
			return wait, true
		}
	}
}

// Charge charges a principal for bytes that it sends, and returns how long the caller must wait before
// it handles them: until what the principal has sent before is within its rate. Those who wait do so
// in the order of their calls. If it would be longer than patience, Charge charges nothing, and the
// error is ErrRate.
//
// Where nobody has to log in, everybody may send any number. Charge does not block.
func (b *Book) Charge(p *Principal, bytes int64, patience time.Duration) (wait time.Duration, err error) {
	if !b.Guarded() {
		return 0, nil
	}
	rate := b.rates.of(p)
	if rate <= 0 {
		return 0, nil
	}
	a := &p.allowance
	if p.name == provisionerName {
		a = &b.newcomers
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
