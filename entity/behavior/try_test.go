package behavior

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestTryTellsWhatABehaviorWouldHaveDone(t *testing.T) {
	p := build(t)
	p.register(counter("count"))
	for i := range int64(10) {
		p.write("a", i, "x", i)
		p.write("a", i, "y", 100+i)
	}
	p.sync("count")
	changes := p.rt.Stats().Readings
	s := Spec{Name: "count", Keys: []string{"x"}, Handle: Stateful(func(e *Entity, n *int64, ev Event) error {
		*n++
		x, _ := ev.Value("x")
		y, _ := e.Latest("y")
		if x.Int() == 7 {
			return errors.New("seven")
		}
		return errors.Join(e.Set(sample("sum", x.Int()+y.Value.Int())), e.Command(entity.NewCommand{Name: "go"}))
	})}
	steps, err := p.Try(t.Context(), s, Trial{Entity: "a", From: start, To: start + 100, Last: 4})
	if err != nil || len(steps) != 4 {
		t.Fatalf("%+v, %v", steps, err)
	}
	for i, step := range steps {
		at := int64(6 + i)
		if step.Reading.TS != start+at {
			t.Errorf("step %d is at %d", i, step.Reading.TS-start)
		}
		if at == 7 {
			if step.Err == nil || len(step.Readings) != 0 || string(step.State) != "1" {
				t.Errorf("step %d: %+v", i, step)
			}
			continue
		}
		if step.Err != nil || len(step.Commands) != 1 || len(step.Readings) != 1 || step.Readings[0].Values[0].Value.Int() != 100+2*at {
			t.Errorf("step %d: %+v", i, step)
		}
	}
	if n := p.rt.Stats().Readings; n != changes {
		t.Errorf("%d readings were written", n-changes)
	}
	if _, err := p.Try(t.Context(), s, Trial{Entity: "none", To: 1}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if _, err := p.Try(t.Context(), s, Trial{Entity: "a"}); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
}

// A trial ends when what it shows exceeds MaxTryBytes, whatever that is, and shows the beginnings of long errors.
func TestATrialHasABoundedAnswer(t *testing.T) {
	p := build(t)
	long := strings.Repeat("x", entity.MaxTextBytes)
	const n = 2 * MaxTryBytes / entity.MaxTextBytes
	for i := range int64(n) {
		if err := p.rt.Write(t.Context(), "texts", []entity.Reading{{TS: start + i, Values: []entity.Sample{{Key: "x", Value: value.String(long)}}}}, 50); err != nil {
			t.Fatal(err)
		}
		p.write("a", i, "x", i)
	}
	all := func(id string, kept func() int, err error) []Step {
		t.Helper()
		s := Spec{Name: "x", Handle: func(*Entity, Event) error { return err }}
		steps, err := p.Try(t.Context(), s, Trial{Entity: id, From: start, To: start + n, Last: n, Kept: kept})
		if err != nil {
			t.Fatal(err)
		}
		return steps
	}
	if got := len(all("a", nil, nil)); got != n {
		t.Errorf("%d steps, want %d", got, n)
	}
	if got := len(all("texts", nil, nil)); got > n/2+1 || got < n/4 {
		t.Errorf("%d steps with readings of %d bytes", got, len(long))
	}
	if got := len(all("a", func() int { return MaxTryBytes / 4 }, nil)); got != 4 {
		t.Errorf("%d steps of which a quarter of the bytes is kept", got)
	}
	for _, step := range all("a", nil, errors.New(strings.Repeat("e", MaxTryBytes))) {
		if text := step.Err.Error(); len(text) > MaxFailureBytes || !strings.HasPrefix(text, "eee") {
			t.Fatalf("an error of %d bytes", len(text))
		}
	}
}
