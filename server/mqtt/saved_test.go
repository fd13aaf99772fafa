package mqtt

import (
	"context"
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
	items map[string][]byte
	room  int
}

var errNoRoom = errors.New("no room")

func (k *keeper) Items(_ context.Context, q entity.ItemsQuery) (list []entity.Item, err error) {
	for _, key := range slices.Sorted(maps.Keys(k.items)) {
		if key >= q.From && (q.To == "" || key < q.To) && len(list) < q.Limit {
			list = append(list, entity.Item{Kind: q.Kind, Key: key, Body: k.items[key]})
		}
	}
	return list, nil
}

func (k *keeper) PutItems(_ context.Context, items []entity.Item) error {
	for _, it := range items {
		switch {
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

// generation is one of several brokers, one after the other.
type generation struct {
	*Broker
	p *pipes
}

// next starts a broker in a bubble. With a broker before it, that one is ended, after it has saved its sessions.
func (g *generation) next(t *testing.T, k *keeper, h *heldRuntime) (saved error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if g.Broker != nil {
		saved = g.Save(ctx)
		g.Close(ctx)
	}
	g.p = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	b, err := New(Config{Listener: g.p, Runtime: h, Refusals: refusal.NewCounter(log), Logger: log, Keeper: k})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(); err != nil {
		t.Fatal(err)
	}
	g.Broker = b
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

func TestASessionExpiresBetweenTwoBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, h, g := &keeper{items: map[string][]byte{}, room: 1000}, &heldRuntime{}, &generation{}
		_ = g.next(t, k, h)
		defer func() { g.Close(t.Context()) }()
		_ = g.p.subscriber(t, 5, 0, 1, keepSession)
		synctest.Wait()
		if err := g.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Close(t.Context())
		time.Sleep(25 * time.Hour)
		g.Broker = nil
		_ = g.next(t, k, h)
		same(t, "sessions", g.Stats().Sessions, 0)
		same(t, "subscriptions", g.Stats().Subscriptions, 0)
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
