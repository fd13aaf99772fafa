package mqtt

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/server/refusal"
)

func TestTheLengthsOfPacketsAreReadInParts(t *testing.T) {
	t.Parallel()
	type stop struct{ at, length int }
	var all []byte
	var want []stop
	for _, length := range []int{0, 127, 128, smallPacket, smallPacket + 1, maxConnectBytes, 0, 1 << 20, 5} {
		all = binary.AppendUvarint(append(all, 0x30), uint64(length))
		if length > smallPacket {
			want = append(want, stop{len(all) - 1, length})
		}
		all = append(all, make([]byte, length)...)
	}
	for _, step := range []int{1, 2, 3, 1000, len(all)} {
		var f frames
		var got []stop
		for from := 0; from < len(all); {
			at, large := f.next(all[from:min(from+step, len(all))])
			from += at
			if large > 0 {
				got = append(got, stop{from, int(large)})
				f.begin(large)
				from++
			}
		}
		if !slices.Equal(got, want) || f.left != 0 || f.header != 0 {
			t.Errorf("in steps of %d: %v and %+v, want %v", step, got, f, want)
		}
	}
}

func TestALongConnectIsRefusedOnceItsLengthIsKnown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		c := p.connect(t)
		if _, err := c.nc.Write(binary.AppendUvarint([]byte{0x10}, maxConnectBytes+1)); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, c.nc); err != nil || n > 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
		same(t, "refused", b.refusals.Counts(), map[refusal.Key]uint64{{Source: refusal.MQTT, Cause: refusal.CausePacketSize}: 1})
	})
}

// Many connections that begin a packet and do not end it took a megabyte each.
func TestPacketsThatDoNotEndAreBoundedTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		const size, room = 1 << 20, 8 << 20
		b.intake = intake.New(room)
		const length = size - 10
		var stuck []*rawClient
		began := time.Now()
		for i := range 10 {
			c := p.dial(t, fmt.Sprint("stuck-", i), 5)
			go func() {
				_, _ = c.nc.Write(append(binary.AppendUvarint([]byte{0x32}, length), make([]byte, length/2)...)) // it is ended in the middle
			}()
			stuck = append(stuck, c)
			synctest.Wait()
		}
		if used := b.intake.Used(); used == 0 || used > room/2 {
			t.Errorf("%d bytes are used, want at most half of %d", used, room)
		}
		small := p.dial(t, "small", 5)
		small.publish(5, 1, `{"t":1}`)
		synctest.Wait()
		same(t, "small messages that are taken", h.held(), 1)
		for _, c := range stuck { // all are ended, those that have room and those that wait for it
			_, _ = io.Copy(io.Discard, c.nc)
		}
		if took := time.Since(began); took > intakePatience*2+length/slowBytes*time.Second {
			t.Errorf("they were ended after %v", took)
		}
		synctest.Wait()
		same(t, "bytes that are used", b.intake.Used(), 0)

		whole := p.dial(t, "whole", 5)
		text := slices.Repeat([]byte("x"), 10_000)
		for id := range uint16(20) { // the next one has its room only when the last one is handled
			whole.publish(5, id+1, `{"t":"`+string(text)+`"}`)
		}
		synctest.Wait()
		same(t, "messages that are taken", h.held(), 21)
	})
}

// The beginning of the next packet, in the segment in which the large one ended, kept its room.
func TestALargePacketKeepsNoRoomAfterItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "sensor", 4)
		write := func(bytes []byte) {
			t.Helper()
			if _, err := c.nc.Write(bytes); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		topic := append([]byte{0, 13}, "e/x/telemetry"...)
		large := packet(0x30, append(topic, `{"t":"`+strings.Repeat("x", 50_000)+`"}`...))
		small := packet(0x30, append(topic, `{"t":1}`...))
		for _, begun := range []int{0, 1, 2, 10, len(small) - 1} {
			write(large[:len(large)-100])
			if b.intake.Used() == 0 {
				t.Error("a large packet has no room while it is on its way")
			}
			before := h.held()
			write(slices.Concat(large[len(large)-100:], small[:begun]))
			same(t, "messages that are taken", h.held()-before, 1)
			same(t, fmt.Sprintf("bytes that are used when %d bytes of the next packet are there", begun), b.intake.Used(), 0)
			if begun > 0 {
				write(small[begun:])
			}
		}
	})
}

// They shared the room with everybody, so that strangers could keep out those who had logged in.
func TestALargeConnectUsesTheRoomOfStrangers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		c := p.connect(t)
		go func() {
			_, _ = c.nc.Write(append(binary.AppendUvarint([]byte{0x10}, maxConnectBytes), make([]byte, 100)...))
		}()
		synctest.Wait()
		same(t, "bytes that are used", b.intake.Used(), 0)
		same(t, "bytes that strangers use", b.strangers.Used(), maxConnectBytes)
		_, _ = io.Copy(io.Discard, c.nc) // until connectTimeout
		synctest.Wait()
		same(t, "bytes that strangers use", b.strangers.Used(), 0)
	})
}
