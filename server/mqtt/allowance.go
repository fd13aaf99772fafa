package mqtt

import (
	"errors"
	"net"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// What a packet costs of the allowance of its principal besides its bytes: about as many bytes as
// take the same time to handle. Acknowledgements answer what the server has sent.
const (
	packetCost = 512
	ackCost    = 64
)

// A connection that waits does not see that its client has left, nor answers its PINGREQ. So the
// wait is bounded, and shorter for a client that has just connected: a client that connects again
// and again must not pile up waiting connections.
const (
	ratePatience    = time.Minute
	connectPatience = 10 * time.Second
)

// cost returns the cost of a packet whose length is known.
func (f *frames) cost(length uint32) int64 {
	switch f.kind >> 4 {
	case packets.Puback, packets.Pubrec, packets.Pubcomp:
		return int64(length) + ackCost
	default:
		return int64(length) + packetCost
	}
}

// payFor pays for packets that were read and not handled. Until the client is known they are owed.
func (c *conn) payFor(cost int64) error {
	owed := &c.receipt.frames.owed
	*owed += cost
	if c.client == nil || *owed == 0 {
		return nil
	}
	cost, *owed = *owed, 0
	err := c.pay(cost, ratePatience)
	if errors.Is(err, access.ErrRate) {
		v := refusal.Judge(err)
		c.broker.refusals.Add(refusal.MQTT, v.Cause, "", c.client.ID, v.Detail)
		c.broker.hangUp(c.client, goodbye(&v))
	}
	return err
}

// payConnect pays for the CONNECT, and for what has arrived with it, once the principal is known.
func (c *conn) payConnect() error {
	cost := c.receipt.frames.owed
	c.receipt.frames.owed = 0
	return c.pay(cost, connectPatience)
}

// pay charges the principal, and waits if it has sent too much before. It is called by the reading
// goroutine, which reads nothing meanwhile, so that the client has to wait. The time in which the client must send
// something is extended by the wait. It returns net.ErrClosed if the connection ends meanwhile, and
// access.ErrRate if the wait would be longer than patience.
func (c *conn) pay(cost int64, patience time.Duration) error {
	wait, err := c.broker.access.Charge(c.who, cost, patience)
	if err != nil || wait <= 0 {
		return err
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
