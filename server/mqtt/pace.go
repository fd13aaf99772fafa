package mqtt

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/greenroom-go/greenroom/server/refusal"
)

// How quickly a principal may subscribe and unsubscribe, over all of its connections: as many
// filters at once as a session has room for, and then so many a second. Filters are cheap to
// request, but expensive to look up and to insert where each publish searches: a few clients that
// do nothing else would keep the processors from all others, and so would one that reconnects for
// each packet. If nobody has to log in, and for devices that have no credentials yet, each
// connection has its own pace.
const (
	filterBurst = maxSubscriptions
	filterRate  = 200
	// filterPatience is the longest that a packet waits for its turn. If it would take longer, the
	// connection is closed.
	filterPatience = 30 * time.Second
	// paceKept is the least time that the pace of an idle principal is kept; after it, a new pace
	// would be the same.
	paceKept = filterPatience + (filterBurst/filterRate+1)*time.Second
)

// paces holds the paces of the principals that have subscribed lately. Its methods may be called
// concurrently.
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

// pace waits until the client may subscribe to or unsubscribe from filters more filters, at most
// filterBurst. Only clients of the same principal have to wait for it. It reports false if that
// would take too long, or the connection ends meanwhile. It is called by the reading goroutine.
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
