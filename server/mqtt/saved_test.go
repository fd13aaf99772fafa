package mqtt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// keeper is a Keeper in memory that takes so many items and then no more.
type keeper struct {
	items  map[string][]byte
	room   int
	broken string // from which key on it cannot read; "": it can read all
	stuck  bool   // it removes nothing
}

var (
	errNoRoom = errors.New("no room")
	errBroken = errors.New("broken")
)

func (k *keeper) Items(_ context.Context, q entity.ItemsQuery) (list []entity.Item, err error) {
	keys := slices.Sorted(maps.Keys(k.items))
	if q.Descending {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if key >= q.From && (q.To == "" || key < q.To) && len(list) < q.Limit {
			if k.broken != "" && key >= k.broken && key < savedWhole {
				return nil, errBroken
			}
			list = append(list, entity.Item{Kind: q.Kind, Key: key, Body: k.items[key]})
		}
	}
	return list, nil
}

func (k *keeper) PutItems(_ context.Context, items []entity.Item) error {
	for _, it := range items {
		switch {
		case it.Body == nil && k.stuck:
			return errNoRoom
		case it.Body == nil:
			delete(k.items, it.Key)
		case k.room == 0:
			return errNoRoom
		default:
			k.items[it.Key] = slices.Clone(it.Body)
			k.room--
		}
	}
	return nil
}

// recut cuts what is kept into so many pieces, so that there are several pages of little.
func (k *keeper) recut(pieces int) {
	var all []byte
	for _, key := range slices.Sorted(maps.Keys(k.items)) {
		if key != savedWhole {
			all = append(all, k.items[key]...)
			delete(k.items, key)
		}
	}
	n := 0
	for piece := range slices.Chunk(all, (len(all)+pieces-1)/pieces) {
		n++
		k.items[fmt.Sprintf("%08d", n)] = piece
	}
}

// generation is one of several brokers, one after the other.
type generation struct {
	*Broker
	p *pipes
}

// next starts a broker in a bubble. With a broker before it, that one is ended, after it has saved its sessions.
func (g *generation) next(t *testing.T, k *keeper, h *heldRuntime) (saved error) {
	t.Helper()
	if g.Broker != nil {
		saved = g.end(t)
	}
	if err := g.begin(t, k, h); err != nil {
		t.Fatal(err)
	}
	return saved
}

// begin starts a broker where there is none.
func (g *generation) begin(t *testing.T, k *keeper, h *heldRuntime) (served error) {
	t.Helper()
	g.p = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	b, err := New(Config{Listener: g.p, Runtime: h, Refusals: refusal.NewCounter(log), Logger: log, Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	g.Broker = b
	return b.Serve()
}

// end ends the broker, after it has saved its sessions.
func (g *generation) end(t *testing.T) (saved error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	saved = g.Save(ctx)
	g.Close(ctx)
	g.Broker = nil
	return saved
}

func TestASessionGoesOnInTheNextBroker(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var properties []byte
				if version == 5 {
					properties = keepSession
				}
				k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
				_ = g.next(t, k, h)
				defer func() { g.Close(t.Context()) }()
				s := g.p.subscriber(t, version, 0, 1, properties)
				send(t, g.Broker, 1, 0, 3)
				_, ids := s.messages(t, 3)
				s.ack(packets.Puback, ids[0])
				s.begin(version, ids[1], 0)
				s.only(t, packets.Pubrec, ids[1])
				synctest.Wait()
				charged := g.Stats().Queued
				if err := g.next(t, k, h); err != nil {
					t.Fatal(err)
				}
				same(t, "items that are left", len(k.items), 0)
				same(t, "bytes that wait", g.Stats().Queued, charged)
				same(t, "sessions", g.Stats().Sessions, 1)
				same(t, "subscriptions", g.Stats().Subscriptions, 1)
				send(t, g.Broker, 1, 3, 4) // while it is away

				s = g.p.subscriber(t, version, 0, 1, properties)
				synctest.Wait()
				var again []string
				s.mu.Lock()
				for _, pk := range s.got {
					if pk.FixedHeader.Type == packets.Publish {
						again = append(again, string(pk.Payload))
						s.ack(packets.Puback, pk.PacketID)
					}
				}
				s.got = nil
				s.mu.Unlock()
				same(t, "messages of before", again, []string{"1", "2", "3"})
				s.end(ids[1]) // of the exchange
				s.only(t, packets.Pubcomp, ids[1])
				s.nothingLeft(t, g.Broker)
			})
		})
	}
}

func TestWhatWasNotSavedWholeIsNotTakenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		_ = g.p.subscriber(t, 4, 0, 1)
		synctest.Wait()
		if err := g.next(t, k, h); !errors.Is(err, errNoRoom) {
			t.Errorf("saved with %v, want %v", err, errNoRoom)
		}
		same(t, "items that are left", len(k.items), 0)
		same(t, "sessions", g.Stats().Sessions, 0)
	})
}

// However often the server is restarted, a session lasts from when its client went.
func TestASessionEndsInTimeOverRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version    byte
		properties []byte
		lasts      time.Duration
	}{{version: 4, lasts: sessionSeconds * time.Second}, {5, keepSession, 256 * time.Second}} {
		t.Run(fmt.Sprint("version ", c.version), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
				_ = g.next(t, k, h)
				defer func() { g.Close(t.Context()) }()
				s := g.p.subscriber(t, c.version, 0, 1, c.properties)
				_ = s.nc.Close()
				synctest.Wait()
				for _, down := range []time.Duration{c.lasts / 2, c.lasts/2 - time.Minute} {
					if err := g.end(t); err != nil {
						t.Fatal(err)
					}
					time.Sleep(down)
					_ = g.next(t, k, h)
					same(t, "sessions that last", g.Stats().Sessions, 1)
				}
				time.Sleep(2 * time.Minute)
				same(t, "sessions that have ended", g.Stats().Sessions, 0)
				same(t, "subscriptions", g.Stats().Subscriptions, 0)
			})
		})
	}
}

func TestADelayedWillIsSentByTheNextBroker(t *testing.T) {
	t.Parallel()
	delay := []byte{packets.PropWillDelayInterval, 0, 0, 0, 30}
	for _, tt := range []struct {
		name                 string
		gone, back           bool
		down, before, sentBy time.Duration // after the start: not before, and by
	}{
		{name: "a client that was there", down: time.Hour, before: 29 * time.Second, sentBy: 31 * time.Second},
		{name: "one that had gone", gone: true, down: 10 * time.Second, before: 9 * time.Second, sentBy: 11 * time.Second},
		{name: "one that had gone for long", gone: true, down: time.Minute, sentBy: time.Second},
		{name: "one that comes back", back: true, down: time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
				_ = g.next(t, k, h)
				defer func() { g.Close(t.Context()) }()
				c, _ := g.p.dialWithWill(t, "dying", "e/lamp/telemetry", `{"t":1}`, false, delay)
				if tt.gone {
					_ = c.nc.Close()
					synctest.Wait()
					time.Sleep(10 * time.Second)
				}
				if err := g.end(t); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.down)
				synctest.Wait()
				same(t, "readings before the start", h.held(), 0)
				_ = g.next(t, k, h)
				if tt.back {
					g.p.dialWith(t, "dying", 5, 0, keepSession)
					time.Sleep(time.Hour)
					synctest.Wait()
					same(t, "readings of a client that is back", h.held(), 0)
					return
				}
				time.Sleep(tt.before)
				synctest.Wait()
				if tt.before > 0 {
					same(t, "readings before the delay is over", h.held(), 0)
				}
				time.Sleep(tt.sentBy - tt.before)
				synctest.Wait()
				same(t, "readings after the delay", h.held(), 1)
				h.settle(0, nil)
				synctest.Wait()
				same(t, "bytes that wait", g.Stats().Queued, 0)
			})
		})
	}
}

func TestASessionExpiresBetweenTwoBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		_ = g.p.subscriber(t, 5, 0, 1, keepSession)
		synctest.Wait()
		if err := g.end(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		_ = g.next(t, k, h)
		same(t, "sessions", g.Stats().Sessions, 0)
		same(t, "subscriptions", g.Stats().Subscriptions, 0)
	})
}

// keptInPieces has a broker keep the session of a client that is away, with messages that wait for it,
// and returns how many bytes wait.
func (g *generation) keptInPieces(t *testing.T, k *keeper, h *heldRuntime) (waiting int64) {
	t.Helper()
	_ = g.next(t, k, h)
	_ = g.p.subscriber(t, 4, 0, 1).nc.Close()
	synctest.Wait()
	for i := range 40 {
		g.publish("e/a/telemetry", fmt.Append(nil, i), 1)
	}
	waiting = g.Stats().Queued
	if err := g.end(t); err != nil {
		t.Fatal(err)
	}
	k.recut(2*savedPage + 2)
	return waiting
}

func TestWhatCouldNotBeReadStaysAsItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		waiting := g.keptInPieces(t, k, h)
		before := maps.Clone(k.items)
		k.broken = fmt.Sprintf("%08d", savedPage+1)
		if err := g.begin(t, k, h); !errors.Is(err, errBroken) {
			t.Errorf("served with %v, want %v", err, errBroken)
		}
		if err := g.end(t); err != nil {
			t.Errorf("saved with %v", err)
		}
		if !maps.EqualFunc(k.items, before, bytes.Equal) {
			t.Errorf("items are not what they were, but %v", slices.Sorted(maps.Keys(k.items)))
		}
		k.broken = ""
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		same(t, "bytes that wait", g.Stats().Queued, waiting)
	})
}

func TestWhatCouldNotBeRemovedIsNotMixedWithWhatIsSavedNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		waiting := g.keptInPieces(t, k, h)
		before := maps.Clone(k.items)
		k.stuck = true
		_ = g.next(t, k, h)
		same(t, "bytes that wait", g.Stats().Queued, waiting)
		if err := g.next(t, k, h); !errors.Is(err, errNoRoom) {
			t.Errorf("saved with %v, want %v", err, errNoRoom)
		}
		if !maps.EqualFunc(k.items, before, bytes.Equal) {
			t.Errorf("items are not what they were, but %v", slices.Sorted(maps.Keys(k.items)))
		}
		k.stuck = false
		if err := g.next(t, k, h); err != nil {
			t.Fatal(err)
		}
		defer func() { g.Close(t.Context()) }()
		same(t, "bytes that wait", g.Stats().Queued, waiting)
		same(t, "items that are left", len(k.items), 0)
	})
}

// One delivery that is not answered does not cost all their sessions.
func TestSaveDoesNotWaitForAnAnswerForAllOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		_ = g.p.subscriber(t, 4, 0, 1)
		g.p.dial(t, "sensor", 4).publish(4, 1, `{"t":1}`)
		synctest.Wait()
		if err := g.next(t, k, h); err != nil {
			t.Error(err)
		}
		same(t, "sessions", g.Stats().Sessions, 1)
	})
}

// What was saved in many pieces is gone when the next broker serves, and a second restart has it once.
func TestManyPiecesAreReadAndRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		s := g.p.subscriber(t, 4, 0, 1)
		_ = s.nc.Close()
		synctest.Wait()
		large := make([]byte, 100<<10)
		for range 70 {
			g.publish("e/a/telemetry", large, 1)
		}
		waiting := g.Stats().Queued
		for range 2 {
			if err := g.next(t, k, h); err != nil {
				t.Fatal(err)
			}
			same(t, "items that are left", len(k.items), 0)
			same(t, "bytes that wait", g.Stats().Queued, waiting)
		}
		if pieces := 1000 - k.room; pieces < 2*savedPage {
			t.Errorf("%d pieces are too few for the test", pieces)
		}
	})
}

// When a message was retained is known to the millisecond; to the second if an earlier version has
// saved it.
func TestTheTimeOfARetainedMessageIsSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const topic = "e/a/telemetry"
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		time.Sleep(1234 * time.Millisecond)
		at := time.Now().UnixMilli()
		g.forward(&packets.Packet{FixedHeader: packets.FixedHeader{Retain: true}, TopicName: topic, Payload: []byte("{}")})
		same(t, "when it was retained", g.retainers.published(topic), at)
		time.Sleep(1500 * time.Millisecond)
		if err := g.next(t, k, h); err != nil {
			t.Fatal(err)
		}
		same(t, "when it was retained, in the next broker", g.retainers.published(topic), at)

		pk, ok := g.server.Topics.Retained.Get(topic)
		same(t, "it is retained", ok, true)
		same(t, "the end of its second", latestOf(&pk), at/1000*1000+999)
		pk.Created += endless
		same(t, "the end of its second, without expiry", latestOf(&pk), at/1000*1000+999)
	})
}

func TestASavedMessageIsWhatItWas(t *testing.T) {
	t.Parallel()
	want := packets.Packet{
		FixedHeader:     packets.FixedHeader{Type: packets.Publish, Qos: 2, Dup: true, Retain: true, Remaining: 7},
		ProtocolVersion: 5, PacketID: 8, TopicName: "e/a/telemetry", Payload: []byte("x"), Origin: "sensor", Created: 9, Expiry: 10,
		Properties: packets.Properties{
			PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 11, ContentType: "text", ResponseTopic: "back",
			CorrelationData: []byte("y"), SubscriptionIdentifier: []int{12}, User: []packets.UserProperty{{Key: "k", Val: "v"}},
		},
	}
	text, err := json.Marshal(savedMessageOf(&want))
	if err != nil {
		t.Fatal(err)
	}
	var m savedMessage
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	same(t, "the message", m.packet(), want)
}
