package mqtt

import (
	"math"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// What a packet costs of the allowance of its principal besides its bytes: about as many as take as
// much time to handle. Acknowledgements answer what the server has sent.
const (
	packetCost = 512
	ackCost    = 64
)

// cost returns what a packet costs whose length is known.
func (f *frames) cost(length uint32) int64 {
	switch f.kind >> 4 {
	case packets.Puback, packets.Pubrec, packets.Pubcomp:
		return int64(length) + ackCost
	default:
		return int64(length) + packetCost
	}
}

// pay charges the principal for packets that were read and not handled, and waits if it has sent too
// much before. It is called by the reading goroutine, which reads nothing meanwhile, so that the client has to wait.
// The time in which the client must send something is extended by the wait.
func (c *conn) pay(cost int64) error {
	if cost == 0 || c.client == nil { // CONNECT has limits of its own
		return nil
	}
	wait, _ := c.broker.access.Charge(c.who, cost, math.MaxInt64) // which is longer than any wait
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.gone:
		return net.ErrClosed
	case <-c.broker.running.Done():
		return nil // what is read now is refused
	}
	if c.readBy.IsZero() {
		return nil
	}
	return c.SetDeadline(c.readBy.Add(wait))
}
