//go:build unix

package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist/jetstream"
)

const (
	observer = "node-t" // the test's own process
	engine   = "engine" // in the lines
	askers   = 12
	patience = 3 * time.Minute // for what takes seconds

	startAgain     = 50 * time.Millisecond // until a node that has failed to start is started again, and twice as long each time
	startAgainMost = 2 * time.Second
)

var nodeNames = []string{"node-a", "node-b", "node-c"}

// speeds are those of the nodes' clocks.
var speeds = map[string]float64{"node-a": 0.98, "node-b": 1, "node-c": 1.02}

// world is a round.
type world struct {
	t        *testing.T
	ctx      context.Context
	rand     *rand.Rand
	nats     string // the address of the server
	lines    *lines
	evidence *evidence
	keys     []string
	ttl      time.Duration
	talks    bool      // the nodes tell numbers
	until    time.Time // a fault that could take long ends then
	m        *member

	mu      sync.Mutex
	procs   map[string]*process
	closing bool
	all     sync.WaitGroup // those who wait for processes
}

// process is a node.
type process struct {
	name  string
	cmd   *exec.Cmd
	ready chan struct{} // it listens
	ended chan struct{}
	why   string // it has ended by itself
}

// newWorld starts three nodes. Whichever ends is started again until the world ends.
func newWorld(ctx context.Context, t *testing.T, seed uint64, ttl time.Duration, talks bool) *world {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Unsynced: true}) // nobody kills it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w := &world{
		t: t, ctx: ctx, rand: rand.New(rand.NewPCG(seed, seed)), nats: strings.TrimPrefix(s.URL(), "nats://"), ttl: ttl, talks: talks, evidence: newEvidence(),
		lines: newLines(append(slices.Clone(nodeNames), observer)...), procs: make(map[string]*process),
	}
	for i := range 12 {
		w.keys = append(w.keys, fmt.Sprint("k", i))
	}
	addr, target, stop := w.lines.listen(t, "", observer)
	t.Cleanup(stop)
	if w.m, err = join(ctx, nodeConfig{Name: observer, NATS: "nats://" + w.nats, Advertise: addr, TTL: ttl}, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.m.close)
	target <- w.m.node.Remote().Addr().String()
	t.Cleanup(w.end)
	for _, name := range nodeNames {
		w.start(name, 0)
	}
	for _, name := range nodeNames {
		w.await(name+" listens", func() bool { return closed(w.proc(name).ready) })
	}
	return w
}

// start starts a node. failed is how many before it have ended without being ready.
func (w *world) start(name string, failed int) {
	peers, target, stopPeers := w.lines.listen(w.t, "", name)
	nc, natsTarget, stopNATS := w.lines.listen(w.t, name, engine)
	natsTarget <- w.nats
	c := nodeConfig{Name: name, NATS: "nats://" + nc, Advertise: peers, TTL: w.ttl, Speed: speeds[name]}
	if w.talks {
		c.Talks = w.keys[:talkKeys]
	}
	text, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := killtest.Command(w.t, nil, childNode+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	p := &process{name: name, cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{})}
	w.mu.Lock()
	w.procs[name] = p
	closing := w.closing
	w.mu.Unlock()
	if closing {
		p.signal(syscall.SIGKILL)
	}
	w.all.Go(func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // what was killed may have said half a line
			}
			switch what, rest, _ := strings.Cut(strings.TrimSpace(line), " "); what {
			case "listens":
				target <- rest
				close(p.ready)
			case "ended":
				p.why = rest
			default:
				w.evidence.add(line)
			}
		}
		_ = cmd.Wait()
		stopPeers() // and not before: until then it may live
		stopNATS()
		if p.why != "" {
			w.t.Logf("%s has ended: %s", name, p.why)
		}
		if w.again(p, &failed) {
			w.start(name, failed)
		}
		close(p.ended)
	})
}

// again reports whether a node that has ended is to be started again. It waits before that if nodes fail to start.
func (w *world) again(p *process, failed *int) bool {
	if closed(p.ready) {
		*failed = 0
	} else {
		_ = pause.For(w.ctx, min(startAgain<<*failed, startAgainMost))
		*failed = min(*failed+1, 10)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closing
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *world) proc(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[name]
}

// signal sends a signal to a node, which may have ended just now.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// end ends all nodes.
func (w *world) end() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	for _, name := range nodeNames {
		w.proc(name).signal(syscall.SIGKILL)
	}
	w.all.Wait()
}

// await waits until something holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for !holds() {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			w.t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// some waits for a time of up to most.
func (w *world) some(most time.Duration) {
	if most <= 0 {
		return
	}
	_ = pause.For(w.ctx, time.Duration(w.rand.Int64N(int64(most))))
}

// load asks until it is ended.
func (w *world) load(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range askers {
		random := rand.New(rand.NewPCG(w.rand.Uint64(), 1))
		all.Go(func() {
			for n := 1; pause.For(ctx, time.Duration(random.Int64N(int64(20*time.Millisecond)))) == nil; n++ {
				_ = w.swap(w.keys[random.IntN(len(w.keys))], fmt.Sprintf("%d-%d", i, n), random)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// swap puts a value, by way of some node. It notes what came of it.
func (w *world) swap(key, value string, random *rand.Rand) error {
	s := swap{key: key, value: value}
	vias := w.m.vias.Refs()
	var err error
	s.began = now()
	if k := random.IntN(2 * len(vias)); k < len(vias) {
		s.before, err = actor.AskFor[string](w.ctx, vias[k], Via{Key: key, Value: value}, actor.Within(askLimit))
	} else {
		s.before, err = actor.AskFor[string](w.ctx, w.m.kind.Ref(key), Swap{Value: value}, actor.Within(askLimit))
	}
	s.over, s.known = now(), err == nil
	w.evidence.addSwap(s)
	return err
}

// answer waits until all keys have answered what was asked after the call, and returns how long that took.
func (w *world) answer(what string) time.Duration {
	w.t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	mute := make([]error, len(w.keys)) // why the last swap of a key has failed
	for i, key := range w.keys {
		random := rand.New(rand.NewPCG(w.rand.Uint64(), 2))
		all.Go(func() {
			for n := 1; w.ctx.Err() == nil && time.Since(began) < patience; n++ {
				if mute[i] = w.swap(key, fmt.Sprintf("%s-%d-%d-%d", what, began.UnixNano(), i, n), random); mute[i] == nil {
					return
				}
			}
		})
	}
	all.Wait()
	if w.ctx.Err() != nil {
		w.t.Fatalf("after %s: not all keys answer", what)
	}
	for i, err := range mute {
		if err != nil {
			w.t.Fatalf("after %s: %s has not answered in %v; the last swap: %v; the owners: %q", what, w.keys[i], patience, err, owners(w.m.kind, w.keys))
		}
	}
	return time.Since(began)
}

// converge waits until all nodes know the same owners, and all keys answer.
func (w *world) converge() {
	w.t.Helper()
	w.answer("the end")
	why := ""
	w.await("all nodes know the same owners", func() bool {
		want := owners(w.m.kind, w.keys)
		refs := w.m.vias.Refs()
		if len(refs) != len(nodeNames)+1 || slices.Contains(want, "") {
			why = fmt.Sprintf("%d nodes are known, with the owners %q", len(refs), want)
			return false
		}
		for _, ref := range refs {
			got, err := actor.AskFor[[]string](w.ctx, ref, Owners{Keys: w.keys}, actor.Within(askLimit))
			if err != nil || !slices.Equal(got, want) {
				why = fmt.Sprintf("%s knows %q, %v, and not %q", ref.PID(), got, err, want)
				return false
			}
		}
		return true
	})
	if w.t.Failed() {
		w.t.Log(why)
	}
}

// mostConsumers is how many consumers a stream has at most: a few for each member, and those of members that were
// killed or stopped, which the server has for half a minute. It takes a thousand.
const mostConsumers = 100

// countConsumers finds streams on which members leave consumers.
func (w *world) countConsumers() (wrong []string) {
	w.t.Helper()
	nc, err := nats.Connect("nats://" + w.nats)
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	var counts []string
	for _, name := range []string{mapStream, journalStream} {
		stream, err := js.Stream(w.ctx, name)
		if err != nil {
			w.t.Fatal(err)
		}
		n := stream.CachedInfo().State.Consumers
		counts = append(counts, fmt.Sprintf("%s %d", name, n))
		if n > mostConsumers {
			wrong = append(wrong, fmt.Sprintf("the stream %s has %d consumers, want at most %d", name, n, mostConsumers))
		}
	}
	w.t.Logf("soak: consumers of the streams: %s", strings.Join(counts, ", "))
	return wrong
}

// readJournal has what is in the journal be judged.
func (w *world) readJournal() {
	w.t.Helper()
	nc, err := nats.Connect("nats://" + w.nats)
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	journal, err := jetstream.Open(w.ctx, nc, jetstream.Options{Stream: journalStream})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, key := range w.keys {
		for after := uint64(0); ; {
			records, err := journal.Events(w.ctx, "/reg/"+key, after, 1000)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				after = r.Number
				if r.Type == "" {
					continue
				}
				value, err := types.Decode(r.Type, r.Data)
				if err != nil {
					w.t.Fatal(err)
				}
				w.evidence.journal[key] = append(w.evidence.journal[key], value.(Swapped))
			}
		}
	}
	if err := journal.Close(); err != nil {
		w.t.Error(err)
	}
}

// leave has a node leave in order, and waits until its successor is there.
func (w *world) leave(name string) {
	p := w.proc(name)
	p.signal(syscall.SIGTERM)
	w.await(name+" leaves", func() bool { return closed(p.ended) })
	w.await(name+" is there again", func() bool { return closed(w.proc(name).ready) })
}

// jitter has messages between nodes take longer now and then, each way by itself.
func (w *world) jitter() (end func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var all sync.WaitGroup
	way := func(from, to string, random *rand.Rand) {
		for blocked := false; pause.For(ctx, time.Duration(random.Int64N(int64(60*time.Millisecond)))) == nil; {
			blocked = !blocked
			w.lines.block(from, to, blocked, false)
		}
		w.lines.block(from, to, false, false)
	}
	for _, from := range nodeNames {
		for _, to := range nodeNames {
			if from != to {
				random := rand.New(rand.NewPCG(w.rand.Uint64(), 3))
				all.Go(func() { way(from, to, random) })
			}
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// busiest returns the node with most keys.
func (w *world) busiest() string {
	count := make(map[string]int)
	for _, name := range owners(w.m.kind, w.keys) {
		count[name]++
	}
	return slices.MaxFunc(nodeNames, func(a, b string) int { return count[a] - count[b] })
}

// fault is what goes wrong: it ends when all is as it was.
type fault struct {
	name string
	do   func(w *world, name string) string
}

var faults = []fault{
	{"is killed", func(w *world, name string) string {
		w.proc(name).signal(syscall.SIGKILL)
		return fmt.Sprintf("all keys have answered after %v", w.answer("kill"))
	}},
	{"is stopped", func(w *world, name string) string {
		p := w.proc(name)
		p.signal(syscall.SIGSTOP)
		took := w.answer("stop")
		p.signal(syscall.SIGCONT)
		return fmt.Sprintf("all keys have answered after %v, with a TTL of %v", took, ttl)
	}},
	{"is stopped for a moment", func(w *world, name string) string {
		p := w.proc(name)
		p.signal(syscall.SIGSTOP)
		w.some(ttl)
		p.signal(syscall.SIGCONT)
		return fmt.Sprintf("all keys have answered %v after that", w.answer("moment"))
	}},
	{"has a clock that jumps", func(w *world, name string) string {
		s := jumpAhead
		if w.rand.IntN(2) == 0 {
			s = jumpBack
		}
		w.proc(name).signal(s)
		_ = pause.For(w.ctx, w.ttl) // one jump in a lease
		return fmt.Sprintf("by %v, %v: all keys have answered %v after that", jump, s, w.answer("jump"))
	}},
	{"is cut off from the engine", func(w *world, name string) string {
		w.lines.cut(name, engine, true, w.rand.IntN(2) == 0)
		took := w.answer("cut")
		w.some(ttl)
		w.lines.cut(name, engine, false, false)
		return fmt.Sprintf("all keys have answered after %v, with a TTL of %v", took, ttl)
	}},
	{"is cut off from everything", func(w *world, name string) string {
		for _, other := range w.lines.names {
			w.lines.cut(name, other, other != name, true)
		}
		w.lines.cut(name, engine, true, true)
		took := w.answer("isolation")
		for _, other := range slices.Concat(w.lines.names, []string{engine}) {
			w.lines.cut(name, other, false, false)
		}
		return fmt.Sprintf("all keys have answered after %v, with a TTL of %v", took, ttl)
	}},
	{"is cut off from another node", func(w *world, name string) string {
		others := slices.DeleteFunc(slices.Clone(w.lines.names), func(other string) bool { return other == name })
		other := others[w.rand.IntN(len(others))]
		w.lines.block(name, other, true, w.rand.IntN(2) == 0)
		if w.rand.IntN(2) == 0 { // or one way only
			w.lines.block(other, name, true, false)
		}
		w.some(ttl / 2)
		w.lines.cut(name, other, false, false)
		return fmt.Sprintf("all keys have answered %v after that", w.answer("pair"))
	}},
	{"leaves", func(w *world, name string) string {
		began := time.Now()
		w.leave(name)
		return fmt.Sprintf("and another one has come after %v", time.Since(began))
	}},
}

// longest is how long a node is stopped at most, in the long form.
const longest = time.Minute

var longFaults = append(slices.Clip(faults), fault{"is stopped for long", func(w *world, name string) string {
	p, began := w.proc(name), time.Now()
	p.signal(syscall.SIGSTOP)
	took := w.answer("long")
	w.some(min(longest, time.Until(w.until)) - time.Since(began))
	p.signal(syscall.SIGCONT)
	return fmt.Sprintf("for %v: all keys have answered after %v, with a TTL of %v", time.Since(began), took, ttl)
}})

// chaosTime has TestAClusterInTroubleLosesNothing make rounds of the long form, with random seeds.
var chaosTime = flag.Duration("chaos.time", 0, "make rounds until this `time` is over, with a seed of its own each, in place of one short round")

// afterChaos is for what follows when that time is over: the round under way ends, and is judged.
const afterChaos = 10 * time.Minute

// seedsVariable has TestAClusterInTroubleLosesNothing make a round of the long form with each of these seeds, with commas
// between them.
const seedsVariable = "GREENROOM_CHAOS_SEEDS"

// TestAClusterInTroubleLosesNothing has each fault happen to nodes under load, and judges what has come of it.
func TestAClusterInTroubleLosesNothing(t *testing.T) {
	t.Parallel()
	began := time.Now()
	round := func(i int, seed uint64, faults []fault, until time.Time) bool {
		return t.Run(fmt.Sprintf("%d/seed=%#x", i, seed), func(t *testing.T) { trouble(t, seed, faults, until) })
	}
	if list := os.Getenv(seedsVariable); list != "" {
		for i, text := range strings.Split(list, ",") {
			seed, err := strconv.ParseUint(text, 0, 64)
			if err != nil {
				t.Fatalf("%s must be numbers with commas between them, such as 0x2f,7, not %q", seedsVariable, list)
			}
			round(i+1, seed, longFaults, began.Add(time.Hour))
		}
		return
	}
	if *chaosTime <= 0 {
		round(1, 1, faults, began.Add(time.Hour))
		return
	}
	rounds, failed, until := 0, 0, began.Add(*chaosTime)
	for rounds == 0 || time.Now().Before(until) {
		if rounds++; !round(rounds, rand.Uint64(), longFaults, until) {
			failed++
		}
	}
	t.Logf("soak: chaos for %v: rounds: %d, failed: %d", time.Since(began).Round(time.Second), rounds, failed)
}

// trouble is a round: each fault happens once, as far as it can begin before a time.
func trouble(t *testing.T, seed uint64, faults []fault, until time.Time) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the round takes too long"))
	defer cancel()
	w := newWorld(ctx, t, seed, ttl, false)
	w.until = until
	w.answer("the start")
	end := w.load(ctx)
	for n, i := range w.rand.Perm(len(faults)) {
		if n > 0 && time.Now().After(until) {
			break
		}
		name := w.busiest()
		if w.rand.IntN(4) == 0 {
			name = nodeNames[w.rand.IntN(len(nodeNames))]
		}
		w.await(name+" is there", func() bool { return closed(w.proc(name).ready) })
		t.Logf("soak: %s %s: %s", name, faults[i].name, faults[i].do(w, name))
	}
	end()
	w.converge()
	consumers := w.countConsumers()
	w.end() // all that they have said is evidence now
	w.readJournal()
	for _, wrong := range append(w.evidence.judge(), consumers...) {
		t.Error(wrong)
	}
	known, epochs := 0, make(map[string]bool)
	for _, s := range w.evidence.swaps {
		if s.known {
			known++
		}
	}
	for _, s := range w.evidence.sights {
		epochs[fmt.Sprint(s.key, s.epoch)] = true
	}
	t.Logf("soak: seed %#x: of %d swaps %d were acknowledged; %d keys had %d epochs; %d moments were judged",
		seed, len(w.evidence.swaps), known, len(w.keys), len(epochs), len(w.evidence.sights))
}

// TestOrderIsKeptWhileAllNodesAreReplaced has nodes tell registers numbers while one after the other leaves in
// order, and another one takes its place.
func TestOrderIsKeptWhileAllNodesAreReplaced(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the round takes too long"))
	defer cancel()
	w := newWorld(ctx, t, 1, time.Minute, true) // no lease ends while they leave
	w.answer("the start")
	calm := w.jitter()
	for range soaktest.Rounds(t, 1, 10) {
		for _, name := range nodeNames {
			w.leave(name)
			w.answer("a leave")
		}
	}
	calm()
	for _, ref := range w.m.vias.Refs() {
		if _, err := actor.AskFor[bool](ctx, ref, Hush{}); err != nil {
			t.Fatalf("%s: %v", ref.PID(), err)
		}
	}
	w.await("all messages have come", w.evidence.complete)
	w.end()
	for _, wrong := range append(w.evidence.inOrder(), w.evidence.atMostOne()...) {
		t.Error(wrong)
	}
	t.Logf("soak: %d messages have come in order, over %d moments with a lease", len(w.evidence.notices), len(w.evidence.sights))
}
