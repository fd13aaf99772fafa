//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

const (
	killBar   = 2 * time.Second           // from the end of a process until all others answer
	freezeBar = nodeTTL + 2*time.Second   // from when it stops
	wide      = 20 * time.Second          // for both on a machine that does something else
	frozen    = nodeTTL + time.Second     // longer than a lease
	loadPace  = 20 * time.Millisecond     // between the readings of a sender
	tryWithin = 2500 * time.Millisecond   // of a sender, which then sends the reading again
	askWithin = wide - 5*time.Millisecond // of what is measured: a client that waits
)

// TestClusterInTroubleLosesNothing has three nodes under load by HTTP and MQTT, and trouble: the owner of the store and others
// are killed, stopped and drained, and PostgreSQL is restarted. All readings that were acknowledged are there, once
// each, and all nodes answer soon. GREENROOM_CRASH_SEED repeats the choices of a run.
func TestClusterInTroubleLosesNothing(t *testing.T) {
	t.Parallel()
	seed := crashSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	faults := []fault{{"kill the owner", killBar, killOwner}, {"freeze the owner", freezeBar, freezeOwner}}
	rounds := soaktest.Rounds(t, len(faults), 30)
	store, more := "", []fault{{"kill another", killBar, killAnother}, {"drain the owner", killBar, drainOwner}}
	if rounds > len(faults) {
		server := pgtest.Start(t)
		store = server.Database(t)
		more = append(more, fault{"cut the owner off from PostgreSQL", freezeBar, cutOwner})
		more = append(more, fault{"restart PostgreSQL", freezeBar, func(c *clusterOf, _ *rand.Rand) time.Duration { return restartPostgres(c, server) }})
		for all := append(slices.Clone(faults), more...); len(faults) < rounds; {
			faults = append(faults, all[len(faults)%len(all)])
		}
		rng.Shuffle(len(faults), func(i, k int) { faults[i], faults[k] = faults[k], faults[i] })
	} else {
		store = pgtest.Database(t)
	}
	c := startCluster(t, store, 3, rounds > 2)
	t.Cleanup(c.tell)
	c.owner()
	loads := startLoad(t, c)
	late := 0
	for i, f := range faults {
		_ = pause.For(t.Context(), time.Duration(rng.Int64N(int64(time.Second)))) // the random moment is what is tested
		took := f.do(c, rng)
		t.Logf("soak: fault %d of %d, %s: all others answer after %v (bar %v)", i+1, len(faults), f.name, took.Round(time.Millisecond), f.bar)
		if took > f.bar {
			late++
		}
		if took > wide {
			t.Errorf("%s: all others answer after %v only", f.name, took)
		}
		c.whole()
	}
	acked := 0
	for _, l := range loads {
		acked += l.judge(t, c.nodes[rng.IntN(len(c.nodes))].http)
	}
	t.Logf("soak: seed %d, %d faults, %d above the bar, %d readings acknowledged", seed, len(faults), late, acked)
	if acked < 20*len(loads) {
		t.Errorf("only %d acknowledged readings: this tests nothing", acked)
	}
}

// fault is one kind of trouble. do returns how long it took until all nodes answered that could.
type fault struct {
	name string
	bar  time.Duration
	do   func(c *clusterOf, rng *rand.Rand) time.Duration
}

func killOwner(c *clusterOf, _ *rand.Rand) time.Duration { return c.killed(c.owner()) }

func killAnother(c *clusterOf, rng *rand.Rand) time.Duration {
	others := c.but(c.owner())
	return c.killed(others[rng.IntN(len(others))])
}

// killed kills a node, and starts it again.
func (c *clusterOf) killed(n *clusterNode) time.Duration {
	began := time.Now()
	n.kill(c.t)
	took := c.answer(began, c.but(n))
	c.start(n)
	return took
}

// freezeOwner stops the owner for longer than its lease.
func freezeOwner(c *clusterOf, _ *rand.Rand) time.Duration {
	n, began := c.owner(), time.Now()
	n.signal(c.t, syscall.SIGSTOP)
	took := c.answer(began, c.but(n))
	_ = pause.For(c.t.Context(), frozen-time.Since(began)) // then it wakes anyway
	n.signal(c.t, syscall.SIGCONT)
	return took
}

// cutOwner has the owner get no answer of the database for longer than its lease.
func cutOwner(c *clusterOf, _ *rand.Rand) time.Duration {
	n, began := c.owner(), time.Now()
	way := c.ways[n]
	way.Silent.Store(true)
	way.ToServer.Store(0)
	way.FromServer.Store(0)
	took := c.answer(began, c.but(n))
	_ = pause.For(c.t.Context(), frozen-time.Since(began)) // then it is healed anyway
	way.Heal()
	return took
}

// drainOwner drains the owner, and replaces it.
func drainOwner(c *clusterOf, _ *rand.Rand) time.Duration {
	n, began := c.owner(), time.Now()
	c.run("drain", "--node", n.name)
	took := c.answer(began, c.nodes)
	c.stop(n)
	c.start(n)
	return took
}

func restartPostgres(c *clusterOf, s *pgtest.Server) time.Duration {
	if err := s.Stop(); err != nil {
		c.t.Fatal(err)
	}
	began := time.Now() // what PostgreSQL takes to end is its own
	if err := s.Restart(); err != nil {
		c.t.Fatal(err)
	}
	return c.answer(began, c.nodes)
}

// but returns the other nodes.
func (c *clusterOf) but(n *clusterNode) []*clusterNode {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(o *clusterNode) bool { return o == n })
}

// answer waits until all of these nodes have taken a reading, and returns how long after began that was.
func (c *clusterOf) answer(began time.Time, nodes []*clusterNode) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), askWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			for {
				err := n.post(ctx, "probe", `{"n":1}`)
				if err == nil {
					return
				}
				if pause.For(ctx, 10*time.Millisecond) != nil {
					c.t.Errorf("%s does not answer: %v", n.name, err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// whole waits until all nodes have a lease and one of them the store.
func (c *clusterOf) whole() {
	c.t.Helper()
	c.owner()
	for deadline := time.Now().Add(patience); ; {
		status := c.run("status")
		up := 0
		for _, n := range c.nodes {
			if containsRow(status, n.name, "up", "yes") {
				up++
			}
		}
		if up == len(c.nodes) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the cluster does not become whole:\n%s", status)
		}
	}
}

// steadyDevice is one at a node that sends readings one by one, each until it is acknowledged.
type steadyDevice struct {
	entity string
	node   *clusterNode
	sent   atomic.Int64 // the readings 1 to sent may be there
	acked  atomic.Int64 // the readings 1 to acked must be
	stop   context.CancelFunc
	ended  chan struct{}
	client mqtt.Client // nil by HTTP, or without a connection
	byMQTT bool
}

// startLoad starts two at each node.
func startLoad(t *testing.T, c *clusterOf) []*steadyDevice {
	t.Helper()
	var loads []*steadyDevice
	for _, n := range c.nodes {
		for kind, byMQTT := range map[string]bool{"http": false, "mqtt": true} {
			l := &steadyDevice{entity: "load-" + kind + "-" + n.name, node: n, byMQTT: byMQTT, ended: make(chan struct{})}
			var ctx context.Context
			ctx, l.stop = context.WithCancel(context.Background())
			// The addresses stay, also over a start of the node.
			http, broker := *n.process, "tcp://"+n.mqtt
			go l.run(ctx, &clusterNode{process: &http}, broker)
			t.Cleanup(l.end)
			loads = append(loads, l)
		}
	}
	return loads
}

func (l *steadyDevice) run(ctx context.Context, n *clusterNode, broker string) {
	defer close(l.ended)
	for i := int64(1); ctx.Err() == nil; i++ {
		l.sent.Store(i)
		body := fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, i, i)
		for {
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryWithin)
			var err error
			if l.byMQTT {
				err = l.publish(within, broker, body)
			} else {
				err = n.post(within, l.entity, body)
			}
			cancel()
			if err == nil {
				l.acked.Store(i)
				break
			}
			if ctx.Err() != nil {
				return
			}
			_ = pause.For(ctx, loadPace) // the loop looks at ctx
		}
		_ = pause.For(ctx, loadPace) // the loop looks at ctx
	}
}

// publish sends a reading by MQTT with QoS 1.
func (l *steadyDevice) publish(ctx context.Context, broker, body string) error {
	if l.client == nil {
		client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(broker).SetClientID(l.entity).SetAutoReconnect(false).SetConnectTimeout(tryWithin))
		if err := waitFor(ctx, client.Connect()); err != nil {
			client.Disconnect(0)
			return err
		}
		l.client = client
	}
	err := waitFor(ctx, l.client.Publish("e/"+l.entity+"/telemetry", 1, false, body))
	if err != nil {
		l.client.Disconnect(0)
		l.client = nil
	}
	return err
}

func waitFor(ctx context.Context, token mqtt.Token) error {
	select {
	case <-token.Done():
		return token.Error()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end ends the load.
func (l *steadyDevice) end() {
	l.stop()
	<-l.ended
	if l.client != nil {
		l.client.Disconnect(0)
		l.client = nil
	}
}

// judge ends the load, and compares what a node has with what was acknowledged.
func (l *steadyDevice) judge(t *testing.T, addr string) (acked int) {
	t.Helper()
	l.end()
	for _, wrong := range wrongReadings(history(t, addr, l.entity, "n"), l.sent.Load(), l.acked.Load()) {
		t.Errorf("%s: %s", l.entity, wrong)
	}
	return int(l.acked.Load())
}

// wrongReadings finds readings that are there and were not sent, are there more than once, or were acknowledged and are
// not there. The reading i has the time and the value i; those from 1 to sent may be there, those to acked must be.
func wrongReadings(points []point, sent, acked int64) (wrong []string) {
	there := make(map[int64]int)
	for _, p := range points {
		there[p.TS]++
		if p.TS < 1 || p.TS > sent || p.Value != float64(p.TS) {
			wrong = append(wrong, fmt.Sprintf("the reading %v at %d was never sent", p.Value, p.TS))
		}
	}
	for i := int64(1); i <= sent; i++ {
		if n := there[i]; n > 1 || n == 0 && i <= acked {
			wrong = append(wrong, fmt.Sprintf("the reading %d, of which %d are acknowledged, is there %d times", i, acked, n))
		}
	}
	return wrong
}

// TestWrongReadingsAreFound plants what TestClusterInTroubleLosesNothing looks for.
func TestWrongReadingsAreFound(t *testing.T) {
	t.Parallel()
	at := func(times ...int64) (points []point) {
		for _, ts := range times {
			points = append(points, point{TS: ts, Value: float64(ts)})
		}
		return points
	}
	for name, tt := range map[string]struct {
		points      []point
		sent, acked int64
		want        string
	}{
		"all acknowledged ones":               {at(1, 2, 3), 3, 3, ""},
		"the last one, without an answer":     {at(1, 2, 3), 3, 2, ""},
		"not the last one, without an answer": {at(1, 2), 3, 2, ""},
		"nothing":                             {nil, 1, 0, ""},
		"the first one is lost":               {at(2, 3), 3, 3, "the reading 1, of which 3 are acknowledged, is there 0 times"},
		"the last acknowledged one is lost":   {at(1, 3), 3, 2, "the reading 2, of which 2 are acknowledged, is there 0 times"},
		"one is doubled":                      {at(1, 2, 2), 2, 2, "the reading 2, of which 2 are acknowledged, is there 2 times"},
		"one without an answer is doubled":    {at(1, 2, 2), 2, 1, "the reading 2, of which 1 are acknowledged, is there 2 times"},
		"one was not sent":                    {at(1, 2), 1, 1, "the reading 2 at 2 was never sent"},
		"one has another value":               {[]point{{TS: 1, Value: 2.0}}, 1, 1, "the reading 2 at 1 was never sent"},
	} {
		if wrong := strings.Join(wrongReadings(tt.points, tt.sent, tt.acked), "; "); wrong != tt.want {
			t.Errorf("%s: %q, want %q", name, wrong, tt.want)
		}
	}
}
