package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

const (
	// crashConnections publish for half as many entities: two connections share
	// one, with readings of their own.
	crashConnections = 4
	crashInFlight    = 200
	// crashLatest is how long after the first acknowledgement the process may
	// live.
	crashLatest = 800 * time.Millisecond
)

// TestNoAcknowledgedReadingIsLostOrDoubledByKill kills the built program with
// SIGKILL at a random moment of a replay at full speed, starts it again on the
// same directory and compares: every acknowledged reading is there, none is
// there twice and none that was never sent. Then the clients send what was not
// acknowledged once more, as devices do, and all readings are there once.
//
// The directory is the same in all rounds, so that each start recovers what all
// kills before have left. GREENROOM_CRASH_SEED repeats the moments of a run.
func TestNoAcknowledgedReadingIsLostOrDoubledByKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: there is no SIGKILL on Windows")
	}
	t.Parallel()
	seed := crashSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	binary := build(t)
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcess(t, binary, dir)
	var sent []*crashClient
	total, rounds := 0, soaktest.Rounds(t, 4, 200) // more kills meet more of what a commit is made of
	if pgtest.OnPostgres() {
		rounds /= 2
	}
	for round := range rounds {
		clients := make([]*crashClient, crashConnections)
		firstAck := make(chan struct{}, crashConnections)
		var publishing sync.WaitGroup
		for i := range clients {
			clients[i] = &crashClient{entity: fmt.Sprintf("crash-%d-%d", round, i/2), offset: int64(i%2) * 1_000_000}
			clients[i].connect(t, p.mqtt)
			publishing.Go(func() { clients[i].publish(firstAck) })
		}
		select {
		case <-firstAck:
		case <-time.After(patience):
			t.Fatal("no acknowledgement")
		}
		<-time.After(time.Duration(rng.Int64N(int64(crashLatest)))) // the random moment is what is tested
		p.kill(t)
		publishing.Wait()

		p = startProcess(t, binary, dir)
		acked := 0
		for i := 0; i < len(clients); i += 2 {
			compare(t, p.http, clients[i:i+2], false)
			acked += clients[i].acked + clients[i+1].acked
		}
		total += acked
		for _, c := range clients {
			c.connect(t, p.mqtt)
			c.resend(t)
		}
		sent = append(sent, clients...)
		if t.Failed() {
			t.Fatalf("round %d, with %d acknowledged readings", round, acked)
		}
	}
	for i := 0; i < len(sent); i += 2 {
		compare(t, p.http, sent[i:i+2], true)
	}
	t.Logf("%d rounds, %d readings acknowledged before the kills", rounds, total)
	if total < 100*rounds {
		t.Errorf("only %d acknowledged readings: this tests nothing", total)
	}
}

// crashSeed is what the moments of the kills come from.
func crashSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("GREENROOM_CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GREENROOM_CRASH_SEED=%d", seed)
	return seed
}

// verifyTime has the tests that run verify do so again and again.
var verifyTime = flag.Duration("verify.time", 0, "run verify until this `time` is over, with a new store and seed each time, in place of once")

// verifyRounds is how many kills one store has with -verify.time.
const verifyRounds = 20

// verifyRuns calls run with a number of kills and a seed: once, or until -verify.time is over. run returns
// what verify has printed, whose last lines are written to the test's log.
func verifyRuns(t *testing.T, store string, run func(rounds int, seed uint64) (out string)) {
	t.Helper()
	began, kills := time.Now(), 0
	for n := 1; !t.Failed(); n++ {
		rounds, seed := verifyRounds, crashSeed(t)
		if *verifyTime == 0 {
			rounds = soaktest.Rounds(t, 2, 60)
		}
		out := run(rounds, seed)
		kills += rounds
		if _, last, found := strings.Cut(out, "\nin all "); found {
			t.Logf("soak: verify, %s, run %d with seed %d, after %v: %s", store, n, seed, time.Since(began).Round(time.Second),
				strings.Join(strings.Split(strings.TrimSpace(last), "\n"), "; "))
		}
		if time.Since(began) >= *verifyTime {
			t.Logf("soak: verify, %s: %d runs, %d kills", store, n, kills)
			return
		}
	}
}

// TestNothingOfAllKindsIsLostOrDoubledByKill does the same with the program's own
// verify, which loads attributes, relations and mappings as well: all that was
// acknowledged is there once, and all that mappings make of it.
func TestNothingOfAllKindsIsLostOrDoubledByKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: there is no SIGKILL on Windows")
	}
	t.Parallel()
	store := "SQLite"
	if pgtest.OnPostgres() {
		store = "PostgreSQL"
	}
	verifyRuns(t, store, func(rounds int, seed uint64) string {
		dir := t.TempDir()
		args := []string{"verify", "--rounds", strconv.Itoa(rounds), "--connections", "4", "--seed", strconv.FormatUint(seed, 10)}
		if address := pgtest.Address(t, dir); address != "" {
			args = append(args, "--store", address)
		} else {
			args = append(args, "--data", dir)
		}
		out, err := exec.CommandContext(t.Context(), build(t), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, kind := range append(kinds, "in all") {
			var acked, lost, doubled int
			_, line, _ := strings.Cut(string(out), "\n"+kind+" ")
			n, err := fmt.Sscanf(strings.TrimSpace(line), "acknowledged %d, lost %d, doubled %d", &acked, &lost, &doubled)
			if n != 3 || acked < rounds || lost+doubled != 0 {
				t.Errorf("%s: %d read, %v: this tests nothing, or it is wrong:\n%s", kind, n, err, out)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
		return string(out)
	})
}

// TestNothingIsLostByKillsAndAFullDisk does so on a small file system, which becomes full
// before each kill, and on which the server is started full as well.
func TestNothingIsLostByKillsAndAFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: a small file system needs Linux")
	}
	if pgtest.OnPostgres() {
		t.Skip("NOT TESTED: the disk of PostgreSQL is its own")
	}
	t.Parallel()
	verifyRuns(t, "a full disk", func(rounds int, seed uint64) string {
		script := `mount -t tmpfs -o size=96m tmpfs "$1" && exec "$2" verify --data "$1" --full --connections 4 --rounds "$3" --seed "$4"`
		cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-c", script, "sh",
			t.TempDir(), build(t), strconv.Itoa(rounds), strconv.FormatUint(seed, 10))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("lost 0, doubled 0, by %d kills", rounds)) {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	})
}

// compare compares what the server has of an entity with what its two clients
// sent. With complete, all that was sent must be there.
func compare(t *testing.T, addr string, clients []*crashClient, complete bool) {
	t.Helper()
	sent, acked := map[int64]int{}, 0 // the value of each time
	for _, c := range clients {
		acked += c.acked
		for i := range c.sent {
			sent[c.offset+int64(i)] = i
		}
	}
	if !complete && acked == 0 && !exists(t, addr, "/v1/entities/"+clients[0].entity) {
		return // the kill came before the first of its readings
	}
	for _, key := range []string{"n", "twice"} {
		there := map[int64]bool{}
		factor := map[string]int{"n": 1, "twice": 2}[key]
		last := int64(-1)
		for _, p := range history(t, addr, clients[0].entity, key) {
			value, ok := sent[p.TS]
			if !ok || p.Value != float64(factor*value) {
				t.Errorf("%s %s: the reading %v at %d was never sent", clients[0].entity, key, p.Value, p.TS)
			}
			if there[p.TS] {
				t.Errorf("%s %s: the reading at %d is there twice", clients[0].entity, key, p.TS)
			}
			there[p.TS], last = true, p.TS
		}
		missing := 0
		for _, c := range clients {
			for i := range c.sent {
				if (complete || i < c.acked) && !there[c.offset+int64(i)] {
					missing++
				}
			}
		}
		if missing > 0 {
			t.Errorf("%s %s: %d acknowledged readings are missing, %d are there", clients[0].entity, key, missing, len(there))
		}
		var e struct{ Latest map[string]point }
		if len(there) > 0 {
			if getJSON(t, addr, "/v1/entities/"+clients[0].entity, &e); e.Latest[key].TS != last {
				t.Errorf("%s %s: the latest is of %d, the newest in the history of %d", clients[0].entity, key, e.Latest[key].TS, last)
			}
		}
	}
}

// crashClient publishes readings and knows which were acknowledged: since that
// happens in the order of the messages, a number is enough.
type crashClient struct {
	entity string
	offset int64 // added to the number of a reading for its time
	client mqtt.Client
	lost   chan struct{} // closed when the connection is
	sent   int
	acked  int
}

func (c *crashClient) connect(t *testing.T, addr string) {
	t.Helper()
	lost := make(chan struct{})
	o := mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(fmt.Sprintf("%s-%d", c.entity, c.offset)).SetAutoReconnect(false)
	o.SetConnectionLostHandler(func(mqtt.Client, error) { close(lost) })
	c.client, c.lost = mqtt.NewClient(o), lost
	token := c.client.Connect()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("connect: %v", token.Error())
	}
	client := c.client
	t.Cleanup(func() { client.Disconnect(0) })
}

// send publishes a reading. On a lost connection the client can hold it up for
// half a minute.
func (c *crashClient) send(client mqtt.Client, i int) mqtt.Token {
	return client.Publish("e/"+c.entity+"/telemetry", 1, false, fmt.Sprintf(`{"ts":%d,"values":{"n":%d,"twice":%d}}`, c.offset+int64(i), i, 2*i))
}

// publish publishes until the connection is lost.
func (c *crashClient) publish(firstAck chan<- struct{}) {
	tokens := make(chan mqtt.Token, crashInFlight)
	var sending atomic.Int64 // what may have reached the server
	go func(client mqtt.Client, lost <-chan struct{}) {
		for i := 0; ; i++ {
			sending.Store(int64(i + 1))
			token := c.send(client, i)
			select {
			case tokens <- token:
			case <-lost:
				return
			}
		}
	}(c.client, c.lost)
	for failed := false; !failed; {
		select {
		case token := <-tokens:
			select {
			case <-token.Done():
			case <-c.lost: // what is acknowledged by now may be told by now or later
				failed = !token.WaitTimeout(time.Millisecond)
			}
			if failed = failed || token.Error() != nil; !failed {
				if c.acked++; c.acked == 1 {
					firstAck <- struct{}{}
				}
			}
		case <-c.lost:
			failed = len(tokens) == 0
		}
	}
	<-c.lost
	c.sent = int(sending.Load())
}

// resend publishes what was not acknowledged.
func (c *crashClient) resend(t *testing.T) {
	t.Helper()
	var tokens []mqtt.Token
	for i := c.acked; i < c.sent; i++ {
		tokens = append(tokens, c.send(c.client, i))
	}
	for _, token := range tokens {
		if !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatalf("send again: %v", token.Error())
		}
	}
	c.client.Disconnect(0)
}

// programDir is where the program is built, once for all tests of this process.
var programDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if programDir != "" {
		_ = os.RemoveAll(programDir) // a leftover of a test is no failure of it
	}
	os.Exit(code)
}

var buildOnce = sync.OnceValue(func() (err error) {
	if programDir, err = os.MkdirTemp("", "greenroom-test-"); err != nil {
		return err
	}
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(programDir, "greenroom"), ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
})

// build returns the built program.
func build(t *testing.T) string {
	t.Helper()
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programDir, "greenroom")
}

// process is the program, serving.
type process struct {
	cmd        *exec.Cmd
	http, mqtt string
	errors     *strings.Builder
}

// startProcess starts the program on a directory, with additions to its environment.
func startProcess(t *testing.T, binary, dir string, env ...string) *process {
	t.Helper()
	args := []string{"--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--data", dir}
	if address := pgtest.Address(t, dir); address != "" {
		args = append(args[:len(args)-2], "--store", address)
	}
	return startServe(t, binary, env, args...)
}

// startServe starts greenroom serve, and waits until clients can connect.
func startServe(t *testing.T, binary string, env []string, args ...string) *process {
	t.Helper()
	p := &process{errors: &strings.Builder{}}
	p.cmd = exec.CommandContext(context.Background(), binary, append([]string{"serve"}, args...)...)
	p.cmd.Stderr, p.cmd.Env = p.errors, append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // nearly all are dead by then
	lines := bufio.NewScanner(out)
	for p.mqtt == "" && lines.Scan() {
		switch fields := strings.Fields(lines.Text()); fields[0] {
		case "dashboard":
			p.http = strings.Trim(strings.TrimPrefix(fields[1], "http://"), "/")
		case "mqtt":
			p.mqtt = strings.TrimPrefix(fields[1], "mqtt://")
		}
	}
	if p.mqtt == "" {
		t.Fatalf("the server did not start: %v\n%s", p.cmd.Wait(), p.errors)
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // ends with the process
	return p
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the server ended by itself: %v\n%s", err, p.errors)
	}
}
