package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/internal/nodecert"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// peer runs a session: one goroutine for its timers, one that dials while there is no
// connection, and two for each connection.
type peer struct {
	t   *Transport
	s   *session.Session
	due chan struct{} // Tick is to be called

	ctx    context.Context //nolint:containedctx // ends the dial when the session is lost
	cancel context.CancelFunc

	// mu is held while a connection becomes the session's.
	mu   sync.Mutex
	link atomic.Pointer[link] // the last one

	// These belong to run.
	dialing  chan struct{} // closed when a dial has ended; nil: none
	redialAt time.Time
	backoff  time.Duration

	refused int // dials one after the other that were refused; belongs to the one dial there is at a time
}

// refusals is how many dials must be refused for a node that closes to take its peer for ended.
const refusals = 2

// run calls Tick when it is due, dials, and settles the session when it is lost.
func (p *peer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := p.s.Tick(time.Now())
		l := p.link.Load()
		left := l != nil && !p.s.Has(l.c)
		state, err := p.s.State() // after the look, so that it says why the session does not have the connection
		if left {
			l.leave(err)
		}
		if state == session.Lost {
			p.settle(err)
			return
		}
		if at := p.dial(state); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if next.IsZero() {
			next = time.Now().Add(time.Hour)
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-p.due:
		case <-p.dialing:
			p.dialing = nil
			p.redialAt = time.Now().Add(p.wait())
		}
	}
}

// settle reports the loss when nobody reads any more.
func (p *peer) settle(err error) {
	p.cancel()
	p.mu.Lock()
	if l := p.link.Load(); l != nil {
		l.leave(err)
		l.goroutines.Wait()
	}
	p.mu.Unlock()
	if p.dialing != nil {
		<-p.dialing
	}
	p.t.config.Log.Info("a node is lost", slog.String("node", p.s.Peer()), slog.Any("error", err))
	defer p.t.forget(p.s)
	p.guard(func() { p.t.host.Settle(p.s) })
}

// guard runs what calls a Handler, which runs decoders of users on what a peer has sent. It ends
// their panics, and loses the session: also when they end the goroutine, since what was being
// handled must not be handled again.
func (p *peer) guard(handle func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r := recover()
		if r == nil {
			r = "runtime.Goexit was called"
		}
		p.t.config.Log.Error("what a node has sent made a handler panic", slog.String("node", p.s.Peer()),
			slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
		p.s.Lose(fmt.Errorf("%w: %v", ErrPanic, r))
	}()
	handle()
	returned = true
}

// wait returns how long to wait before the next dial: twice as long each time, up to a
// limit, with jitter.
func (p *peer) wait() time.Duration {
	if state, _ := p.s.State(); state == session.Open {
		p.backoff = 0
		return 0
	}
	p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
	return p.backoff/2 + rand.N(p.backoff)
}

// dial starts to dial where there is no connection, and returns when to look again.
func (p *peer) dial(state session.State) (again time.Time) {
	switch {
	case state == session.Open:
		p.backoff, p.redialAt = 0, time.Time{}
		return time.Time{}
	case p.dialing != nil:
		return time.Time{}
	case time.Now().Before(p.redialAt):
		return p.redialAt
	}
	addr, ok := p.t.config.Resolve(p.s.Peer())
	if !ok {
		p.redialAt = time.Now().Add(p.wait())
		return p.redialAt
	}
	ended := make(chan struct{})
	p.dialing = ended
	p.t.tasks.Go(func() {
		defer close(ended)
		if err := p.connect(addr); err != nil {
			p.t.count(err)
			p.t.config.Log.Debug("a node is not reached", slog.String("node", p.s.Peer()), slog.String("addr", addr), slog.Any("error", err))
		}
	})
	return time.Time{}
}

// connect makes a connection and gives it to the session.
func (p *peer) connect(addr string) error {
	ctx, cancel := context.WithTimeout(p.ctx, DialTimeout)
	defer cancel()
	conn, err := p.t.config.Dial(ctx, addr)
	if err != nil {
		err = fmt.Errorf("dial: %w", err)
		p.s.Fault(nil, err)
		p.refuses(errors.Is(err, syscall.ECONNREFUSED))
		return err
	}
	p.refused = 0
	ctx, cancel = context.WithTimeout(p.ctx, HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	secured, err := p.t.security.secure(ctx, conn, true)
	if err == nil {
		err = p.introduce(secured, stop)
	} else {
		p.s.Fault(nil, err)
	}
	if err != nil {
		stop()
		_ = conn.Close()
	}
	return err
}

// refuses notes whether a dial was refused. A node that closes does not wait for a peer whose process has
// ended: whoever is at that address next is another incarnation, and is not sent what was for this one.
func (p *peer) refuses(is bool) {
	p.refused++
	if !is {
		p.refused = 0
	}
	if p.refused >= refusals && p.t.isClosed() {
		p.s.Lose(fmt.Errorf("%w: its address refuses connections", session.ErrExpired))
	}
}

// introduce exchanges hellos on a connection that was dialed, and gives it to the session.
func (p *peer) introduce(conn net.Conn, stop func() bool) error {
	call := p.call()
	if call == nil {
		return errors.New("the session has a connection")
	}
	var frames wire.Splitter
	answer, err := p.exchange(conn, call.Hello, &frames)
	if err != nil {
		p.s.Fault(call, err)
		refuse(conn, err)
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.s.Greet(call, &answer.hello, time.Now())
	if err != nil {
		refuse(conn, err)
		return err
	}
	if !stop() {
		p.s.Break(c, p.ctx.Err(), time.Now())
		return p.ctx.Err()
	}
	p.attach(conn, c, &frames, nil)
	return nil
}

// call begins a call where there is no connection, nil if there is one. A session is opened
// only with mu held, so one that is found without a connection stays so until the last one
// is joined: the hello then says of all that was read that it has taken effect. One that
// breaks after the look is dialed again.
func (p *peer) call() *session.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state, _ := p.s.State(); state == session.Open || state == session.Lost {
		return nil
	}
	p.detach()
	return p.s.Dial(time.Now())
}

func (p *peer) exchange(conn net.Conn, hello wire.Hello, frames *wire.Splitter) (greeting, error) {
	first, err := p.t.security.greet(conn, hello, nil)
	if err != nil {
		return greeting{}, err
	}
	if _, err := conn.Write(first.frames()); err != nil {
		return greeting{}, fmt.Errorf("write the hello: %w", err)
	}
	answer, err := readGreeting(conn, frames)
	if theirs, ok := errors.AsType[*refusedError](err); ok {
		by := nodecert.Node{Cluster: hello.Cluster, Name: p.s.Peer()}
		theirs.proved = p.t.security.refusedBy(conn, by, &first, theirs.body, frames)
	}
	if err != nil {
		return greeting{}, err
	}
	return answer, p.t.security.meet(conn, answer, &first)
}

// attach runs a connection of the session; first is what is written first. mu is held.
func (p *peer) attach(conn net.Conn, c *session.Conn, frames *wire.Splitter, first []byte) {
	l := &link{p: p, conn: conn, c: c, first: first, wake: make(chan struct{}, 1), stop: make(chan struct{}), read: make(chan struct{})}
	frames.Limit(p.t.frame)
	p.link.Store(l)
	l.goroutines.Go(func() {
		defer close(l.read)
		p.guard(func() { l.readAll(frames) })
		if !l.givenUp() {
			l.end()
		}
	})
	l.goroutines.Go(l.write)
	p.t.config.Log.Info("a node is connected", slog.String("node", p.s.Peer()), slog.Any("addr", conn.RemoteAddr()))
}

// detach ends the connection of a session that is not lost, and waits until nobody reads or writes it. mu is held.
func (p *peer) detach() {
	if l := p.link.Load(); l != nil {
		l.end()
		l.goroutines.Wait()
	}
}

// wakeWriter is called when there is something to write.
func (p *peer) wakeWriter() {
	if l := p.link.Load(); l != nil {
		wake(l.wake)
	}
}

// link is a connection of a session with its reader and its writer.
type link struct {
	p          *peer
	conn       net.Conn
	c          *session.Conn
	first      []byte        // what is written before the session's frames
	wake       chan struct{} // there is something to write
	stop       chan struct{} // closed by end
	read       chan struct{} // closed when the reader has returned
	once       sync.Once
	goroutines sync.WaitGroup
	buffers    net.Buffers // the writer's
}

// end ends the connection.
func (l *link) end() {
	l.once.Do(func() {
		close(l.stop)
		_ = l.conn.Close()
	})
}

// readAll gives what arrives to the session, until the connection or the session ends.
func (l *link) readAll(frames *wire.Splitter) {
	s := l.p.s
	err := s.Receive(l.c, frames, time.Now())
	for err == nil {
		var n int
		if n, err = l.conn.Read(frames.Space()); n > 0 {
			frames.Fill(n)
			if failed := s.Receive(l.c, frames, time.Now()); failed != nil {
				err = failed
			}
		}
	}
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		err = &refusedError{refusal: refusal, proved: true}
	}
	l.p.t.count(err)
	s.Break(l.c, err, time.Now())
	if isViolation(err) {
		refuse(l.conn, err) // the session is lost, so the writer writes nothing more
	}
}

// givenUp reports whether this node has given its peer up. The writer then ends the connection.
func (l *link) givenUp() bool {
	_, why := l.p.s.State()
	return errors.Is(why, ErrDisconnected)
}

func isViolation(err error) bool {
	var violation *wire.ViolationError
	return errors.As(err, &violation)
}

// leave ends a connection that the session does not have any more, for the reason it gives.
// The reader itself ends one on which the peer broke the protocol, after it has said so; and the writer
// one of a node that was given up, since it alone knows where a frame ends.
func (l *link) leave(err error) {
	switch {
	case isViolation(err):
	case errors.Is(err, ErrDisconnected):
		_ = l.conn.SetWriteDeadline(time.Now().Add(farewell))
		wake(l.wake)
	default:
		l.end()
	}
}

// looks is how often a writer that was woken lets others run, to write at once what more
// they send.
const looks = 4

// write writes what the session has, until the connection ends.
func (l *link) write() {
	err := l.writeAll()
	l.p.s.Break(l.c, err, time.Now())
	_, why := l.p.s.State()
	switch {
	case !errors.Is(why, ErrDisconnected):
		l.leave(why)
	case errors.Is(err, session.ErrStale):
		l.part()
	default:
		l.end()
	}
}

// part tells a node that it was given up, and ends the connection when the node has ended it or after a
// moment; the session does not wait for that. To close a connection with something unread resets it, and
// the node may then never read what it was told.
func (l *link) part() {
	refuse(l.conn, wire.Refuse(wire.CodeLostIncarnation, "this node has given the session up"))
	_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // the reader returns
	t := l.p.t
	t.tasks.Go(func() {
		defer l.end()
		defer context.AfterFunc(t.ctx, l.end)()
		<-l.read
		if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_ = l.conn.SetReadDeadline(time.Now().Add(farewell))
		_, _ = io.Copy(io.Discard, l.conn)
	})
}

func (l *link) writeAll() error {
	if len(l.first) > 0 {
		if _, err := l.conn.Write(l.first); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	s := l.p.s
	var taken [][]byte
	for {
		var err error
		if taken, err = s.Take(l.c, taken[:0]); err != nil {
			return err
		}
		if len(taken) == 0 {
			select {
			case <-l.wake:
			case <-l.stop:
				return net.ErrClosed
			}
			for range looks {
				runtime.Gosched()
			}
			continue
		}
		l.buffers = append(l.buffers[:0], taken...)
		buffers := l.buffers
		if _, err := l.buffers.WriteTo(l.conn); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		l.buffers = buffers
		s.Wrote(l.c)
	}
}
