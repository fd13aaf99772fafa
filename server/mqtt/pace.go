package mqtt

import (
	"time"

	"golang.org/x/time/rate"
)

// How quickly a client may subscribe and unsubscribe: as many filters at once as a session has
// room for, and then so many a second. It is cheap to ask for filters, and dear to look each of
// them up and to put it where each publish looks: a few clients that do nothing else would take the
// processors from all others.
const (
	filterBurst = maxSubscriptions
	filterRate  = 200
)

// pace waits until the client may name so many more filters, at most filterBurst, which makes nobody
// else wait. It returns false if the connection ends meanwhile. The goroutine that reads calls it.
func (c *conn) pace(filters int) bool {
	if c.filters == nil {
		c.filters = rate.NewLimiter(filterRate, filterBurst)
	}
	timer := time.NewTimer(c.filters.ReserveN(time.Now(), filters).Delay())
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
