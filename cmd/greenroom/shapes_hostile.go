package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// Parameters of malicious or broken clients.
const (
	strangerRate       = 10_000
	strangerWorkers    = 64
	silentMost         = 2000
	silentRate         = 2000
	askers             = 8
	askerRate          = 100 // of connections
	askFilters         = 50  // per SUBSCRIBE
	willRate           = 200
	willBytes          = 60 << 10
	unreadMost         = 10
	saturators         = 8
	saturatingReadings = 1000 // per message
)

// runHostile measures the others beside clients that are as expensive as they can be, on a server
// with TLS and credentials.
func runHostile(ctx context.Context, s *suite) (err error) {
	if err := s.child.kill(); err != nil {
		return err
	}
	if s.child, err = startGuarded(ctx, s.place); err != nil {
		return err
	}
	return s.beside(ctx, startGuarded,
		nuisance{"silent connections", "connects", silent},
		nuisance{"floods of subscribes", "filters", subscribeAlways},
		nuisance{"giant wills", "wills", giantWills},
		nuisance{"readers that do not read", "connects", unread},
		nuisance{"a device that sends all it can", "kB", saturate},
	)
}

// strangers connects without credentials, and with wrong ones.
func strangers(ctx context.Context, at *child) (int64, *latencies, error) {
	n, err := paced(ctx, strangerRate, strangerWorkers, func(i int) error {
		h := hello{id: fmt.Sprintf("stranger-%d", i)}
		if i%2 == 0 {
			h.name, h.password = fmt.Sprintf("loader-%d", i%guardedDevices), "a wrong password"
		}
		nc, err := at.link.dial(ctx)
		if err != nil {
			return nil // the server may refuse them
		}
		defer nc.Close()
		if code, _, err := h.say(nc); err == nil && code == 0 {
			return fmt.Errorf("a stranger was let in, with the name %q", h.name)
		}
		return nil
	})
	return n, nil, err
}

// silent opens connections that send nothing, or only the beginning of a packet, and holds them
// until the server closes them, at most silentMost at a time.
func silent(ctx context.Context, at *child) (int64, *latencies, error) {
	held := make(chan struct{}, silentMost)
	n, err := paced(ctx, silentRate, 1, func(i int) error {
		select {
		case held <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		var dialer net.Dialer
		nc, err := dialer.DialContext(ctx, "tcp", at.link.addr)
		if err != nil {
			<-held
			return nil //nolint:nilerr // the server may refuse it
		}
		if i%2 == 0 {
			_, _ = nc.Write([]byte{0x16, 3, 1}) // the beginning of a TLS handshake
		}
		stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
		go func() {
			_, _ = io.Copy(io.Discard, nc) // until one side closes the connection
			stop()
			_ = nc.Close()
			<-held
		}()
		return nil
	})
	return n, nil, err
}

// subscribeAlways keeps subscribing to more filters on several connections, and reconnects when the
// server closes them.
func subscribeAlways(ctx context.Context, at *child) (int64, *latencies, error) {
	var filters atomic.Int64
	_, err := paced(ctx, askerRate, askers, func(i int) error {
		h := at.link.helloOf(fmt.Sprintf("asker-%d", i), i)
		nc, err := at.link.connect(ctx, &h)
		if err != nil {
			return nil // the server may refuse them
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
		go func() { _, _ = io.Copy(io.Discard, nc) }() // reads the answers until the connection is closed
		for n := uint16(1); n > 0; n++ {
			if _, err := nc.Write(subscribe(n, askFilters)); err != nil {
				return nil // the server may refuse them
			}
			filters.Add(askFilters)
		}
		return nil
	})
	return filters.Load(), nil, err
}

// subscribe returns a SUBSCRIBE to filters that nobody else uses.
func subscribe(packet uint16, filters int) []byte {
	body := binary.BigEndian.AppendUint16(nil, packet)
	for range filters {
		filter := fmt.Sprintf("e/bench-%d/+/%016x/#", rand.IntN(100_000), rand.Uint64())
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(filter))), filter...)
		body = append(body, 1) // its QoS
	}
	return append(binary.AppendUvarint([]byte{mqttSubscribe}, uint64(len(body))), body...)
}

// giantWills connects with the largest will that fits into a CONNECT, and drops the connection.
func giantWills(ctx context.Context, at *child) (int64, *latencies, error) {
	will := fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte("x"), willBytes))
	n, err := paced(ctx, willRate, strangerWorkers, func(i int) error {
		h := at.link.helloOf(fmt.Sprintf("willing-%d", i), i)
		h.topic, h.will = "e/bench-0/telemetry", will
		nc, err := at.link.connect(ctx, &h)
		if err != nil {
			return nil //nolint:nilerr // the server may refuse it
		}
		return nc.Close()
	})
	return n, nil, err
}

// saturate sends readings as fast as the server reads them, on several connections of one principal.
func saturate(ctx context.Context, at *child) (int64, *latencies, error) {
	var bytes atomic.Int64
	_, err := paced(ctx, saturators, saturators, func(i int) error {
		h := at.link.helloOf(fmt.Sprintf("saturator-%d", i), ofItsOwn)
		nc, err := at.link.connect(ctx, &h)
		if err != nil {
			return nil // the server may refuse it
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
		go func() { _, _ = io.Copy(io.Discard, nc) }() // reads the acknowledgements until the connection is closed
		for n := uint16(1); ; n++ {
			packet := publishMany(fmt.Sprintf("e/bench-saturator-%d/telemetry", i), max(n, 1))
			if _, err := nc.Write(packet); err != nil {
				return nil // the server may refuse it
			}
			bytes.Add(int64(len(packet)))
		}
	})
	return bytes.Load() / 1000, nil, err
}

// publishMany returns a PUBLISH with QoS 1 and many readings.
func publishMany(topic string, packet uint16) []byte {
	body := append(binary.BigEndian.AppendUint16(nil, uint16(len(topic))), topic...)
	body = append(binary.BigEndian.AppendUint16(body, packet), '[')
	now := time.Now().UnixMilli()
	for i := range saturatingReadings {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"ts":%d,"values":{"temperature":%.3f,"text":"%016x"}}`, now+int64(i), 20+rand.Float64(), rand.Uint64())
	}
	body = append(body, ']')
	return append(binary.AppendUvarint([]byte{mqttPublish}, uint64(len(body))), body...)
}

// unread subscribes to everything and reads nothing.
func unread(ctx context.Context, at *child) (int64, *latencies, error) {
	n, err := paced(ctx, unreadMost, unreadMost, func(i int) error {
		h := at.link.helloOf(fmt.Sprintf("unread-%d", i), i)
		nc, err := at.link.connect(ctx, &h)
		if err != nil {
			return nil // the server may refuse them
		}
		defer nc.Close()
		filter := "e/#"
		body := append([]byte{0, 1, 0, byte(len(filter))}, filter...)
		if _, err := nc.Write(append([]byte{mqttSubscribe, byte(len(body) + 1)}, append(body, 1)...)); err != nil {
			return nil // the server may refuse them
		}
		<-ctx.Done()
		return nil
	})
	return n, nil, err
}
