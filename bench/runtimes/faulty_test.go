package runtimes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// faulty is the control with one fault: what happens to the message or the
// answer with a certain number, counted over all of them.
type faulty struct {
	routines
	tells, asks atomic.Int64
	at          int64
	tell        func(f *faulty, to chan workload.Msg, m workload.Msg)
	answer      func(m workload.Msg) workload.Msg
}

func (f *faulty) Tell(_ *routine, to chan workload.Msg, m workload.Msg) {
	if f.tell != nil && f.tells.Add(1) == f.at {
		f.tell(f, to, m)
		return
	}
	to <- m
}

func (f *faulty) Ask(ctx *routine, to chan inquiry, m workload.Msg) (workload.Msg, error) {
	answer, err := f.routines.Ask(ctx, to, m)
	if f.answer != nil && f.asks.Add(1) == f.at {
		answer = f.answer(answer)
	}
	return answer, err
}

// errLost is why a workload ends that waits for a lost message.
var errLost = errors.New("the message was lost")

func lose(*faulty, chan workload.Msg, workload.Msg) {}

func double(_ *faulty, to chan workload.Msg, m workload.Msg) {
	to <- m
	to <- m
}

func alter(_ *faulty, to chan workload.Msg, m workload.Msg) { to <- workload.Msg{N: m.N + 1} }

func runFaulty(ctx context.Context, t *testing.T, name string, f *faulty) error {
	t.Helper()
	w, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	f.routines = routines{mailboxSize}
	run := workload.Suite(func(string) (*faulty, error) { return f, nil })
	figures, err := run(ctx, name, w.Quick)
	if err == nil {
		t.Fatalf("it has figures: %v", figures)
	}
	if figures != nil {
		t.Errorf("beside the error it has figures: %v", figures)
	}
	return err
}

func TestAWrongCountIsNoFigure(t *testing.T) {
	for _, c := range []struct {
		workload string
		fault    string
		at       int64
		tell     func(*faulty, chan workload.Msg, workload.Msg)
	}{
		{"flood", "lost", 50, lose},
		{"flood", "doubled", 50, double},
		{"flood", "altered", 50, alter},
		{"flood", "lost after the warm-up", 1500, lose},
		{"floodinside", "lost", 50, lose},
		{"floodinside", "doubled", 50, double},
		{"fanin", "lost", 50, lose},
		{"fanin", "doubled", 50, double},
		{"fair", "lost", 100, lose},
		{"fair", "doubled", 100, double},
		{"pingpong", "altered", 50, alter},
		{"ring100", "altered", 50, alter},
		{"skynet", "altered", 112, alter},
		{"blocked", "altered", 2, alter},
		{"blocking1000", "altered", 5, alter},
		{"flooded-neighbor", "altered", 100, alter},
	} {
		t.Run(c.workload+" "+c.fault, func(t *testing.T) {
			err := runFaulty(t.Context(), t, c.workload, &faulty{at: c.at, tell: c.tell})
			if !errors.Is(err, workload.ErrWrongCount) {
				t.Errorf("the error is %v, want %v", err, workload.ErrWrongCount)
			}
		})
	}
}

func TestAWorkloadThatWaitsForALostMessageEndsWithItsContext(t *testing.T) {
	for _, name := range []string{"pingpong", "ring100", "ring100k", "big", "skynet", "spawn", "blocking1000"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			f := &faulty{at: 15, tell: func(*faulty, chan workload.Msg, workload.Msg) { cancel(errLost) }}
			if err := runFaulty(ctx, t, name, f); !errors.Is(err, errLost) {
				t.Errorf("the error is %v, want %v", err, errLost)
			}
		})
	}
}

func TestAWrongAnswerIsNoFigure(t *testing.T) {
	for _, name := range []string{"ask", "ask64", "askinside"} {
		t.Run(name, func(t *testing.T) {
			f := &faulty{at: 10, answer: func(m workload.Msg) workload.Msg { return workload.Msg{N: m.N + 1} }}
			if err := runFaulty(t.Context(), t, name, f); !errors.Is(err, workload.ErrWrongCount) {
				t.Errorf("the error is %v, want %v", err, workload.ErrWrongCount)
			}
		})
	}
}

func TestARuntimeThatDoesNotOpenIsAnError(t *testing.T) {
	closed := errors.New("closed today")
	run := workload.Suite(func(string) (routines, error) { return routines{}, closed })
	if _, err := run(t.Context(), "flood", workload.Size{Ops: 1}); !errors.Is(err, closed) {
		t.Errorf("the error is %v", err)
	}
}

func TestIdleNeedsTimers(t *testing.T) {
	run := workload.Suite(func(string) (routines, error) { return routines{1}, nil })
	if _, err := run(t.Context(), "idle", workload.Size{Actors: 1}); !errors.Is(err, workload.ErrUnsupported) {
		t.Errorf("the error is %v", err)
	}
}

func TestAWorkloadThatIsNotThere(t *testing.T) {
	run := workload.Suite(func(string) (routines, error) { return routines{1}, nil })
	if _, err := run(t.Context(), "floods", workload.Size{}); !errors.Is(err, workload.ErrNoWorkload) {
		t.Errorf("the error is %v", err)
	}
}
