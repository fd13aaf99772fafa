package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// stoppable is a runtime whose View waits, once, until the test lets it go on.
type stoppable struct {
	*entity.Runtime
	armed          atomic.Bool
	reached, going chan struct{}
	scan           func(ctx context.Context, do func() error) error // in place of Scan, if not nil
}

func (s *stoppable) Scan(ctx context.Context, q entity.ListQuery, f func(entity.View) bool) error {
	do := func() error { return s.Runtime.Scan(ctx, q, f) }
	if s.scan != nil {
		return s.scan(ctx, do)
	}
	return do()
}

func (s *stoppable) View(ctx context.Context, id string, f func(entity.View) error) error {
	if s.armed.CompareAndSwap(true, false) {
		close(s.reached)
		<-s.going
	}
	return s.Runtime.View(ctx, id, f)
}

// openStoppable opens a runtime whose log keeps few changes.
func openStoppable(t *testing.T) (*stoppable, *sqlite.Store) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{ChangeLogBytes: 1, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	sys := actor.NewSystem("missed", actor.WithLogger(log))
	rt, err := entity.Open(t.Context(), sys, store, entity.Config{StreamBuffer: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &stoppable{Runtime: rt, reached: make(chan struct{}), going: make(chan struct{})}, store
}

// broker starts a broker whose previous one has ended at a place.
func (s *stoppable) broker(t *testing.T, place string, at int64) (*Broker, *pipes) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	b, err := New(Config{Listener: p, Runtime: s, Refusals: refusal.NewCounter(log), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if b.shadow.place, b.shadow.at = place, at; place != "" {
		b.shadow.want()
	}
	if err := b.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b, p
}

func (s *stoppable) desire(t *testing.T, id, patch string) {
	t.Helper()
	if _, err := s.Edit(t.Context(), id, entity.Edits{Patches: []entity.Patch{{Section: entity.Desired, Body: []byte(patch)}}}); err != nil {
		t.Fatal(err)
	}
}

// stall makes the broker stay at a change of an entity, and returns the last change.
func (s *stoppable) stall(t *testing.T, store *sqlite.Store) (at uint64) {
	t.Helper()
	s.armed.Store(true)
	for i := 0; ; i++ {
		s.desire(t, "slow", fmt.Sprintf(`{"n":%d}`, i))
		select {
		case <-s.reached:
			return store.Info().LastChange
		default:
		}
	}
}

// outrun lets the broker go on when the log has lost what follows a change.
func (s *stoppable) outrun(t *testing.T, store *sqlite.Store, at uint64) {
	t.Helper()
	for i := 0; i < 20 || store.Info().FirstChange <= at+2; i++ {
		s.desire(t, "slow", fmt.Sprintf(`{"m":%d}`, i))
		if err := pause.For(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	close(s.going)
}

// subscribeDesired connects a client that subscribes to what all entities should be.
func (p *pipes) subscribeDesired(t *testing.T) *rawClient {
	t.Helper()
	c := p.dial(t, "device", 4)
	c.write(0x82, []byte("\x00\x01\x00\x0be/+/desired\x00"))
	if kind, body := c.read(); kind != 0x90 {
		t.Fatalf("%x % x", kind, body)
	}
	return c
}

// A broker that cannot keep up until the log has lost what it should read next makes up for that.
func TestMissedChangesAreMadeUpFor(t *testing.T) {
	t.Parallel()
	runtime, store := openStoppable(t)
	b, p := runtime.broker(t, "", 0)
	desire := func(id, patch string) {
		t.Helper()
		runtime.desire(t, id, patch)
	}
	desire("lamp", `{"on":false,"dim":5}`)
	for _, id := range []string{"lamp", "gone"} {
		desire(id, `{"x":1}`)
		b.forward(&packets.Packet{FixedHeader: packets.FixedHeader{Retain: true}, TopicName: "e/" + id + "/telemetry", Payload: []byte(`{"t":1}`)})
	}
	c := p.dial(t, "device", 4)
	for i, filter := range []string{"e/lamp/delta", "e/gone/desired", "e/+/desired"} {
		c.write(0x82, append([]byte{0, byte(i + 1), 0, byte(len(filter))}, append([]byte(filter), 0)...))
		if kind, body := c.read(); kind != 0x90 {
			t.Fatalf("%x % x", kind, body)
		}
		if i < 2 {
			c.read() // the present document
		}
	}
	// From here on the broker follows, and stays at a change of an entity.
	at := runtime.stall(t, store)
	desire("lamp", `{"on":true,"dim":null}`)
	if err := runtime.Delete(t.Context(), "gone", ""); err != nil {
		t.Fatal(err)
	}
	runtime.outrun(t, store, at)
	want := map[string]bool{`e/lamp/desired {"on":true,"x":1}`: true, `e/lamp/delta {"on":true,"x":1}`: true, "e/gone/desired {}": true}
	for len(want) > 0 {
		kind, body := c.read()
		if kind&0xf0 != 0x30 {
			t.Fatalf("%x % x", kind, body)
		}
		delete(want, string(body[2:2+body[1]])+" "+string(body[2+body[1]:]))
	}
	same(t, "what is retained of the deleted one", isRetained(b, "e/gone/telemetry"), false)
	same(t, "what is retained of the other", isRetained(b, "e/lamp/telemetry"), true)
}

// What could not be made up for is left to the next broker.
func TestMissedChangesAreMadeUpForByTheNextBroker(t *testing.T) {
	t.Parallel()
	for name, scan := range map[string]func(context.Context, func() error) error{
		"the store fails":  func(context.Context, func() error) error { return errBroken },
		"the broker stops": func(ctx context.Context, do func() error) error { <-ctx.Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtime, _ := openStoppable(t)
			scanned := make(chan struct{}, 1)
			runtime.scan = func(ctx context.Context, do func() error) error {
				scanned <- struct{}{}
				return scan(ctx, do)
			}
			const place, at = "other-1", 5
			b, p := runtime.broker(t, place, at)
			<-scanned
			c := p.subscribeDesired(t)
			runtime.desire(t, "lamp", `{"on":true}`)
			if name == "the store fails" {
				c.read() // it continues with the next changes
			}
			b.Close(t.Context())
			same(t, "place", b.shadow.place, place)
			same(t, "time of the last change", b.shadow.at, at)

			runtime.scan = func(_ context.Context, do func() error) error {
				defer func() { scanned <- struct{}{} }()
				return do()
			}
			b, p = runtime.broker(t, place, at)
			<-scanned
			c = p.subscribeDesired(t)
			runtime.desire(t, "lamp", `{"on":false}`)
			c.read()
			b.Close(t.Context())
			if b.shadow.place == place || b.shadow.at == at {
				t.Errorf("the next broker has ended at %q, %d", b.shadow.place, b.shadow.at)
			}
		})
	}
}

// So is what a broker has missed while it was running.
func TestChangesMissedWhileRunningAreMadeUpForByTheNextBroker(t *testing.T) {
	t.Parallel()
	runtime, store := openStoppable(t)
	scanned := make(chan struct{}, 100)
	runtime.scan = func(context.Context, func() error) error {
		scanned <- struct{}{}
		return errBroken
	}
	b, p := runtime.broker(t, "", 0)
	p.subscribeDesired(t)
	runtime.outrun(t, store, runtime.stall(t, store))
	<-scanned
	b.Close(t.Context())
	changes, err := runtime.Follow(t.Context(), entity.ChangesQuery{Cursor: b.shadow.place, Edits: true})
	if err == nil {
		changes.Close()
	}
	if b.shadow.place == "" || !errors.Is(err, entity.ErrCursorExpired) {
		t.Errorf("the next broker begins at %q: %v", b.shadow.place, err)
	}
}
