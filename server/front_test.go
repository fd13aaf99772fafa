package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/keyed"
	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/server/access"
)

// testNode is a node of a cluster in a test.
type testNode struct {
	*Front
	t     *testing.T
	held  atomic.Bool
	ended chan uint64 // claims of servers that have ended by themselves
}

const nodeSecret = "the random bytes that nodes of these tests share"

func startNode(t *testing.T, store, name string, change ...func(*Front)) *testNode {
	t.Helper()
	n := &testNode{t: t, ended: make(chan uint64, 10)}
	f, err := NewFront(t.Context(), Config{Store: store, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)},
		NodeConfig{Name: name, Secret: nodeSecret, Ended: func(claim uint64, _ error) { n.ended <- claim }})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range change {
		set(f)
	}
	n.Front = f
	n.held.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("node %s: %v", name, err)
		}
	})
	return n
}

// own has the node own the store, and the others follow it.
func (n *testNode) own(epoch uint64, others ...*testNode) {
	n.t.Helper()
	if _, err := n.Own(n.t.Context(), epoch, n.held.Load); err != nil {
		n.t.Fatal(err)
	}
	for _, o := range others {
		o.Follow(n.node.Name, n.LinkAddr(), epoch)
	}
}

func (n *testNode) do(method, path, body string, header ...string) (status int, answer string) {
	n.t.Helper()
	status, answer, err := n.try(method, path, body, header...)
	if err != nil {
		n.t.Fatal(err)
	}
	return status, answer
}

func (n *testNode) try(method, path, body string, header ...string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(n.t.Context(), method, "http://"+n.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (n *testNode) post(id string, value int) {
	n.t.Helper()
	if status, answer := n.do("POST", "/v1/entities/"+id+"/telemetry", fmt.Sprintf(`{"v":%d}`, value)); status != http.StatusNoContent {
		n.t.Fatalf("node %s: %d %s", n.node.Name, status, answer)
	}
}

func (n *testNode) value(id string) string {
	n.t.Helper()
	_, answer := n.do("GET", "/v1/entities/"+id, "")
	var e struct {
		Latest map[string]struct{ Value json.Number }
	}
	if err := json.Unmarshal([]byte(answer), &e); err != nil {
		n.t.Fatalf("node %s: %s", n.node.Name, answer)
	}
	return e.Latest["v"].Value.String()
}

func (n *testNode) client(id, url string, lost func(), with ...func(*mqtt311.ClientOptions)) mqtt311.Client {
	n.t.Helper()
	o := mqtt311.NewClientOptions().AddBroker(url).SetClientID(id).SetAutoReconnect(false)
	o.SetConnectionLostHandler(func(mqtt311.Client, error) { lost() })
	for _, set := range with {
		set(o)
	}
	c := mqtt311.NewClient(o)
	await(n.t, c.Connect())
	n.t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// TestANodePassesOnWhatClientsSend to the one that owns the store, by all ways there are.
func TestANodePassesOnWhatClientsSend(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1, b)

	b.post("room", 1)
	if got := a.value("room") + b.value("room"); got != "11" {
		t.Errorf("the nodes have %s", got)
	}
	if status, answer := b.do("GET", "/v1/entities/room", "", clientHeader, "made up"); status != http.StatusOK {
		t.Errorf("with a header of nodes: %d %s", status, answer)
	}
	large := `{"big":"` + strings.Repeat("x", 300_000) + `"}`
	if status, answer := b.do("POST", "/v1/entities/large/telemetry", large); status == http.StatusBadGateway || status == http.StatusServiceUnavailable {
		t.Errorf("a large body: %d %s", status, answer)
	}

	events := b.events("/v1/stream?entity=room")
	c := b.client("device", "tcp://"+b.MQTTAddr(), func() {})
	ws := b.client("browser", "ws://"+b.HTTPAddr()+"/mqtt", func() {})
	await(t, ws.Publish("e/room/telemetry", 1, false, `{"v":2}`))
	if v := a.value("room"); v != "2" {
		t.Errorf("by MQTT over WebSocket: %s", v)
	}
	for line := range events {
		if strings.HasPrefix(line, "data:") && strings.Contains(line, `"v":2`) {
			break
		}
	}
	await(t, c.Publish("e/room/telemetry", 1, false, `{"v":3}`))
	if v := a.value("room"); v != "3" {
		t.Errorf("by MQTT: %s", v)
	}

	lost := make(chan struct{})
	a.client("device 2", "tcp://"+a.MQTTAddr(), func() { close(lost) })
	b.client("device 2", "tcp://"+b.MQTTAddr(), func() {})
	receive(t, lost, "the end of the session that another node has taken over")
}

// events returns the lines of a stream.
func (n *testNode) events(path string, header ...string) <-chan string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.HTTPAddr()+path, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.t.Fatalf("%v %v", resp, err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer resp.Body.Close()
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

func TestARequestWaitsForTheNextOwner(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1, b)
	b.post("room", 1)
	if _, answer := b.do("GET", "/healthz", ""); !strings.Contains(answer, `{"status":"ok","node":"b","owner":"a"}`) {
		t.Errorf("b says %s", answer)
	}
	ended := make(chan struct{})
	b.client("device", "tcp://"+b.MQTTAddr(), func() { close(ended) })
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, ended, "the end of the connection to the node that has released the store")
	if status, answer := a.do("GET", "/healthz", ""); status != http.StatusServiceUnavailable || !strings.Contains(answer, `node \"a\": no node`) {
		t.Errorf("a says %d %s", status, answer)
	}
	answered := make(chan string, 2)
	for _, n := range []*testNode{a, b} {
		go func() {
			status, answer, err := n.try("POST", "/v1/entities/room/telemetry", `{"v":2}`)
			answered <- fmt.Sprintf("%d %s %v", status, answer, err)
		}()
	}
	b.own(2, a)
	for range 2 {
		if got := receive(t, answered, "the answer of the next owner"); got != "204  <nil>" {
			t.Errorf("the answer is %s", got)
		}
	}
	if v := a.value("room"); v != "2" {
		t.Errorf("a has %s", v)
	}
	if name, epoch := a.Owner(); name != "b" || epoch != 2 {
		t.Errorf("a follows %s with %d", name, epoch)
	}
	a.Follow("a former one", "127.0.0.1:1", 1)
	if v := a.value("room"); v != "2" {
		t.Errorf("a follows a former owner, and has %s", v)
	}
	if _, err := a.Own(t.Context(), 1, func() bool { return true }); err == nil {
		t.Error("a owns the store with the epoch of a former owner")
	}
}

// TestAFormerOwnerAnswersNobody although nobody has told it: it acknowledges nothing that the store has not taken, and
// ends when that says that another node has it.
func TestAFormerOwnerAnswersNobody(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1)
	a.post("room", 1)
	cut := make(chan struct{})
	a.client("device", "tcp://"+a.MQTTAddr(), func() { close(cut) })
	b.own(2)
	b.post("room", 2)
	answered := make(chan string, 1)
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // others try again on another connection
	go func() {
		resp, err := once.Post("http://"+a.HTTPAddr()+"/v1/entities/room/telemetry", "application/json", strings.NewReader(`{"v":3}`)) // the former owner ends it
		if err == nil {
			err = errors.New(resp.Status)
			_ = resp.Body.Close()
		}
		answered <- err.Error()
	}()
	receive(t, cut, "the end of the connection to the former owner, which answers "+fmt.Sprint(len(answered)))
	if got := receive(t, answered, "the end of the request to the former owner"); strings.HasPrefix(got, "20") {
		t.Errorf("the former owner answers %s", got)
	}
	if v := b.value("room"); v != "2" {
		t.Errorf("the owner has %s", v)
	}
	if claim := receive(t, a.ended, "the end of the server whose store another one has taken"); claim != 1 {
		t.Errorf("the server with the claim %d has ended", claim)
	}
	a.Follow("b", b.LinkAddr(), 2)
	a.post("room", 4)

	b.held.Store(false) // its lease is over, which it has not done anything about yet
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.HTTPAddr()+"/v1/entities/room", http.NoBody)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a node without a lease answers %s", resp.Status)
	}
	b.Abandon()
	a.own(3, b)
	b.post("room", 5)
	if v := a.value("room"); v != "5" {
		t.Errorf("the owner has %s", v)
	}
	_ = a.now.local.httpLn.Close() // it fails
	if claim := receive(t, a.ended, "the end of a server that has failed"); claim != 3 {
		t.Errorf("the server with the claim %d has ended", claim)
	}
	if name, _ := a.Owner(); name != "" {
		t.Errorf("%s owns the store", name)
	}
	select {
	case claim := <-b.ended:
		t.Errorf("b says that its server with the claim %d has ended by itself", claim)
	default:
	}
}

func TestNodesMustKnowTheSameSecret(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a := startNode(t, store, "a")
	if conn, err := DialLink(t.Context(), a.LinkAddr(), nodeSecret); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if _, err := DialLink(t.Context(), a.LinkAddr(), rand.Text()); !errors.Is(err, keyed.ErrOtherSecret) {
		t.Errorf("with another secret: %v", err)
	}
	b := startNode(t, store, "b")
	other, err := keyed.TLS(rand.Text(), linkHTTP, linkMQTT)
	if err != nil {
		t.Fatal(err)
	}
	b.keyed = other
	b.Follow("a", a.LinkAddr(), 1)
	if status, answer := b.do("GET", "/v1/system", ""); status != http.StatusBadGateway || !strings.Contains(answer, "does not know the secret") {
		t.Errorf("%d %s", status, answer)
	}
}

// followFake has a node follow an owner that is a handler, and has its own timeouts be short.
func followFake(t *testing.T, owner http.HandlerFunc, change ...func(*Front)) (f *Front, url string) {
	t.Helper()
	f, err := NewFront(t.Context(), Config{Store: "postgres://h/d", HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}, NodeConfig{Name: "b", Secret: nodeSecret})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range change {
		set(f)
	}
	f.http.ReadTimeout, f.http.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	link, err := keyed.TLS(nodeSecret)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(owner)
	s.TLS = link
	s.Listener = tls.NewListener(s.Listener, link)
	s.Start()
	t.Cleanup(s.Close)
	f.Follow("a", s.Listener.Addr().String(), 1)
	return f, "http://" + f.HTTPAddr()
}

// TestANodePassesOnWhatTakesLong both ways: the timeouts of its own are not for streams and imports.
func TestANodePassesOnWhatTakesLong(t *testing.T) {
	t.Parallel()
	const long = 500 * time.Millisecond
	_, url := followFake(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v,", body, err)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(long)
		fmt.Fprint(w, "end")
	})
	body, write := io.Pipe()
	go func() {
		_, _ = write.Write([]byte("1"))
		time.Sleep(long)
		_, _ = write.Write([]byte("2"))
		_ = write.Close()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/import", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "12 <nil>,end" || err != nil {
		t.Errorf("the answer is %q, %v", got, err)
	}
}

// TestABodyThatIsNotKeptIsRefused if the node that was asked does not own the store: nothing was done, and it cannot be
// sent again.
func TestABodyThatIsNotKeptIsRefused(t *testing.T) {
	t.Parallel()
	f, url := followFake(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set(refuseHeader, "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	others := f.kept.Enter(access.AddressKey(netip.MustParseAddr("127.0.0.1")), maxBodies/2) // there is no room for more of this address
	defer others.Leave()
	if stay, ok := f.keep(&http.Request{RemoteAddr: "192.0.2.1:1", ContentLength: maxReplayed}); !ok {
		t.Error("an address keeps another one out")
	} else {
		stay.Leave()
	}
	full := f.kept.Used()
	for _, body := range []io.Reader{strings.NewReader("{}"), io.MultiReader(strings.NewReader("{}"))} { // with a length, and without
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/entities/room/telemetry", body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("the answer is %s", resp.Status)
		}
	}
	if n := f.kept.Used(); n != full {
		t.Errorf("%d bytes are kept, not %d", n, full)
	}
}

func TestNodesThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		cfg  Config
		node NodeConfig
	}{
		"--store must be": {Config{Store: "somewhere"}, NodeConfig{Name: "a", Secret: nodeSecret}},
		"name of the":     {Config{}, NodeConfig{Secret: nodeSecret}},
		"24 bytes":        {Config{Store: "postgres://h/d"}, NodeConfig{Name: "a", Secret: "short"}},
		"--acme":          {Config{Store: "postgres://h/d", TLS: TLS{ACME: ACME{Hosts: []string{"h"}}}}, NodeConfig{Name: "a", Secret: nodeSecret}},
	} {
		if _, err := NewFront(t.Context(), tt.cfg, tt.node); !errors.Is(err, ErrNodes) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestAClientIsTheSameOnTheOtherNode by its address, and by the certificate that was verified.
func TestAClientIsTheSameOnTheOtherNode(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	cert, soon := s.Certificate(), time.Now().Add(time.Hour)
	sent := &http.Request{RemoteAddr: "192.0.2.7:4711", TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert, {NotAfter: soon}}}}}
	for _, verified := range []bool{true, false} {
		if !verified {
			sent.TLS.VerifiedChains = nil
		}
		c, err := clientFrom(clientOf(sent).header())
		if err != nil {
			t.Fatal(err)
		}
		got := &http.Request{RemoteAddr: "127.0.0.1:1"}
		if err := c.apply(got); err != nil {
			t.Fatal(err)
		}
		if verified {
			if _, until := access.CertificateOf(got.TLS, time.Now()); !until.Equal(soon) {
				t.Errorf("the certificate lasts until %v, and the one that vouches for it until %v", until, soon)
			}
		}
		if got.RemoteAddr != sent.RemoteAddr || got.TLS == nil || len(got.TLS.VerifiedChains) != len(sent.TLS.VerifiedChains) || verified && !got.TLS.PeerCertificates[0].Equal(cert) {
			t.Errorf("%+v with %+v", got, got.TLS)
		}
	}
	if _, err := clientFrom("made up"); err == nil {
		t.Error("what nobody has sent is read")
	}
}
