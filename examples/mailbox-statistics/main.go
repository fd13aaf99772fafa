// Mailbox-statistics logs what happens to a mailbox: when its actor starts, when a message is
// posted to it, when one was received, and when it is empty.
//
// A mailbox keeps no log of its own. Middleware is called before a spawn, before a send and
// around the handling of a message, and when as much was received as was posted, the mailbox
// is empty.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// mailboxLogger logs what happens to the mailbox of the actor with the name. It is for
// one whose mailbox refuses nothing, and who sends itself nothing by timers.
type mailboxLogger struct {
	log  *log.Logger
	name string

	mu       sync.Mutex // a message is posted on its sender's goroutine and received on a worker's
	received int
	posted   int
}

// started is a spawning middleware.
func (m *mailboxLogger) started(s actor.Spawning) error {
	if s.Name == m.name {
		m.log.Print("Mailbox started")
	}
	return nil
}

// messagePosted is a sending middleware.
func (m *mailboxLogger) messagePosted(_ context.Context, s *actor.Sending) error {
	if s.To.Path() != "/"+m.name {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted++
	m.log.Printf("Message posted %v", s.Message)
	return nil
}

// messageReceived is a receiving middleware.
func (m *mailboxLogger) messageReceived(_ context.Context, r actor.Reception, next func() error) error {
	err := next()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.received++
	m.log.Printf("Message received %v", r.Message)
	if m.received == m.posted {
		m.log.Print("No more messages")
	}
	return err
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	stats := &mailboxLogger{log: log.New(w, "", 0), name: "logged"}
	system := actor.NewSystem("mailbox-statistics", actor.BeforeSpawn(stats.started), actor.BeforeSend(stats.messagePosted))
	defer system.Shutdown(ctx)

	ref := actor.SpawnFunc(system, "logged", func(*actor.Context[string], string) error { return nil },
		actor.AroundReceive(stats.messageReceived))
	ref.Tell(ctx, "Hello")
}
