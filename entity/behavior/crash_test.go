package behavior

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// tally is a behavior that counts what it handles, in its state and in all kinds of effects: the state
// and each effect tell how many changes were handled before. One that is left out or handled twice
// shows in the numbers, one that is made twice in the log.
func tally() Spec {
	return Spec{Name: "tally", Keys: []string{"x"}, Handle: Stateful(func(e *Entity, n *int64, ev Event) error {
		*n++
		x, _ := ev.Value("x")
		err := errors.Join(e.SetAt(*n, sample("n", *n), entity.Sample{Key: "of", Value: x}), e.SetAttribute(entity.Attributes, value.Int(*n), "n"))
		if *n%5 == 0 {
			err = errors.Join(err, e.Command(entity.NewCommand{Name: "go", Request: value.Int(*n), Parallel: true}))
		}
		return err
	})}
}

// check checks that an entity of which n readings of x were committed, with the values 1, 2, 3 and so on,
// has each effect once.
func (p *plant) check(id string, n int64) {
	p.t.Helper()
	if state, err := p.State(p.t.Context(), "tally", id); err != nil || string(state) != strconv.FormatInt(n, 10) {
		p.t.Errorf("%s: the state is %q after %d, %v", id, state, n, err)
	}
	for _, key := range []string{"n", "of"} {
		points, _, err := p.rt.History(p.t.Context(), entity.HistoryQuery{ID: id, Key: key, To: start, Limit: 100_000})
		if err != nil || int64(len(points)) != n {
			p.t.Fatalf("%s: %d values of %s, want %d, %v", id, len(points), key, n, err)
		}
		for i, at := range points {
			if at.TS != int64(i+1) || at.Value != value.Int(at.TS) {
				p.t.Fatalf("%s: %s at %d is %v", id, key, at.TS, at.Value)
			}
		}
	}
	if got := p.attribute(id, "/n"); got != strconv.FormatInt(n, 10) {
		p.t.Errorf("%s: the attribute is %s, want %d", id, got, n)
	}
	commands, err := p.rt.OpenCommands(p.t.Context(), id)
	if err != nil || int64(len(commands)) != n/5 {
		p.t.Fatalf("%s: %d commands, want %d, %v", id, len(commands), n/5, err)
	}
	for i, c := range commands {
		if c.Request != value.Int(int64(5*(i+1))) {
			p.t.Errorf("%s: command %d asks for %v", id, i, c.Request)
		}
	}
}

// checkLog checks that each effect is in the log once, and that those of an entity are in their order.
func (p *plant) checkLog(cursor string) {
	p.t.Helper()
	p.write("last", 1, "y", 1)
	sub, err := p.rt.Changes(p.t.Context(), entity.ChangesQuery{Cursor: cursor, Edits: true, Commands: true})
	if err != nil {
		p.t.Fatal(err)
	}
	defer sub.Close()
	type source struct{ id, name string }
	last := make(map[source]uint64)
	keys := make(map[string]bool)
	for {
		c, err := sub.Next(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		if c.Entity == "last" {
			return
		}
		if c.Command != nil && c.Command.State == entity.CommandQueued {
			if keys[c.Entity+c.Command.Key] {
				p.t.Fatalf("the command %q is made twice", c.Command.Key)
			}
			keys[c.Entity+c.Command.Key] = true
		}
		if c.Origin.IsZero() {
			continue
		}
		from := source{c.Entity, c.Origin.Source}
		if c.Origin.Seq <= last[from] {
			p.t.Fatalf("%v of %d comes after that of %d", from, c.Origin.Seq, last[from])
		}
		last[from] = c.Origin.Seq
	}
}

func (p *plant) cursor() string {
	p.t.Helper()
	sub, err := p.rt.Changes(p.t.Context(), entity.ChangesQuery{Edits: true})
	if err != nil {
		p.t.Fatal(err)
	}
	defer sub.Close()
	return sub.Cursor()
}

// The store dies in the middle of a commit of a behavior, of which the caller may or may not learn that
// it was made.
func TestAfterACrashOfTheStoreNothingIsLeftOutOrDoneTwice(t *testing.T) {
	for seed := range uint64(soaktest.Rounds(t, 2, 30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := build(t)
			cursor := p.cursor()
			p.register(tally())
			written := make(map[string]int64)
			for round := range 6 {
				for i := range 100 {
					if i == 30 && round < 5 {
						p.store.Left.Store(1 + r.Int64N(8))
					}
					id := fmt.Sprint("e", r.IntN(7))
					err := p.rt.IngestFrom(t.Context(), id, entity.Origin{}, []entity.Reading{reading(written[id], "x", written[id]+1)}, 50, nil)
					if err != nil {
						t.Fatal(err)
					}
					written[id]++
				}
				if round == 5 {
					break
				}
				p = p.restart()
				for id := range written { // what was not committed before the crash is not there
					points, _, err := p.rt.History(t.Context(), entity.HistoryQuery{ID: id, Key: "x", Limit: 10_000})
					if err != nil && !errors.Is(err, entity.ErrNotFound) {
						t.Fatal(err)
					}
					written[id] = int64(len(points))
				}
				p.register(tally())
			}
			p.write("e0", written["e0"], "x", written["e0"]+1)
			written["e0"]++
			p.sync("tally")
			for id, n := range written {
				if n > 0 {
					p.check(id, n)
				}
			}
			p.checkLog(cursor)
		})
	}
}

// killed is the variable by which this test binary knows that it is to be killed.
const killed = "GREENROOM_BEHAVIOR_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killed); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(context.Background(), dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes to four entities, from where they are, says what is durable, and never
// ends.
func writeUntilKilled(ctx context.Context, dir string) error {
	disk, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return err
	}
	rt, err := entity.Open(ctx, actor.NewSystem("test"), disk, entity.Config{})
	if err != nil {
		return err
	}
	if err := Open(rt, Config{SaveEvery: 5 * time.Millisecond, Gather: time.Millisecond}).Register(ctx, tally()); err != nil {
		return err
	}
	ended := make(chan error)
	for i := range 4 {
		go func() {
			id := fmt.Sprint("e", i)
			points, _, err := rt.History(ctx, entity.HistoryQuery{ID: id, Key: "x", Limit: 100_000})
			if errors.Is(err, entity.ErrNotFound) {
				err = nil
			}
			for n := int64(len(points)) + 1; err == nil; n++ {
				if err = rt.Write(ctx, id, []entity.Reading{reading(n, "x", n)}, 50); err == nil {
					_, err = fmt.Fprintln(os.Stdout, "durable", id, n)
				}
			}
			ended <- err
		}()
	}
	return <-ended
}

// count returns how many readings of x an entity has.
func (p *plant) count(id string) int64 {
	points, _, err := p.rt.History(p.t.Context(), entity.HistoryQuery{ID: id, Key: "x", Limit: 100_000})
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		p.t.Error(err)
	}
	return int64(len(points))
}

func TestAfterAKillNothingIsLeftOutOrDoneTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := buildAt(t, dir, clockAt(start))
	cursor := p.cursor()
	p.register(tally())
	p.close()
	r := rand.New(rand.NewPCG(1, 2))
	for range soaktest.Rounds(t, 3, 50) {
		left := 50 + r.IntN(200)
		killtest.Run(t, killed+"="+dir, func(line string) bool {
			if strings.HasPrefix(line, "durable ") {
				left--
			}
			return left <= 0
		})
	}
	p = buildAt(t, dir, clockAt(start))
	p.register(tally())
	p.sync("tally")
	for i := range 4 {
		id := fmt.Sprint("e", i)
		n := p.count(id)
		if n == 0 {
			t.Fatalf("nothing was written to %s", id)
		}
		p.check(id, n)
	}
	p.checkLog(cursor)
}
