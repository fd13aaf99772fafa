package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// commandDevices is how many devices get commands, commandsInFlight how many are sent to
// each at once, and commandsEach by each sender: together fewer than the server keeps.
const (
	commandDevices   = 4
	commandsInFlight = 8
	commandsEach     = 20
	// commandLatest is how long after the first that was accepted the process may live: not
	// so long that all are.
	commandLatest = 150 * time.Millisecond
)

// commanded is a device that counts how often it gets each command. It acknowledges and
// answers each.
type commanded struct {
	id     string
	client mqtt.Client

	mu       sync.Mutex
	got      map[string]int  // by command, guarded by mu
	answered map[string]bool // whose answer the server has acknowledged, guarded by mu
	again    []string        // that came after that, guarded by mu
}

func (d *commanded) connect(t *testing.T, addr string) {
	t.Helper()
	o := mqtt.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(d.id).SetCleanSession(true).SetAutoReconnect(false).SetOrderMatters(false)
	d.client = mqtt.NewClient(o)
	token := d.client.Connect()
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("connect: %v", token.Error())
	}
	client := d.client
	token = client.Subscribe("e/"+d.id+"/commands", 1, func(_ mqtt.Client, m mqtt.Message) { d.take(client, m) })
	if !token.WaitTimeout(patience) || token.Error() != nil {
		t.Fatalf("subscribe: %v", token.Error())
	}
}

func (d *commanded) take(client mqtt.Client, m mqtt.Message) {
	var c struct{ ID string }
	if json.Unmarshal(m.Payload(), &c) != nil {
		return
	}
	d.mu.Lock()
	if d.answered[c.ID] {
		d.again = append(d.again, c.ID)
	}
	d.got[c.ID]++
	d.mu.Unlock()
	token := client.Publish("e/"+d.id+"/answers", 1, false, fmt.Sprintf(`{"id":%q,"result":%q}`, c.ID, c.ID))
	if token.WaitTimeout(patience) && token.Error() == nil && client.IsConnectionOpen() {
		d.mu.Lock()
		d.answered[c.ID] = true
		d.mu.Unlock()
	}
}

// TestNoCommandIsLostOrSentAfterItsAcknowledgementByKill kills the built program with
// SIGKILL at random moments while commands are sent to devices that answer: each command
// that the API has acknowledged is done in the end, with its own answer, and none comes to
// a device that has been told that its answer is kept.
func TestNoCommandIsLostOrSentAfterItsAcknowledgementByKill(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: there is no SIGKILL on Windows")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(crashSeed(t), 1))
	binary, dir := build(t), filepath.Join(t.TempDir(), "data")
	p := startProcess(t, binary, dir)
	devices := make([]*commanded, commandDevices)
	for i := range devices {
		devices[i] = &commanded{id: fmt.Sprintf("device-%d", i), got: map[string]int{}, answered: map[string]bool{}}
		c := apiOf(t, p)
		if err := c.do(t.Context(), "PUT", entityPath(devices[i].id), "application/json", `{}`, nil, "If-None-Match", "*"); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range devices {
		d.connect(t, p.mqtt)
	}
	total := 0
	for range soaktest.Rounds(t, 2, 100) {
		accepted := sendUntilKilled(t, p, devices, time.Duration(rng.Int64N(int64(commandLatest))))
		p = startProcess(t, binary, dir)
		for i, d := range devices {
			d.connect(t, p.mqtt)
			total += len(accepted[i])
		}
		for i, d := range devices {
			checkCommands(t, p, d, accepted[i])
		}
	}
	t.Logf("%d commands were accepted", total)
	if total < 10 {
		t.Errorf("only %d commands: this tests nothing", total)
	}
}

// sendUntilKilled sends commands to all devices at once, kills the process a while after
// the first was accepted, and returns the ids of those that were, by device.
func sendUntilKilled(t *testing.T, p *process, devices []*commanded, after time.Duration) [][]string {
	t.Helper()
	var sending sync.WaitGroup
	var mu sync.Mutex
	accepted := make([][]string, len(devices))
	first := make(chan struct{}, 1)
	for n := range len(devices) * commandsInFlight {
		place, parallel := n%len(devices), n%3 > 0
		sending.Go(func() {
			c := apiOf(t, p)
			defer c.close()
			for range commandsEach {
				var made commandJSON
				body := fmt.Sprintf(`{"name":"x","timeout":"1h","parallel":%v}`, parallel)
				if c.do(t.Context(), "POST", entityPath(devices[place].id)+"/commands", "application/json", body, &made) != nil {
					return // it is killed
				}
				mu.Lock()
				accepted[place] = append(accepted[place], made.ID)
				mu.Unlock()
				select {
				case first <- struct{}{}:
				default:
				}
			}
		})
	}
	<-first
	<-time.After(after) // the random moment is what is tested
	p.kill(t)
	sending.Wait()
	return accepted
}

// apiOf returns a client of a process.
func apiOf(t *testing.T, p *process) *client {
	t.Helper()
	c, err := newClient(p.http)
	if err != nil {
		t.Error(err)
	}
	return c
}

// checkCommands waits until all commands of a device are done, and compares.
func checkCommands(t *testing.T, p *process, d *commanded, accepted []string) {
	t.Helper()
	c := apiOf(t, p)
	for _, id := range accepted {
		var made commandJSON
		for until := time.Now().Add(patience); made.State != "done"; {
			if err := c.get(t.Context(), entityPath(d.id)+"/commands/"+id+"?wait=20s", &made); err != nil {
				t.Errorf("an accepted command is lost: %v", err)
				break
			}
			if made.State != "done" && time.Now().After(until) {
				t.Fatalf("an accepted command is %+v", made)
			}
		}
		if made.State == "done" && string(made.Result) != `"`+id+`"` {
			t.Errorf("the command %s has the answer %s", id, made.Result)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.again) > 0 {
		t.Errorf("%s got commands again whose answers were acknowledged: %v", d.id, d.again)
	}
}
