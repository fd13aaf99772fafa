package mqtt

import (
	"context"
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
}

func (s *stoppable) View(ctx context.Context, id string, f func(entity.View) error) error {
	if s.armed.CompareAndSwap(true, false) {
		close(s.reached)
		<-s.going
	}
	return s.Runtime.View(ctx, id, f)
}

// A broker that cannot keep up until the log has lost what it should read next makes up for that.
func TestMissedChangesAreMadeUpFor(t *testing.T) {
	t.Parallel()
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
	runtime := &stoppable{Runtime: rt, reached: make(chan struct{}), going: make(chan struct{})}
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	b, err := New(Config{Listener: p, Runtime: runtime, Refusals: refusal.NewCounter(log), Logger: log})
	if err == nil {
		err = b.Serve()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close(context.Background())
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	desire := func(id, patch string) {
		t.Helper()
		if _, err := rt.Edit(t.Context(), id, entity.Edits{Patches: []entity.Patch{{Section: entity.Desired, Body: []byte(patch)}}}); err != nil {
			t.Fatal(err)
		}
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
	runtime.armed.Store(true)
	for i := 0; ; i++ {
		desire("slow", fmt.Sprintf(`{"n":%d}`, i))
		select {
		case <-runtime.reached:
		default:
			continue
		}
		break
	}
	at := store.Info().LastChange
	desire("lamp", `{"on":true,"dim":null}`)
	if err := rt.Delete(t.Context(), "gone", ""); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 20 || store.Info().FirstChange <= at+2; i++ {
		desire("slow", fmt.Sprintf(`{"m":%d}`, i))
		if err := pause.For(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	close(runtime.going)
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
