package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// device is an MQTT client with a persistent session, which sends readings without a time and,
// after it was cut off, what was not acknowledged once more, with DUP and the same packet id.
// Nothing else may tell a message that comes again from another one.
type device struct {
	id, entity  string
	sent, acked int64 // the readings 0, 1, 2 and so on
	kept        int64 // how often the server still had the session of one that was killed
}

// deviceInFlight is how many messages a device sends before the first is acknowledged.
const deviceInFlight = 100

// connect connects and reports whether the server has a session of the device.
func (d *device) connect(ctx context.Context, k *link) (nc net.Conn, session bool, err error) {
	h := k.helloOf(d.id, 0)
	h.persistent = true
	return k.resume(ctx, &h)
}

// send publishes readings until the server is gone, and begun after the first acknowledgement.
func (d *device) send(ctx context.Context, k *link, begun func()) error {
	nc, session, err := d.connect(ctx, k)
	if err != nil {
		return err
	}
	defer nc.Close()
	if session {
		return fmt.Errorf("the broker has a session of %s, which was never there", d.id)
	}
	// A session is kept for its subscriptions, too.
	if _, err := nc.Write(subscription("e/" + d.entity + "/attributes")); err != nil {
		return err
	}
	answers := bufio.NewReader(nc)
	for d.sent < deviceInFlight {
		if err := d.publish(nc, d.sent, false); err != nil {
			return nil // it was killed
		}
		d.sent++
	}
	for d.readAck(answers) == nil {
		begun()
		if d.publish(nc, d.sent, false) != nil {
			break
		}
		d.sent++
	}
	return nil
}

// again connects again and sends what was not acknowledged.
func (d *device) again(ctx context.Context, k *link) error {
	nc, session, err := d.connect(ctx, k)
	if err != nil {
		return err
	}
	defer nc.Close()
	if session {
		d.kept++
	}
	for n := d.acked; n < d.sent; n++ {
		if err := d.publish(nc, n, true); err != nil {
			return err
		}
	}
	for answers := bufio.NewReader(nc); d.acked < d.sent; {
		if err := d.readAck(answers); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) publish(nc net.Conn, n int64, again bool) error {
	packet := []byte{mqttPublish}
	if again {
		packet[0] |= 0x08
	}
	topic, payload := "e/"+d.entity+"/telemetry", `{"sent":`+strconv.FormatInt(n, 10)+`}`
	packet = binary.AppendUvarint(packet, uint64(2+len(topic)+2+len(payload)))
	packet = append(binary.BigEndian.AppendUint16(packet, uint16(len(topic))), topic...)
	packet = append(binary.BigEndian.AppendUint16(packet, packetID(n)), payload...)
	_, err := nc.Write(packet)
	return err
}

// readAck reads the next PUBACK, which must be that of the first message without one.
func (d *device) readAck(in *bufio.Reader) error {
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return err
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return err
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if kind != mqttPuback {
			continue
		}
		if got, want := binary.BigEndian.Uint16(body), packetID(d.acked); got != want {
			return fmt.Errorf("the broker acknowledged the packet %d before %d", got, want)
		}
		d.acked++
		return nil
	}
}

// subscription is a SUBSCRIBE with QoS 1.
func subscription(filter string) []byte {
	packet := binary.AppendUvarint([]byte{mqttSubscribe}, uint64(2+2+len(filter)+1))
	packet = append(packet, 0xff, 0xff) // a packet id that no message has: acknowledged with another packet
	return append(append(binary.BigEndian.AppendUint16(packet, uint16(len(filter))), filter...), 1)
}

// compareSessions has the device come back, and compares the history with what it has sent:
// each reading once, in the order in which they were sent. A killed server has no sessions any
// more and must say so.
func (v *verifier) compareSessions(ctx context.Context, _ int, l *load) (o outcome, err error) {
	d := l.device
	acked := d.acked
	if err := d.again(ctx, &v.child.link); err != nil {
		return o, err
	}
	points, err := v.points(ctx, d.entity, "sent")
	if err != nil {
		return o, err
	}
	there := make([]int64, len(points))
	for i, p := range points {
		there[i] = p.Value
		if i > 0 && there[i] < there[i-1] {
			o.invented++ // an order that was never sent
		}
	}
	all := judge(there, d.sent, d.sent)
	all.acknowledged = acked
	o.invented += d.kept
	o.add(all)
	return o, nil
}
