package persist_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
	"github.com/greenroom-go/greenroom/sim"
)

// mistake is one that is planted, to see that it is found.
type mistake string

const (
	none         mistake = ""
	noSync       mistake = "the journal does not sync"
	leavesEarly  mistake = "a handler tells with another context"
	forgetsRetry mistake = "a commit that fails is taken for one that has succeeded"
)

// process is a node with three accounts, which is crashed at points of its commits and started
// again, and an observer on another node, which compares all that it is told with the journal.
type process struct {
	w        *sim.World
	mistake  mistake
	crashes  map[int]bool // at which points
	points   int          // passed so far
	node     *sim.Node
	journal  *memory.Journal
	accounts []actor.Ref[msg]
	observer actor.Ref[report]
	reports  int
	starting bool                         // what is written then is no point
	spawn    func(p *persist.Persistence) // spawns something else than the accounts, nil for these
	opened   func(p *persist.Persistence) // does something beside, nil for nothing
}

// report is what the observer is told: the state after that number of the account.
type report struct {
	id     string
	n      uint64
	sum    int
	failed bool // the handler that has sent it has failed
}

func newProcess(w *sim.World, mistake mistake, crashes ...int) *process {
	p := &process{w: w, mistake: mistake, crashes: map[int]bool{}}
	for _, c := range crashes {
		p.crashes[c] = true
	}
	p.observer = actor.SpawnFunc(w.Node("elsewhere").System(), "observer", func(_ *actor.Context[report], r report) error {
		p.reports++
		p.compare(r)
		p.point("released")
		return nil
	})
	p.start()
	return p
}

// point is a point at which the process may be crashed.
func (p *process) point(name string) {
	if p.starting {
		return
	}
	p.points++
	if p.crashes[p.points] {
		p.w.Logf("crash at point %d: %s", p.points, name)
		p.node.Crash()
	}
}

// start starts the process, for the first time or after a crash.
func (p *process) start() {
	w := p.w
	p.starting = true
	defer func() { p.starting = false }()
	p.node = w.Node("process")
	file, err := p.node.Disk().Open("journal")
	for err != nil {
		file, err = p.node.Disk().Open("journal")
	}
	for p.node.Disk().Sync(w.Context()) != nil { //nolint:revive // until it succeeds
	}
	journal, err := memory.Open(w.Context(), &pointFile{file, p})
	for err != nil {
		journal, err = memory.Open(w.Context(), &pointFile{file, p})
	}
	p.journal = journal
	persistence, err := persist.Open(w.Context(), p.node.System(), &pointJournal{journal, p}, persist.Config{Types: types, Ahead: 4})
	if err != nil {
		w.Fatalf("open: %v", err)
	}
	if p.opened != nil {
		p.opened(persistence)
	}
	if p.spawn != nil {
		p.spawn(persistence)
		return
	}
	p.accounts = nil
	for i := range 3 {
		p.accounts = append(p.accounts, persist.Spawn(persistence, p.node.System(), fmt.Sprint("account-", i), func() *saver { return &saver{} }, persist.Every(3, 0)))
	}
}

// restart starts the process again if it has crashed.
func (p *process) restart() {
	if p.w.Node("process") != p.node {
		p.start()
	}
}

// send tells an account to record an event, or several, and to report; or only to report.
func (p *process) send(to, events int, fails bool) {
	ref := p.accounts[to]
	ref.Tell(p.w.Context(), msg{do: func(ctx *actor.Context[msg], a *account) error {
		var with context.Context = ctx
		if p.mistake == leavesEarly {
			with = p.w.Context()
		}
		for i := range events {
			a.Record(added{i + 1})
		}
		p.observer.Tell(with, report{ref.PID().Path(), a.numbers, a.sum, fails})
		if fails {
			return fmt.Errorf("broken")
		}
		return nil
	}})
}

// compare fails the run when what has left is not durable: when the journal does not have it.
func (p *process) compare(r report) {
	events := p.events(r.id)
	if r.failed {
		p.w.Fatalf("%s has told of something in a handler that has failed", r.id)
	}
	if r.n > uint64(len(events)) {
		p.w.Fatalf("%s has told of number %d, and the journal has %d", r.id, r.n, len(events))
	}
	if sum := p.sum(events[:r.n]); sum != r.sum {
		p.w.Fatalf("%s has told of %d with number %d, and the journal comes to %d", r.id, r.sum, r.n, sum)
	}
}

// events are all that the journal has of an id.
func (p *process) events(id string) []persist.Record {
	list, err := p.journal.Events(context.Background(), id, 0, persist.PageRecords)
	if err != nil {
		p.w.Fatalf("read events: %v", err)
	}
	return list
}

// sum adds up events, which must be without a gap.
func (p *process) sum(events []persist.Record) (sum int) {
	for i, e := range events {
		v, err := types.Decode(e.Type, e.Data)
		if err != nil || e.Number != uint64(i+1) {
			p.w.Fatalf("event %d has number %d, %v", i+1, e.Number, err)
		}
		sum += v.(added).N
	}
	return sum
}

// run sends the messages, with a restart whenever the process has crashed, and returns how many
// points it has passed.
func (p *process) run() int {
	told := map[string]report{}
	for i := range 12 {
		p.send(i%3, i%4, i == 7)
		if i%2 == 0 {
			p.w.Settle()
		}
		p.restart()
	}
	p.w.Advance(5 * time.Second)
	p.restart()
	p.w.Heal()
	p.crashes = nil
	before := p.reports // the rest may show that nothing leaves too early because nothing leaves at all
	for i := range 3 {  // everything that is in the journal is in the actors as well
		p.send(i, 1, false)
	}
	p.w.Advance(10 * time.Second)
	if n := p.reports - before; n < 3 {
		p.w.Fatalf("nothing is wrong any more, and of 3 reports %d have left", n)
	}
	points := p.points
	for i := range 3 {
		id := p.accounts[i].PID().Path()
		events := p.events(id)
		told[id] = report{id: id, n: uint64(len(events)), sum: p.sum(events)}
	}
	p.node.Crash() // and again after a last crash
	p.start()
	for i := range 3 {
		id := p.accounts[i].PID().Path()
		if events := p.events(id); uint64(len(events)) != told[id].n || p.sum(events) != told[id].sum {
			p.w.Fatalf("after a crash in which nothing was on its way: %+v, it was %+v", events, told[id])
		}
		if err := persist.Verify(context.Background(), p.journal, types, id, func() *saver { return &saver{} }); err != nil {
			p.w.Fatalf("%v", err)
		}
	}
	return points
}

// pointJournal is a journal whose commits are points of a crash.
type pointJournal struct {
	persist.Journal
	p *process
}

func (j *pointJournal) Commit(ctx context.Context, b *persist.Batch) error {
	j.p.point("taken")
	err := j.Journal.Commit(ctx, b)
	j.p.point("answered")
	if j.p.mistake == forgetsRetry {
		return nil
	}
	return err
}

// pointFile is a file whose writes and syncs are points of a crash.
type pointFile struct {
	*sim.File
	p *process
}

func (f *pointFile) WriteAt(data []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(data, off)
	f.p.point("written")
	return n, err
}

func (f *pointFile) Sync(ctx context.Context) error {
	if f.p.mistake == noSync {
		return nil
	}
	err := f.File.Sync(ctx)
	f.p.point("synced")
	return err
}

func TestCommitPointEach(t *testing.T) {
	points := 0
	sim.Check(t, sim.Options{Runs: 1, TwiceEvery: -1}, func(w *sim.World) { points = newProcess(w, none).run() })
	if points < 20 {
		t.Fatalf("only %d points", points)
	}
	for at := 1; at <= points; at++ {
		sim.Check(t, sim.Options{Runs: 1, TwiceEvery: -1}, func(w *sim.World) { newProcess(w, none, at).run() })
	}
}

func TestCommitPointPairs(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 60, Faults: sim.Faults{Panic: 0.02, Disk: sim.DiskFaults{Fail: 0.1}, Swarm: true}}, func(w *sim.World) {
		first := 1 + w.Rand().IntN(60)
		newProcess(w, none, first, first+1+w.Rand().IntN(30)).run()
	})
}

func TestCommitPointFindsPlantedMistakes(t *testing.T) {
	for _, m := range []mistake{noSync, leavesEarly, forgetsRetry} {
		_, found := sim.Find(t, sim.Options{Runs: 200, Faults: sim.Faults{Disk: sim.DiskFaults{Fail: 0.1}}}, func(w *sim.World) {
			newProcess(w, m, 1+w.Rand().IntN(60)).run()
		})
		if !found {
			t.Errorf("not found: %s", m)
		}
	}
}
