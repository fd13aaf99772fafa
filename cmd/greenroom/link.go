package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// link says how the connections of a load reach a broker.
type link struct {
	addr  string
	tls   *tls.Config                             // nil: no TLS
	login func(index int) (name, password string) // of a connection; nil: no login
}

// linkTo returns a link to a broker that uses the caller's token, if there is one.
func linkTo(addr string) link {
	k := link{addr: addr}
	if token := os.Getenv(tokenVariable); token != "" {
		k.login = func(int) (name, password string) { return token, "" }
	}
	return k
}

// dial connects, with TLS if configured.
func (k *link) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if k.tls == nil {
		return dialer.DialContext(ctx, "tcp", k.addr)
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: k.tls}).DialContext(ctx, "tcp", k.addr)
}

// hello is a CONNECT of MQTT 3.1.1 without keepalive.
type hello struct {
	id, name, password string // name and password may be empty
	persistent         bool   // the session, which is a clean one otherwise
	topic              string // of the will, "" for none
	will               []byte // at most 64 KiB
}

// helloOf returns the CONNECT of a connection of a load.
func (k *link) helloOf(id string, index int) hello {
	h := hello{id: id}
	if k.login != nil {
		h.name, h.password = k.login(index)
	}
	return h
}

// encode returns the packet.
func (h *hello) encode() []byte {
	const clean, withWill, withPassword, withName = 0x02, 0x0c, 0x40, 0x80 // the will has QoS 1
	field := func(b []byte, text string) []byte {
		return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	flags := byte(clean)
	if h.persistent {
		flags = 0
	}
	payload := field(nil, h.id)
	if h.topic != "" {
		flags |= withWill
		payload = field(field(payload, h.topic), string(h.will))
	}
	if h.name != "" {
		flags |= withName
		payload = field(payload, h.name)
	}
	if h.password != "" {
		flags |= withPassword
		payload = field(payload, h.password)
	}
	head := append(field(nil, "MQTT"), 4, flags, 0, 0)
	packet := binary.AppendUvarint([]byte{mqttConnect}, uint64(len(head)+len(payload))) // MQTT's varint is the same
	return append(append(packet, head...), payload...)
}

// say sends the CONNECT and reads the answer. It returns the code of a refusal, 0 for none, and
// whether there was a session.
func (h *hello) say(nc net.Conn) (code byte, session bool, err error) {
	if err := nc.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return 0, false, err
	}
	if _, err := nc.Write(h.encode()); err != nil {
		return 0, false, err
	}
	var answer [4]byte
	if _, err := io.ReadFull(nc, answer[:]); err != nil {
		return 0, false, err
	}
	if answer[0] != mqttConnack {
		return 0, false, fmt.Errorf("the broker answered % x", answer)
	}
	return answer[3], answer[2] == 1, nc.SetDeadline(time.Time{})
}

// connect dials and logs in.
func (k *link) connect(ctx context.Context, h *hello) (net.Conn, error) {
	nc, _, err := k.resume(ctx, h)
	return nc, err
}

// resume is connect that reports whether the broker has a session of the client.
func (k *link) resume(ctx context.Context, h *hello) (nc net.Conn, session bool, err error) {
	nc, err = k.dial(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("no MQTT broker at %s: %w; start one with greenroom serve, or name another with --mqtt", k.addr, err)
	}
	code, session, err := h.say(nc)
	if err == nil && code != 0 {
		err = fmt.Errorf("the broker refused the connection with the code %d", code)
	}
	if err != nil {
		_ = nc.Close()
		return nil, false, fmt.Errorf("connect to the MQTT broker at %s: %w", k.addr, err)
	}
	return nc, session, nil
}
