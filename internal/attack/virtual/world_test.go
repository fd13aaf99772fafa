package virtual_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// nature is what a round is drawn as.
type nature struct {
	faults    bool // actors fail
	kills     bool
	slow      bool // activations take time
	reentrant bool
	inline    bool
	early     bool // the end comes while letters are sent
}

// world is a round.
type world struct {
	attacktest.Problems
	nature
	seed    uint64
	options []string // of the kind, in words
	sys     *actor.System
	kind    *cluster.Kind[mail]
	sink    actor.Ref[mail]
	keys    []*key
	byName  map[string]*key
	senders []*sender
	refs    []actor.Ref[mail] // of the senders that are actors
	book    attacktest.Book[letter]
	calm    atomic.Bool // activations do what they must and no more
	closing atomic.Bool // a shutdown has begun
	draws   atomic.Uint64
	counts  struct {
		answers, refused, downs, started, ended, passivated, killed atomic.Uint64

		ran       atomic.Uint64 // handlers
		orders    atomic.Uint64 // messages that come to nothing if whom they are for ends
		deadNotes atomic.Uint64 // dead letters that are no letters
	}

	mu      sync.Mutex
	notices []*notice
}

// rand returns a source for what has no letter: its draws depend on the interleaving.
func (w *world) rand() *rand.Rand { return rand.New(rand.NewPCG(w.seed, 1000+w.draws.Add(1))) }

func (w *world) ref(k *key) actor.Ref[mail] { return w.kind.Ref(k.name) }

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{seed: seed, byName: make(map[string]*key)}
	w.faults, w.kills, w.slow = r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(2) == 0
	w.reentrant, w.early = r.IntN(4) == 0, r.IntN(4) == 0
	w.sys = actor.NewSystem("attack", actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithAskTimeout(10*time.Minute))
	w.sink = actor.SpawnFunc(w.sys, "sink", w.receive)
	actor.Subscribe(w.sys, actor.SpawnFunc(w.sys, "listener", w.listen))
	for i := range 1 + r.IntN(8) {
		k := &key{name: strconv.Itoa(i), w: w, seen: make(map[*sender]int)}
		w.keys = append(w.keys, k)
		w.byName[k.name] = k
	}
	kind, err := cluster.RegisterSpawned(cluster.Alone(w.sys), "virtual", w.spawn, w.drawOptions(r)...)
	if err != nil {
		panic(err)
	}
	w.kind = kind
	return w
}

// playRound plays a round, and returns what is wrong.
func playRound(seed uint64, total *tally) []string {
	before := runtime.NumGoroutine()
	w := newWorld(seed)
	w.start()
	over := (w.early || w.run()) && w.shutDown() &&
		w.Await("goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	if !over {
		return append(w.Found(), w.evidence()...)
	}
	w.judge()
	total.add(w)
	if problems := w.Found(); len(problems) > 0 {
		return append(problems, w.String())
	}
	return nil
}

func (w *world) String() string {
	return fmt.Sprintf("  %+v: %s", w.nature, strings.Join(w.options, ", "))
}

// start starts the senders.
func (w *world) start() {
	for i := range outsiders + insiders {
		r := rand.New(rand.NewPCG(w.seed, uint64(i)+2))
		if i < outsiders {
			s := w.newSender(fmt.Sprint("outsider", i), 40+r.IntN(160), r)
			go s.send()
			continue
		}
		s := w.newSender(fmt.Sprint("insider", i), 60, r)
		ref := actor.Spawn(w.sys, s.name, func() *sender { return s })
		ref.Tell(context.Background(), mail{})
		w.refs = append(w.refs, ref)
	}
}

// run waits until nothing is left to do.
func (w *world) run() bool {
	if !w.Await("senders", func() bool { return areOver(w.senders) }) {
		return false
	}
	w.calm.Store(true)
	return w.Await("letters and notices", func() bool { w.stopAll(); return len(w.missing()) == 0 }) &&
		w.Await("activations to end", func() bool { w.stopAll(); return w.kind.Active() == 0 }) &&
		w.Await("watches and links to end", func() bool { return len(w.bonds()) == 0 })
}

// areOver reports whether senders have no steps left.
func areOver(senders []*sender) bool {
	for _, s := range senders {
		if !attacktest.IsClosed(s.over) {
			return false
		}
	}
	return true
}

// stopAll ends the activations, so that whoever watches them gets a Down.
func (w *world) stopAll() {
	for _, k := range w.keys {
		w.ref(k).Stop()
	}
}

// shutDown shuts down, and waits for the senders that do not end with the system.
func (w *world) shutDown() bool {
	w.closing.Store(true)
	over := make(chan struct{})
	go func() {
		defer close(over)
		if report, err := w.sys.Shutdown(context.Background()); err != nil || len(report.Unfinished) > 0 {
			w.Report("shutdown: %v: %+v", err, report.Unfinished)
		}
	}()
	return w.Await("shutdown", func() bool { return attacktest.IsClosed(over) }) &&
		w.Await("outsiders", func() bool { return areOver(w.senders[:outsiders]) })
}
