// Chat is a server and clients in terminals:
//
//	chat -listen 127.0.0.1:7400
//	chat -server 127.0.0.1:7400 -nick ann
//
// What somebody types goes to all the others. /nick gives one another name, /who says who is here, and
// the end of the input leaves. The server watches the actors of its clients: it hears of those that
// leave, and of those that are killed or cut off, once they have been away for longer than -resume.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// request is what the server is told, and asked. Who it is from is the sender.
type request interface{ request() }

type (
	join struct {
		actor.Returns[[]string] // who is here
		Client                  actor.Ref[news]
		Nick                    string
	}
	rename struct {
		actor.Returns[string] // the former name
		Nick                  string
	}
	who struct{ actor.Returns[[]string] }
	say struct{ Text string }

	left struct{ actor.Down } // the server's own
)

// news is what a client is told.
type news interface{ news() }

type (
	said struct{ Nick, Text string }
	note struct{ Text string }

	line   struct{ Text string } // the client's own: somebody has typed it
	closed struct{ why error }   // the client's own: the server has ended
)

func (join) request()   {}
func (rename) request() {}
func (who) request()    {}
func (say) request()    {}
func (left) request()   {}
func (said) news()      {}
func (note) news()      {}
func (line) news()      {}
func (closed) news()    {}

var errTaken = errors.New("somebody has that name")

// types are the names of what goes between the nodes.
var types = codec.NewTypes(
	codec.Of[join]("chat.join"), codec.Of[rename]("chat.rename"), codec.Of[who]("chat.who"), codec.Of[say]("chat.say"),
	codec.Of[said]("chat.said"), codec.Of[note]("chat.note"), codec.Sentinel("chat.taken", errTaken),
)

// guest is somebody who is here.
type guest struct {
	client actor.Ref[news]
	nick   string
}

// room is the server's actor.
type room struct{ guests []*guest }

func newRoom() *room { return &room{} }

func (r *room) Receive(ctx *actor.Context[request], m request) error {
	switch m := m.(type) {
	case join:
		if r.named(m.Nick) != nil {
			return actor.Refuse(ctx, errTaken)
		}
		r.tell(ctx, nil, note{m.Nick + " is here"})
		r.guests = append(r.guests, &guest{m.Client, m.Nick})
		ctx.Watch(m.Client.PID(), func(d actor.Down) request { return left{d} })
		actor.Reply(ctx, m, r.names())
	case rename:
		g := r.of(ctx.Sender())
		if g == nil || r.named(m.Nick) != nil {
			return actor.Refuse(ctx, errTaken)
		}
		former := g.nick
		g.nick = m.Nick
		r.tell(ctx, g, note{former + " is " + g.nick + " now"})
		actor.Reply(ctx, m, former)
	case who:
		actor.Reply(ctx, m, r.names())
	case say:
		if g := r.of(ctx.Sender()); g != nil {
			r.tell(ctx, g, said{g.nick, m.Text})
		}
	case left:
		if g := r.of(m.PID); g != nil {
			r.guests = slices.DeleteFunc(r.guests, func(other *guest) bool { return other == g })
			r.tell(ctx, nil, note{fmt.Sprintf("%s has left: %s", g.nick, m.Reason)})
		}
	}
	return nil
}

// tell tells all but one.
func (r *room) tell(ctx context.Context, but *guest, n news) {
	for _, g := range r.guests {
		if g != but {
			g.client.Tell(ctx, n)
		}
	}
}

func (r *room) of(client actor.PID) *guest {
	return r.find(func(g *guest) bool { return g.client.PID() == client })
}

func (r *room) named(nick string) *guest {
	return r.find(func(g *guest) bool { return g.nick == nick })
}

func (r *room) find(is func(*guest) bool) *guest {
	if i := slices.IndexFunc(r.guests, is); i >= 0 {
		return r.guests[i]
	}
	return nil
}

func (r *room) names() (nicks []string) {
	for _, g := range r.guests {
		nicks = append(nicks, g.nick)
	}
	return nicks
}

// client is the actor of a terminal.
type client struct {
	room actor.Ref[request]
	nick string
	out  io.Writer
	end  func(error) // says why there is nothing more to do
}

// Init implements actor.Initializer.
func (c *client) Init(ctx *actor.Context[news]) error {
	ctx.Watch(c.room.PID(), func(d actor.Down) news {
		return closed{fmt.Errorf("the server has ended: %s", d.Reason)}
	})
	here, err := actor.Ask(ctx, c.room, join{Client: ctx.Self(), Nick: c.nick})
	if err != nil {
		c.end(fmt.Errorf("join as %s: %w", c.nick, err))
		return nil
	}
	fmt.Fprintln(c.out, "here:", strings.Join(here, ", "))
	return nil
}

func (c *client) Receive(ctx *actor.Context[news], n news) error {
	switch n := n.(type) {
	case said:
		fmt.Fprintf(c.out, "%s: %s\n", n.Nick, n.Text)
	case note:
		fmt.Fprintln(c.out, n.Text)
	case closed:
		c.end(n.why)
	case line:
		c.typed(ctx, n.Text)
	}
	return nil
}

// typed does what somebody has typed.
func (c *client) typed(ctx *actor.Context[news], text string) {
	switch nick, isNick := strings.CutPrefix(text, "/nick "); {
	case isNick:
		if former, err := actor.Ask(ctx, c.room, rename{Nick: nick}); err != nil {
			fmt.Fprintln(c.out, "not renamed:", err)
		} else {
			fmt.Fprintf(c.out, "%s is %s now\n", former, nick)
		}
	case text == "/who":
		here, err := actor.Ask(ctx, c.room, who{})
		if err != nil {
			fmt.Fprintln(c.out, err)
			return
		}
		fmt.Fprintln(c.out, "here:", strings.Join(here, ", "))
	case text != "":
		c.room.Tell(ctx, say{text})
	}
}

func main() {
	listen := flag.String("listen", "", "be the server, at this address")
	server := flag.String("server", "", "be a client of the server at this address")
	nick := flag.String("nick", "somebody", "the client's name")
	resume := flag.Duration("resume", 10*time.Second, "how long the other end may be away")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	config := remote.Config{Types: types, Secret: os.Getenv("CHAT_SECRET"), ResumeWithin: *resume}
	var err error
	if *listen != "" {
		config.Addr = *listen
		err = serve(ctx, os.Stdout, config)
	} else {
		config.Peers = map[string]string{"server": *server}
		err = chat(ctx, os.Stdin, os.Stdout, *nick, config)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is the server. It ends with ctx.
func serve(ctx context.Context, out io.Writer, c remote.Config) error {
	sys := actor.NewSystem("server", actor.WithLogger(slog.New(slog.DiscardHandler)))
	actor.Spawn[request](sys, "room", newRoom)
	node, err := remote.Listen(sys, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "the server listens at", node.Addr())
	<-ctx.Done()
	_, err = sys.Shutdown(context.Background())
	return err
}

// chat is a client. It ends with its input, with ctx and with the server.
func chat(ctx context.Context, in io.Reader, out io.Writer, nick string, c remote.Config) error {
	// The name of a node is its own in the cluster, whatever somebody calls oneself.
	sys := actor.NewSystem(fmt.Sprintf("client-%d-%d", os.Getpid(), time.Now().UnixNano()), actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	node, err := remote.Listen(sys, c)
	if err != nil {
		return err
	}
	room, err := remote.Find[request](ctx, node, "server", "/room")
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	terminal := actor.Spawn[news](sys, "terminal", func() *client { return &client{room, nick, out, end} })
	go func() { end(read(ctx, in, terminal)) }()
	<-ctx.Done()
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}

// maxLine is how many bytes a line may have.
const maxLine = 64 << 10

// read tells the terminal each line, until the input ends.
func read(ctx context.Context, in io.Reader, terminal actor.Ref[news]) error {
	lines := bufio.NewReaderSize(in, maxLine+1) // with its end
	for {
		text, more, err := lines.ReadLine()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		case !more && len(text) <= maxLine:
			terminal.Tell(ctx, line{string(text)})
			continue
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
		terminal.Tell(ctx, note{fmt.Sprintf("not sent: a line must have at most %d bytes", maxLine)})
	}
}
