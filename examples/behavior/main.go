// Behavior gives a type of entity a state machine: a pump that runs dry is told to stop and is
// locked until somebody unlocks it. The state of the machine is kept with the pump, and each thing
// that it does happens once, also over the restart in the middle of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// pump is what the machine remembers of a pump. The zero pump is idle.
type pump struct {
	State string
	Dry   int // readings without flow, in a row
	Stops int64
}

const (
	idle    = ""
	running = "running"
	locked  = "locked"
)

// patience is how many readings without flow a running pump may have.
const patience = 3

// machine is the transitions of each state.
var machine = map[string]func(*behavior.Entity, *pump, behavior.Event) error{
	idle: func(e *behavior.Entity, p *pump, ev behavior.Event) error {
		if power, ok := ev.Value("power"); ok && power.Int() > 0 {
			return p.enter(e, running)
		}
		return nil
	},
	running: func(e *behavior.Entity, p *pump, ev behavior.Event) error {
		if power, ok := ev.Value("power"); ok && power.Int() == 0 {
			return p.enter(e, idle)
		}
		flow, ok := ev.Value("flow")
		switch {
		case !ok:
			return nil
		case flow.Int() > 0:
			p.Dry = 0
			return nil
		}
		if p.Dry++; p.Dry < patience {
			return nil
		}
		p.Stops++
		return errors.Join(
			e.Command(entity.NewCommand{Name: "stop", Request: value.String("it runs dry")}),
			p.enter(e, locked),
		)
	},
	locked: func(e *behavior.Entity, p *pump, _ behavior.Event) error {
		if a, ok := e.View().Attribute(entity.Attributes, "/unlocked"); ok && a.Value.Int() == p.Stops {
			return p.enter(e, idle)
		}
		return nil
	},
}

// enter goes on to a state and shows it: as an attribute for people, and as a reading for its history.
func (p *pump) enter(e *behavior.Entity, state string) error {
	p.State, p.Dry = state, 0
	if state == idle {
		state = "idle"
	}
	return errors.Join(
		e.SetAttribute(entity.Attributes, value.String(state), "machine"),
		e.Set(entity.Sample{Key: "stops", Value: value.Int(p.Stops)}),
	)
}

// plant is a runtime with the behavior of pumps.
type plant struct {
	rt        *entity.Runtime
	behaviors *behavior.Service
}

// openPlant goes on with the plant whose data is in a directory.
func openPlant(ctx context.Context, dir string) (*plant, error) {
	store, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	rt, err := entity.Open(ctx, actor.NewSystem("plant"), store, entity.Config{})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	p := &plant{rt, behavior.Open(rt, behavior.Config{Logger: slog.New(slog.DiscardHandler)})}
	_, err = rt.PutType(ctx, &model.Type{ID: "Pump", Commands: map[string]*model.Command{"stop": {}}}, "")
	if err == nil {
		err = p.behaviors.Register(ctx, behavior.Spec{
			Name: "pump", Type: "Pump", Keys: []string{"power", "flow"}, Edits: true,
			Handle: behavior.Stateful(func(e *behavior.Entity, p *pump, ev behavior.Event) error {
				return machine[p.State](e, p, ev)
			}),
		})
	}
	if err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	return p, nil
}

func (p *plant) close(ctx context.Context) error {
	return errors.Join(p.behaviors.Close(ctx), p.rt.Close(ctx))
}

// measure writes a reading of a pump, and says what has become of the pump.
func (p *plant) measure(ctx context.Context, w io.Writer, id string, ts int64, key string, v int64) error {
	r := entity.Reading{TS: ts, Values: []entity.Sample{{Key: key, Value: value.Int(v)}}}
	if err := p.rt.Write(ctx, id, []entity.Reading{r}, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s: %s = %d", id, key, v)
	return errors.Join(err, p.tell(ctx, w, id))
}

// tell says what state a pump is in, and what it has been told.
func (p *plant) tell(ctx context.Context, w io.Writer, id string) error {
	if err := p.behaviors.Sync(ctx, "pump"); err != nil {
		return err
	}
	state := "unknown"
	err := p.rt.View(ctx, id, func(v entity.View) error {
		if a, ok := v.Attribute(entity.Attributes, "/machine"); ok {
			state = a.Value.Text()
		}
		return nil
	})
	if err != nil {
		return err
	}
	commands, err := p.rt.OpenCommands(ctx, id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, " -> %s, %d commands\n", state, len(commands))
	return err
}

func run(w io.Writer) error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "greenroom")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := openPlant(ctx, dir)
	if err != nil {
		return err
	}
	typ := "Pump"
	if _, err := p.rt.Edit(ctx, "pump-1", entity.Edits{Type: &typ}); err != nil {
		return err
	}
	steps := []struct {
		key string
		v   int64
	}{{"power", 40}, {"flow", 7}, {"flow", 0}, {"flow", 0}}
	for i, s := range steps {
		if err := p.measure(ctx, w, "pump-1", int64(1000*i), s.key, s.v); err != nil {
			return err
		}
	}
	if err := p.close(ctx); err != nil {
		return err
	}
	if p, err = openPlant(ctx, dir); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "the plant opens again")
	err = errors.Join(
		p.measure(ctx, w, "pump-1", 4000, "flow", 0),
		p.measure(ctx, w, "pump-1", 5000, "power", 40),
	)
	unlock := entity.Patch{Section: entity.Attributes, Body: []byte(`{"unlocked":1}`)}
	if _, eerr := p.rt.Edit(ctx, "pump-1", entity.Edits{Patches: []entity.Patch{unlock}}); eerr != nil {
		return errors.Join(err, eerr)
	}
	_, _ = fmt.Fprint(w, "pump-1 is unlocked")
	return errors.Join(err, p.tell(ctx, w, "pump-1"), p.measure(ctx, w, "pump-1", 6000, "power", 40), p.close(ctx))
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
