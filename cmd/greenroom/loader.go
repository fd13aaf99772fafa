package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// loader is one connection of a benchmark: the minimum of MQTT 3.1.1 for publishing with QoS 1. The
// benchmark shares the machine with the server that it measures, and a full client would use more
// CPU than the server.
//
// One goroutine writes, and one reads. Packets are acknowledged in the order of their ids, so sent
// is a ring.
type loader struct {
	shared *benchRun
	index  int
	nc     net.Conn
	out    *bufio.Writer
	tokens chan struct{} // a semaphore for messages in flight
	sent   []time.Time   // when packet n was sent, at n modulo the length; a token separates writer and reader
	buf    []byte
	count  int64        // messages sent
	acked  atomic.Int64 // messages acknowledged, which are the first ones
}

const (
	mqttConnect   = 0x10
	mqttConnack   = 0x20
	mqttPublish   = 0x32 // QoS 1
	mqttPuback    = 0x40
	mqttSubscribe = 0x82
	// benchDrain bounds the wait for the last acknowledgements.
	benchDrain = 30 * time.Second
)

func newLoader(ctx context.Context, r *benchRun, index int) (*loader, error) {
	h := r.link.helloOf("greenroom-bench-"+r.name+strconv.Itoa(index), index)
	nc, err := r.link.connect(ctx, &h)
	if err != nil {
		return nil, err
	}
	return &loader{
		shared: r, index: index, nc: nc, out: bufio.NewWriterSize(nc, 16<<10),
		tokens: make(chan struct{}, r.inFlight), sent: make([]time.Time, r.inFlight),
	}, nil
}

func (l *loader) close() { _ = l.nc.Close() }

// run publishes until ctx ends or all messages are sent, and then waits for the acknowledgements.
func (l *loader) run(ctx context.Context) error {
	read := make(chan error, 1)
	go func() { read <- l.readAcks() }()
	defer context.AfterFunc(ctx, func() { _ = l.nc.SetWriteDeadline(time.Now().Add(benchDrain)) })() // for a server that reads nothing more
	err := l.publishAll(ctx, read)
	if err == nil {
		err = l.drain(read)
	}
	l.close() // ends the reader; with TLS, the server may be the first to close the connection
	if rerr := <-read; err == nil && !errors.Is(rerr, net.ErrClosed) && !errors.Is(rerr, io.EOF) {
		err = fmt.Errorf("read acknowledgements: %w", rerr)
	}
	return err
}

// drain waits until nothing is in flight, by acquiring all tokens.
func (l *loader) drain(read chan error) error {
	timer := time.NewTimer(benchDrain)
	defer timer.Stop()
	for range cap(l.tokens) {
		select {
		case l.tokens <- struct{}{}:
		case err := <-read:
			read <- err
			return fmt.Errorf("wait for acknowledgements: %w", err)
		case <-timer.C:
			return fmt.Errorf("no acknowledgement in %v", benchDrain)
		}
	}
	return nil
}

func (l *loader) publishAll(ctx context.Context, read chan error) error {
	for ctx.Err() == nil && l.count < l.shared.share(l.index) && l.shared.left.Add(-1) >= 0 {
		if err := l.pace(ctx); err != nil {
			break // its time is up
		}
		select {
		case l.tokens <- struct{}{}:
		default: // flush before waiting
			if err := l.out.Flush(); err != nil {
				return err
			}
			select {
			case l.tokens <- struct{}{}:
			case err := <-read:
				read <- err
				return fmt.Errorf("connection lost: %w", err)
			case <-ctx.Done():
				return l.out.Flush() // drain bounds the wait for what is in flight
			}
		}
		l.sent[l.count%int64(len(l.sent))] = time.Now()
		l.encode()
		if _, err := l.out.Write(l.buf); err != nil {
			return err
		}
		l.count++
	}
	return l.out.Flush()
}

// pace waits for the next message's turn if there is a rate.
func (l *loader) pace(ctx context.Context) error {
	r := l.shared
	if r.rate == 0 {
		return nil
	}
	every := float64(time.Second) * float64(r.connections) / r.rate
	due := r.began.Add(time.Duration((float64(l.count) + float64(l.index)/float64(r.connections)) * every))
	wait := time.Until(due)
	if wait <= 0 {
		return nil
	}
	if err := l.out.Flush(); err != nil {
		return err
	}
	return pause.For(ctx, wait)
}

// encode writes the next PUBLISH into buf.
func (l *loader) encode() {
	topic, payload := l.shared.message(l)
	b := l.buf[:0]
	b = append(b, mqttPublish)
	b = binary.AppendUvarint(b, uint64(2+len(topic)+2+len(payload))) // MQTT's varint is the same
	b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	b = append(b, topic...)
	b = binary.BigEndian.AppendUint16(b, packetID(l.count))
	b = append(b, payload...)
	l.buf = b
}

// mine returns how many entities a connection sends for.
func (r *benchRun) mine(index int) int64 {
	return int64((r.entities - index + r.connections - 1) / r.connections)
}

// share returns how many messages a connection may send. Without a bound per connection, fast ones
// would take the messages of slow ones, whose entities would be left out.
func (r *benchRun) share(index int) int64 {
	if r.rounds == 0 {
		return math.MaxInt64
	}
	return r.rounds * r.mine(index)
}

// goRound makes the run send a number of messages for each entity, however long it takes.
func (r *benchRun) goRound(times int64) {
	r.rounds, r.messages, r.duration = times, times*int64(r.entities), benchMaxDuration
}

// entityOf returns the number of the entity of a connection's nth message: the entities of a
// connection take turns.
func (r *benchRun) entityOf(index int, n int64) int {
	return index + int(n%r.mine(index))*r.connections
}

// topicOf returns the topic of an entity.
func topicOf(entity int) []byte {
	topic := strconv.AppendInt([]byte("e/bench-"), int64(entity), 10)
	return append(topic, "/telemetry"...)
}

// meterMessage returns a message with three keys. Each message has its own time.
func meterMessage(l *loader) (topic, payload []byte) {
	r := l.shared
	phase := float64(l.count%3600) / 3600 * 2 * math.Pi
	payload = strconv.AppendInt([]byte(`{"ts":`), r.began.UnixMilli()+l.count, 10)
	payload = strconv.AppendFloat(append(payload, `,"values":{"temperature":`...), 20+3*math.Sin(phase), 'f', 2, 64)
	payload = strconv.AppendFloat(append(payload, `,"humidity":`...), 45+10*math.Cos(phase), 'f', 1, 64)
	payload = strconv.AppendInt(append(payload, `,"battery":`...), 100-l.count%50, 10)
	return topicOf(r.entityOf(l.index, l.count)), append(payload, "}}"...)
}

// packetID returns the id of the nth message: 1 to 65535, cyclically.
func packetID(n int64) uint16 { return uint16(n%math.MaxUint16) + 1 }

// readAcks reads acknowledgements until the connection ends.
func (l *loader) readAcks() error {
	in := bufio.NewReaderSize(l.nc, 4<<10)
	for n := int64(0); ; n++ {
		var ack [4]byte
		if _, err := io.ReadFull(in, ack[:]); err != nil {
			return err
		}
		if ack[0] != mqttPuback || ack[1] != 2 || binary.BigEndian.Uint16(ack[2:]) != packetID(n) {
			return errors.New("an answer that is not the next acknowledgement")
		}
		took := time.Since(l.sent[n%int64(len(l.sent))])
		l.shared.latency.add(took)
		if l.shared.observe != nil {
			l.shared.observe(l, n, took)
		}
		l.acked.Add(1)
		l.shared.acked.Add(1)
		<-l.tokens
	}
}
