package mqtt

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/greenroom-go/greenroom/server/refusal"
)

// How quickly a principal may subscribe and unsubscribe, by all of its connections: as many
// filters at once as a session has room for, and then so many a second. It is cheap to ask for
// filters, and dear to look each of them up and to put it where each publish looks: a few clients
// that do nothing else would take the processors from all others, and so would one that connects
// again for each packet. Where nobody has to log in, and for devices that do not have their
// credentials yet, each connection has a pace of its own.
const (
	filterBurst = maxSubscriptions
	filterRate  = 200
	// filterPatience is how long a packet waits for its turn; the connection of one that would
	// have to wait longer ends.
	filterPatience = 30 * time.Second
	// paceKept is how long the pace of a principal is kept at least that subscribes no more: by then
	// it is as if it never had.
	paceKept = filterPatience + (filterBurst/filterRate+1)*time.Second
)

// paces are those of the principals that have subscribed lately. Its methods are safe for
// concurrent use.
type paces struct {
	mu         sync.Mutex
	young, old map[string]*rate.Limiter // by principal: used since turned, and before; guarded by mu
	turned     time.Time                // guarded by mu
}

// of returns the pace of a principal.
func (p *paces) of(name string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.turned) > paceKept {
		p.young, p.old, p.turned = make(map[string]*rate.Limiter), p.young, now
	}
	l := p.young[name]
	if l == nil {
		if l = p.old[name]; l == nil {
			l = newPace()
		}
		p.young[name] = l
		delete(p.old, name)
	}
	return l
}

func newPace() *rate.Limiter { return rate.NewLimiter(filterRate, filterBurst) }

// pace waits until the client may name so many more filters, at most filterBurst, which makes
// none but those of the same principal wait. It returns false if that would take too long, or the
// connection ends meanwhile. The goroutine that reads calls it.
func (c *conn) pace(filters int) bool {
	limiter := c.filters
	if c.who != nil && c.who.Name() != "" && !c.newcomer {
		limiter = c.broker.paces.of(c.who.Name())
	} else if limiter == nil {
		limiter = newPace()
		c.filters = limiter
	}
	turn := limiter.ReserveN(time.Now(), filters)
	if turn.Delay() > filterPatience {
		turn.Cancel()
		c.broker.refusals.Add(refusal.MQTT, refusal.CauseBusy, "", c.client.ID, "its principal subscribes to more than it has time for; subscribe to less at a time")
		return false
	}
	timer := time.NewTimer(turn.Delay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	case <-c.broker.running.Done():
		return false
	}
}
