package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

const (
	dialTimeout = 5 * time.Second
	// reconnectTimeout bounds how long a lost connection may be down.
	reconnectTimeout = 30 * time.Second
	keepAliveSeconds = 30
)

// message is a message to publish.
type message struct {
	topic            string
	payload          []byte
	readings, values int // contained in payload
}

// refusedError is a broker's refusal of a message.
type refusedError struct {
	topic, reason string
	code          byte
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the broker refused a message to %s with the code 0x%02x: %s", e.topic, e.code, e.reason)
}

// publisher is an MQTT 5 connection that reconnects when it is lost. Its methods may be called
// concurrently.
type publisher struct {
	cm *autopaho.ConnectionManager
}

// dial connects to the broker at host:port.
func dial(ctx context.Context, addr string) (*publisher, error) {
	// autopaho retries forever without reporting an error; a probe returns it.
	dialer := net.Dialer{Timeout: dialTimeout}
	probe, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("no MQTT broker at %s: %w; start one with greenroom serve, or name another with --mqtt", addr, err)
	}
	_ = probe.Close() // nothing was written
	var refused atomic.Pointer[error]
	cm, err := autopaho.NewConnection(ctx, autopaho.ClientConfig{
		ServerUrls:                    []*url.URL{{Scheme: "mqtt", Host: addr}},
		KeepAlive:                     keepAliveSeconds,
		CleanStartOnInitialConnection: true,
		ReconnectBackoff:              autopaho.NewExponentialBackoff(50*time.Millisecond, 2*time.Second, 100*time.Millisecond, 2),
		ConnectTimeout:                dialTimeout,
		OnConnectError:                func(err error) { refused.Store(&err) },
		ConnectPassword:               []byte(os.Getenv(tokenVariable)), // empty if there is no token
		ClientConfig:                  paho.ClientConfig{ClientID: fmt.Sprintf("greenroom-%016x", rand.Uint64()), PacketTimeout: reconnectTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	waiting, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := cm.AwaitConnection(waiting); err != nil {
		if why := refused.Load(); why != nil {
			err = *why
		}
		return nil, fmt.Errorf("connect to the MQTT broker at %s: %w", addr, err)
	}
	return &publisher{cm: cm}, nil
}

// publish publishes with QoS 1, and returns when the message is acknowledged. If the connection is
// lost, it sends the message again, which is harmless for a reading. It fails with a *refusedError,
// the cause of ctx, or when the connection cannot be restored.
func (p *publisher) publish(ctx context.Context, m *message) error {
	for {
		resp, err := p.cm.Publish(ctx, &paho.Publish{QoS: 1, Topic: m.topic, Payload: m.payload})
		switch {
		case resp != nil && resp.ReasonCode >= 0x80:
			reason := "no reason given"
			if resp.Properties != nil && resp.Properties.ReasonString != "" {
				reason = resp.Properties.ReasonString
			}
			return &refusedError{topic: m.topic, reason: reason, code: resp.ReasonCode}
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		waiting, cancel := context.WithTimeout(ctx, reconnectTimeout)
		werr := p.cm.AwaitConnection(waiting)
		cancel()
		if werr != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if werr != nil {
			return fmt.Errorf("the connection was lost and did not come back in %v: %w", reconnectTimeout, err)
		}
	}
}

// close disconnects.
func (p *publisher) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.cm.Disconnect(ctx) // everything has been acknowledged
}
