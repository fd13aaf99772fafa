package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
)

// brokenLinks are connections of which that with the node "ended" has ended.
type brokenLinks struct{}

func (brokenLinks) Meet(string, string)    {}
func (brokenLinks) Lose(string, uint32)    {}
func (brokenLinks) Connect(string, uint32) {}
func (brokenLinks) Ended() func(string, uint32) bool {
	return func(node string, _ uint32) bool { return node == "ended" }
}
func (brokenLinks) Refuses(context.Context, cluster.Record, string) bool { return true }

// witnessed is a node beside "ended", and others that are witnesses as the test wants them.
type witnessed struct {
	*cluster.Node
	k      *actortest.Kit
	engine *memory.Engine
	joined chan struct{} // closed once Node is set
}

func newWitnessed(k *actortest.Kit, witnesses map[string]func(ctx *actor.Context[any], n *witnessed) error) *witnessed {
	n := &witnessed{k: k, engine: new(memory.Engine), joined: make(chan struct{})}
	n.put("ended", cluster.Record{Join: 1, State: cluster.StateUp, Addr: "somewhere"})
	for name, see := range witnesses {
		router := actor.SpawnFunc(k.System(), name, func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(cluster.Probe); ok {
				<-n.joined
				answer := actor.Promise(ctx, m)
				if err := see(ctx, n); err != nil {
					answer.Reject(err)
				} else {
					answer.Resolve(true)
				}
			}
			return nil
		})
		n.put(name, cluster.Record{Join: 1, State: cluster.StateUp, Router: router.PID().String()})
	}
	cfg := cluster.Config{Engine: n.engine, TTL: time.Hour}
	cfg.SetLinks(brokenLinks{})
	var err error
	if n.Node, err = cluster.Join(k.System(), cfg); err != nil {
		k.T().Fatal(err)
	}
	close(n.joined)
	return n
}

func (n *witnessed) put(name string, r cluster.Record) {
	value, err := json.Marshal(r)
	if err == nil {
		_, err = n.engine.Put(n.k.Context(), "node/"+name, value, 0)
	}
	if err != nil {
		n.k.T().Fatal(err)
	}
}

// expectDead checks that "ended" is declared dead.
func (n *witnessed) expectDead() {
	n.k.T().Helper()
	var r cluster.Record
	e, err := n.engine.Get(n.k.Context(), "node/ended")
	if err == nil {
		err = json.Unmarshal(e.Value, &r)
	}
	if err != nil || r.State != cluster.StateDead {
		n.k.T().Errorf("the record is %+v, %v: want one that is dead", r, err)
	}
}

var errNotSeen = errors.New("not seen")

// TestOneWitnessIsEnough has others answer that see nothing before the first answer is used.
func TestOneWitnessIsEnough(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		after := func(d time.Duration, err error) func(ctx *actor.Context[any], n *witnessed) error {
			return func(ctx *actor.Context[any], n *witnessed) error {
				n.KeepBusy(time.Second)
				_ = ctx.Sleep(d)
				return err
			}
		}
		n := newWitnessed(k, map[string]func(ctx *actor.Context[any], n *witnessed) error{
			"no": after(10*time.Millisecond, errNotSeen), "yes": after(20*time.Millisecond, nil),
			"later": after(30*time.Millisecond, errNotSeen), "last": after(40*time.Millisecond, nil),
		})
		k.Advance(5 * time.Second)
		n.expectDead()
	})
}

func TestAProofWithoutAnOutcomeIsBegunAnew(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n := newWitnessed(k, map[string]func(ctx *actor.Context[any], n *witnessed) error{
			"yes": func(*actor.Context[any], *witnessed) error { return nil },
		})
		k.Settle() // the router knows who there is
		n.HideRouter(true)
		k.Advance(time.Second)
		n.HideRouter(false)
		k.Advance(cluster.ProofAgain)
		n.expectDead()
	})
}
