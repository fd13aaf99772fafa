package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

const (
	// attackCommands is how many commands are sent to each device in a round.
	attackCommands = 8
	// attackStay is the longest that a connection of a device lasts, and that it is away.
	attackStay = 80 * time.Millisecond
	// attackLatest is how long after the first command the process may live.
	attackLatest = 300 * time.Millisecond
	// attackTry bounds one attempt of a device to say something.
	attackTry = 2 * time.Second
)

// servers is where the process listens, which changes when it is started again.
type servers struct {
	mu         sync.Mutex
	http, mqtt string // guarded by mu
}

func (s *servers) set(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http, s.mqtt = p.http, p.mqtt
}

func (s *servers) get() (http, mqtt string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.http, s.mqtt
}

// attacked is a device whose connections are cut and taken over while commands are sent to it. Its
// commands have different names, since not all conventions tell the device the id.
type attacked struct {
	way
	id string
	at *servers

	mu    sync.Mutex
	got   map[string]string    // by the command's name, how it is answered; guarded by mu
	acked map[string]time.Time // since when the server has it on record that the device has the command; guarded by mu
	again []string             // came by a connection or a request that was begun after that; guarded by mu
	// connections and repeated count what was to be survived; guarded by mu
	connections, repeated int
}

// way is how a device speaks.
type way struct {
	name string
	// lossy says that the server takes a command for delivered that it has written.
	lossy bool
	// live is a connection: it takes commands, and repeats the answers that are not known to have
	// arrived, until ctx ends. Unless orderly is set, the connection is cut then.
	live func(ctx context.Context, d *attacked, orderly bool)
}

var ways = []way{
	{"mqtt-3.1.1-qos-1", false, func(ctx context.Context, d *attacked, orderly bool) { d.live311(ctx, native, 1, orderly) }},
	{"mqtt-3.1.1-qos-0", true, func(ctx context.Context, d *attacked, orderly bool) { d.live311(ctx, native, 0, orderly) }},
	{"mqtt-5-qos-2", false, func(ctx context.Context, d *attacked, orderly bool) { d.live5(ctx, orderly) }},
	{"thingsboard", false, func(ctx context.Context, d *attacked, orderly bool) { d.live311(ctx, thingsboardTopics, 1, orderly) }},
	{"http", false, func(ctx context.Context, d *attacked, _ bool) { d.liveHTTP(ctx, nativeHTTP) }},
	{"thingsboard-http", false, func(ctx context.Context, d *attacked, _ bool) { d.liveHTTP(ctx, thingsboardHTTP) }},
}

// TestCommandsOutliveBadConnections sends commands to devices of each protocol, while their
// connections are cut, taken over by another one of the same client and closed in order, and while
// the process is killed. Each command that was accepted is carried out in the end, with its own
// answer; what was sent again with its key is one command; and none comes to a device again after
// the server has acknowledged the answer, or has said that the command is delivered.
func TestCommandsOutliveBadConnections(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: there is no SIGKILL on Windows")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(crashSeed(t), 2))
	binary, dir := build(t), filepath.Join(t.TempDir(), "data")
	p, at := startProcess(t, binary, dir), &servers{}
	at.set(p)
	devices := make([]*attacked, len(ways))
	for i, w := range ways {
		devices[i] = &attacked{way: w, id: w.name, at: at, got: map[string]string{}, acked: map[string]time.Time{}}
		if err := apiOf(t, p).do(t.Context(), "PUT", entityPath(w.name), "application/json", `{}`, nil, "If-None-Match", "*"); err != nil {
			t.Fatal(err)
		}
	}
	for round := range soaktest.Rounds(t, 1, 60) {
		bad, calm := context.WithCancel(t.Context())
		var living, sending sync.WaitGroup
		for _, d := range devices {
			moments := rand.New(rand.NewPCG(rng.Uint64(), 0))
			living.Go(func() { d.comeAndGo(bad, moments) })
		}
		first := make(chan struct{}, 1)
		for _, d := range devices {
			for n := range attackCommands {
				sending.Go(func() {
					d.order(t, fmt.Sprintf("c-%d-%d", round, n), n%3 > 0 || d.lossy)
					select {
					case first <- struct{}{}:
					default:
					}
				})
			}
		}
		<-first
		<-time.After(time.Duration(rng.Int64N(int64(attackLatest)))) // the random moment is what is tested
		p.kill(t)
		p = startProcess(t, binary, dir)
		at.set(p)
		sending.Wait()
		for _, d := range devices {
			d.reconnected(t)
		}
		calm()
		living.Wait()
		steady, end := context.WithCancel(t.Context())
		for _, d := range devices {
			living.Go(func() { d.live(steady, d, true) })
		}
		for _, d := range devices {
			d.check(t, p, round)
		}
		end()
		living.Wait()
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	for _, d := range devices {
		t.Logf("%s had %d connections, and got %d commands and %d of them again", d.id, d.connections, len(d.got), d.repeated)
		if d.connections < 2 || len(d.got) == 0 && !d.lossy {
			t.Errorf("%s: this tests nothing", d.id)
		}
	}
}

// comeAndGo connects again and again. Some connections begin before the one before has ended, and
// take it over.
func (d *attacked) comeAndGo(ctx context.Context, rng *rand.Rand) {
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		stay, cancel := context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(attackStay))))
		orderly, takeover := rng.IntN(3) == 0, rng.IntN(3) == 0
		d.mu.Lock()
		d.connections++
		d.mu.Unlock()
		all.Go(func() {
			defer cancel()
			d.live(stay, d, orderly)
		})
		if takeover {
			_ = pause.For(ctx, time.Duration(rng.Int64N(int64(attackStay/4)))) // the loop looks
			continue
		}
		all.Wait()
		_ = pause.For(ctx, time.Duration(rng.Int64N(int64(attackStay)))) // the loop looks
	}
}

// reconnected waits until the device has connected twice: a fast machine has carried out the
// commands before.
func (d *attacked) reconnected(t *testing.T) {
	for t.Context().Err() == nil {
		d.mu.Lock()
		connections := d.connections
		d.mu.Unlock()
		if connections > 1 {
			return
		}
		_ = pause.For(t.Context(), time.Millisecond) // the loop looks
	}
}

// order sends a command until the server has accepted it.
func (d *attacked) order(t *testing.T, name string, parallel bool) {
	for t.Context().Err() == nil {
		c := d.api()
		ctx, cancel := context.WithTimeout(t.Context(), attackTry)
		body := fmt.Sprintf(`{"name":%q,"timeout":"1h","parallel":%v}`, name, parallel)
		err := c.do(ctx, "POST", entityPath(d.id)+"/commands", "application/json", body, nil, "Idempotency-Key", name)
		cancel()
		c.close()
		if err == nil {
			return
		}
		_ = pause.For(t.Context(), 10*time.Millisecond) // the process is being started
	}
}

func (d *attacked) api() *client {
	addr, _ := d.at.get()
	c, err := newClient(addr)
	if err != nil {
		panic(err) // the address is the server's own
	}
	return c
}

// take notes a command that came by a connection or a request that was begun at a time. By one that was
// begun before the acknowledgement it may have been on its way.
func (d *attacked) take(name, answer string, begun time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.acked[name]; ok && at.Before(begun) {
		d.again = append(d.again, name)
	}
	if _, ok := d.got[name]; ok {
		d.repeated++
	}
	d.got[name] = answer
}

// open returns the commands whose answers are not known to have arrived.
func (d *attacked) open() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := map[string]string{}
	for name, answer := range d.got {
		if answer != "" {
			list[name] = answer
		}
	}
	return list
}

// arrived notes that the server has acknowledged the answer to a command.
func (d *attacked) arrived(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record(name)
	d.got[name] = ""
}

// record notes that the server has a command for delivered. The caller holds d.mu.
func (d *attacked) record(name string) {
	if _, ok := d.acked[name]; !ok {
		d.acked[name] = time.Now()
	}
}

// answerAll says the answers until ctx ends, and notes which have arrived. Before some of them it
// looks whether the server has the command for delivered: from then on it must not come again.
func (d *attacked) answerAll(ctx context.Context, say func(ctx context.Context, name, answer string) error) {
	for ; ctx.Err() == nil; _ = pause.For(ctx, 5*time.Millisecond) {
		for name, answer := range d.open() {
			if strings.HasSuffix(name, "1") && !d.lossy {
				d.look(ctx, name)
			}
			trying, cancel := context.WithTimeout(ctx, attackTry)
			err := say(trying, name, answer)
			cancel()
			if err == nil {
				d.arrived(name)
			}
		}
	}
}

// look notes whether the server has a command for delivered.
func (d *attacked) look(ctx context.Context, name string) {
	c := d.api()
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, attackTry)
	defer cancel()
	list, err := commandsOf(ctx, c, d.id)
	if i := slices.IndexFunc(list, func(c commandJSON) bool { return c.Name == name }); err == nil && i >= 0 && list[i].State == "delivered" {
		d.mu.Lock()
		d.record(name)
		d.mu.Unlock()
	}
}

// commandsOf returns the newest commands of an entity.
func commandsOf(ctx context.Context, c *client, id string) ([]commandJSON, error) {
	var page struct{ Commands []commandJSON }
	err := c.get(ctx, entityPath(id)+"/commands?limit=1000", &page)
	return page.Commands, err
}

// done reports whether a command has ended, for an answer that nobody acknowledges.
func (d *attacked) done(ctx context.Context, name string) error {
	c := d.api()
	defer c.close()
	list, err := commandsOf(ctx, c, d.id)
	if err == nil && !slices.ContainsFunc(list, func(c commandJSON) bool { return c.Name == name && c.State == "done" }) {
		err = errors.New("it is not done")
	}
	return err
}

// check waits until all commands of a round have been carried out, and compares.
func (d *attacked) check(t *testing.T, p *process, round int) {
	t.Helper()
	c := apiOf(t, p)
	defer c.close()
	prefix := fmt.Sprintf("c-%d-", round)
	var left []string
	for until := time.Now().Add(patience); ; {
		list, err := commandsOf(t.Context(), c, d.id)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]int{}
		left = left[:0]
		for _, made := range list {
			if !strings.HasPrefix(made.Name, prefix) {
				continue
			}
			if names[made.Name]++; names[made.Name] > 1 {
				t.Errorf("%s: the command %s was made twice with one key", d.id, made.Name)
			}
			if state := d.ended(&made); state != "" {
				left = append(left, state)
			}
		}
		if len(names) != attackCommands {
			t.Errorf("%s: %d commands of %d that were accepted are there", d.id, len(names), attackCommands)
			break
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%s: accepted commands are not carried out: %v", d.id, left)
		}
		if pause.For(t.Context(), 10*time.Millisecond) != nil {
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.again) > 0 {
		t.Errorf("%s got commands again that it had acknowledged: %v", d.id, d.again)
	}
}

// ended returns what is wrong with how a command has ended, "" for nothing.
func (d *attacked) ended(c *commandJSON) string {
	d.mu.Lock()
	_, got := d.got[c.Name]
	d.mu.Unlock()
	switch {
	case c.State == "done" && string(c.Result) == resultOf(c.Name):
		return ""
	case d.lossy && c.State == "delivered" && !got: // it was lost on the way, as is documented
		return ""
	default:
		return fmt.Sprintf("%s is %s %s %s, and the device has got it: %v", c.Name, c.State, c.Result, c.Error, got)
	}
}

// resultOf is the device's answer to a command.
func resultOf(name string) string { return fmt.Sprintf(`{"did":%q}`, name) }

// dialect is how commands look that a device gets, and its answers.
type dialect struct {
	subscription string // of MQTT; %s is the entity
	// command returns the name of a command, and how it is answered: the topic or path, and the
	// body.
	command func(id, topic string, body []byte) (name, to, answer string)
	next    string // the path of HTTP
}

var native = dialect{"e/%s/commands", func(id, _ string, body []byte) (name, to, answer string) {
	var c struct{ ID, Name string }
	_ = json.Unmarshal(body, &c) // a name that nobody has given shows in the end
	return c.Name, "e/" + id + "/answers", fmt.Sprintf(`{"id":%q,"result":%s}`, c.ID, resultOf(c.Name))
}, ""}

var thingsboardTopics = dialect{"v1/devices/me/rpc/request/+", func(_, topic string, body []byte) (name, to, answer string) {
	var c struct{ Method string }
	_ = json.Unmarshal(body, &c) // a name that nobody has given shows in the end
	return c.Method, strings.Replace(topic, "request", "response", 1), resultOf(c.Method)
}, ""}

var nativeHTTP = dialect{"", func(id, _ string, body []byte) (name, to, answer string) {
	name, _, answer = native.command(id, "", body)
	return name, entityPath(id) + "/answers", answer
}, "/v1/entities/%s/next-command?wait=1s"}

var thingsboardHTTP = dialect{"", func(id, _ string, body []byte) (name, to, answer string) {
	var c struct {
		ID     int64
		Method string
	}
	_ = json.Unmarshal(body, &c) // a name that nobody has given shows in the end
	return c.Method, fmt.Sprintf("/api/v1/%s/rpc/%d", id, c.ID), resultOf(c.Method)
}, "/api/v1/%s/rpc?timeout=1000"}

// packed joins where an answer goes and its body.
func packed(to, answer string) string { return to + "\n" + answer }

// liveHTTP asks for commands one after the other, and answers them.
func (d *attacked) liveHTTP(ctx context.Context, l dialect) {
	c := d.api()
	defer c.close()
	say := func(ctx context.Context, _, answer string) error {
		to, body, _ := strings.Cut(answer, "\n")
		return c.do(ctx, http.MethodPost, to, "application/json", body, nil)
	}
	answering := make(chan struct{})
	go func() {
		defer close(answering)
		d.answerAll(ctx, say)
	}()
	for ; ctx.Err() == nil; _ = pause.For(ctx, time.Millisecond) {
		var body json.RawMessage
		begun := time.Now()
		if c.get(ctx, fmt.Sprintf(l.next, d.id), &body) == nil && len(body) > 0 {
			name, to, answer := l.command(d.id, "", body)
			d.take(name, packed(to, answer), begun)
		}
	}
	<-answering
}
