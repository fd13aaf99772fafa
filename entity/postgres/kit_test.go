package postgres

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// patience bounds waits that only a bug makes long.
const patience = time.Minute

// batch has one reading of n samples of the entity "a".
func batch(first uint64, ts int64, n int) *entity.Batch {
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	r := entity.Reading{TS: ts}
	for i := range n {
		s := entity.Sample{Key: fmt.Sprintf("key %d", i), Value: value.Int(ts)}
		r.Values = append(r.Values, s)
		b.Latest = append(b.Latest, entity.LatestRow{Latest: entity.Latest{Key: s.Key, TS: ts, Seq: first, Value: s.Value}})
	}
	b.Records = []entity.Record{{Seq: first, Reading: r}}
	return b
}

// at makes a batch of one value of "a" for each time.
func atTimes(first uint64, times ...int64) *entity.Batch {
	b := &entity.Batch{First: first, Committed: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	for i, ts := range times {
		v := value.Int(ts)
		b.Records = append(b.Records, entity.Record{Seq: first + uint64(i), Reading: entity.Reading{TS: ts, Values: []entity.Sample{{Key: "t", Value: v}}}})
		if i == 0 {
			b.Latest = []entity.LatestRow{{Latest: entity.Latest{Key: "t", TS: ts, Seq: first, Value: v}}}
		}
	}
	return b
}

func commit(t testing.TB, s *Store, b *entity.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// times returns the times of a series.
func times(t testing.TB, s *Store, id, key string) (list []int64) {
	t.Helper()
	points, err := s.History(t.Context(), id, key, entity.Place{}, entity.Place{TS: entity.MaxTS + 1}, 1_000_000, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		list = append(list, p.TS)
	}
	return list
}

// admin is a connection of somebody else to the store's database.
func admin(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // it may have been broken on purpose
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (answer T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// hangUp ends the connection that writes from the server's side.
func hangUp(t testing.TB, conn *pgx.Conn, s *Store) {
	t.Helper()
	if !ask[bool](t, conn, "SELECT pg_terminate_backend($1, 60000)", int32(s.w.conn.PgConn().PID())) {
		t.Fatal("the connection is still there")
	}
}

// proxy passes connections on to a unix socket, and can cut them.
type proxy struct {
	ln     net.Listener
	socket string

	// After so many bytes to the server, or from it, all connections are cut.
	// Negative for never.
	toServer, fromServer atomic.Int64

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	wg    sync.WaitGroup
}

func newProxy(t *testing.T, socket string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, socket: socket}
	p.heal()
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = ln.Close() // which ends serve
		p.cut()
		p.wg.Wait()
	})
	return p
}

// url returns the URL of a database by way of the proxy.
func (p *proxy) url(t *testing.T, direct string) string {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.RawQuery = p.ln.Addr().String(), "sslmode=disable"
	return u.String()
}

func (p *proxy) heal() {
	p.toServer.Store(-1)
	p.fromServer.Store(-1)
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close() // the other half may have been faster
	}
	p.conns = nil
}

func (p *proxy) serve() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = client.Close() // as if nobody listened
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client, &p.toServer) })
		p.wg.Go(func() { p.pass(client, server, &p.fromServer) })
	}
}

// pass copies bytes until one side ends or the allowance does.
func (p *proxy) pass(to io.WriteCloser, from io.ReadCloser, left *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		some, cut := buf[:n], false
		if allowed := left.Load(); allowed >= 0 {
			some = buf[:min(int64(n), allowed)]
			cut = int64(n) >= allowed
			left.Store(max(0, allowed-int64(n)))
		}
		if _, err := to.Write(some); err != nil {
			return
		}
		if cut {
			p.cut()
			return
		}
	}
}
