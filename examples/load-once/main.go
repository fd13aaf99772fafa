// Load-once shows an actor that stays responsive while something slow goes on: it loads each
// page once, on a goroutine of its own, and answers everyone who asked for it meanwhile.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what the library accepts.
type Msg interface{ msg() }

// Fetch asks for a page, of which there may be none in memory yet.
type Fetch struct {
	actor.Returns[string]
	Name string
}

// Loading asks how many pages are on their way.
type Loading struct{ actor.Returns[int] }

// loaded is the outcome of the slow work.
type loaded struct {
	name, text string
	err        error
}

func (Fetch) msg()   {}
func (Loading) msg() {}
func (loaded) msg()  {}

// Library loads each page once and answers all who asked for it meanwhile.
type Library struct {
	pages   map[string]string
	waiting map[string][]*actor.Promised[string]
}

// NewLibrary returns an empty library.
func NewLibrary() *Library {
	return &Library{pages: map[string]string{}, waiting: map[string][]*actor.Promised[string]{}}
}

// Receive never waits.
func (l *Library) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Fetch:
		if text, ok := l.pages[m.Name]; ok {
			actor.Reply(ctx, m, text)
			return nil
		}
		l.waiting[m.Name] = append(l.waiting[m.Name], actor.Promise(ctx, m))
		if len(l.waiting[m.Name]) == 1 {
			actor.Pipe(ctx,
				func(ctx context.Context) (string, error) { return load(ctx, m.Name) }, // on a goroutine of its own
				func(text string, err error) Msg { return loaded{m.Name, text, err} })
		}
	case Loading:
		actor.Reply(ctx, m, len(l.waiting))
	case loaded:
		for _, p := range l.waiting[m.name] {
			if m.err != nil {
				p.Reject(m.err)
			} else {
				p.Resolve(m.text)
			}
		}
		delete(l.waiting, m.name)
		if m.err == nil {
			l.pages[m.name] = m.text
		}
	}
	return nil
}

var errNoPage = errors.New("no such page")

// load stands for a slow server.
func load(ctx context.Context, name string) (string, error) {
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done(): // the library was stopped
		return "", context.Cause(ctx)
	}
	if name == "page 404" {
		return "", errNoPage
	}
	return "text of " + name, nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("library")
	defer sys.Shutdown(ctx)

	library := actor.Spawn(sys, "library", NewLibrary)
	type result struct {
		text string
		err  error
	}
	first, second := make(chan result, 1), make(chan result, 1)
	for name, to := range map[string]chan result{"page 1": first, "page 404": second} {
		go func() {
			text, err := actor.Ask(ctx, library, Fetch{Name: name})
			to <- result{text, err}
		}()
	}
	<-time.After(100 * time.Millisecond)
	n, err := actor.Ask(ctx, library, Loading{})
	fmt.Fprintln(w, "on their way:", n, err)

	r := <-first
	fmt.Fprintln(w, "page 1:", r.text, r.err)
	r = <-second
	fmt.Fprintln(w, "page 404:", r.err)
	began := time.Now()
	text, err := actor.Ask(ctx, library, Fetch{Name: "page 1"})
	fmt.Fprintln(w, "again:", text, err, "at once:", time.Since(began) < 100*time.Millisecond)
}
