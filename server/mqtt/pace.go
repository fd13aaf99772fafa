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

// pace waits until the client may name so many more filters, which makes nobody else wait. It
// returns false if the connection ends meanwhile. The goroutine that reads calls it.
func (c *conn) pace(filters int) bool {
	if c.filters == nil {
		c.filters = rate.NewLimiter(filterRate, filterBurst)
	}
	for filters > 0 {
		step := min(filters, filterBurst)
		filters -= step
		wait := c.filters.ReserveN(time.Now(), step).Delay()
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.gone:
			timer.Stop()
			return false
		case <-c.broker.running.Done():
			timer.Stop()
			return false
		}
	}
	return true
}
