package workload

import (
	"context"
	"fmt"
)

// Run runs one workload in this process and returns its figures. It ends with
// an error when a count is wrong, when the adapter lacks what the workload
// needs, and with the cause of ctx when the workload has not ended by itself
// until then; what it has started then stays behind, so the process should end.
type Run func(ctx context.Context, workload string, size Size) (Figures, error)

// Suite makes the workloads of an adapter. open starts the runtime for a run of
// the workload with that name, which an adapter may look at to choose between
// the settings that its runtime documents.
func Suite[C, R, S any, A Adapter[C, R, S]](open func(workload string) (A, error)) Run {
	return func(ctx context.Context, workload string, size Size) (Figures, error) {
		perform, err := choose[C, R, S, A](workload)
		if err != nil {
			return nil, err
		}
		a, err := open(workload)
		if err != nil {
			return nil, fmt.Errorf("open the runtime: %w", err)
		}
		figures, err := perform(show[C, R, S, A]{a}, ctx, size)
		if err != nil {
			return nil, err
		}
		if err := a.Close(); err != nil {
			return nil, fmt.Errorf("close the runtime: %w", err)
		}
		return figures, nil
	}
}

// show is the workloads on the stage of one adapter.
type show[C, R, S any, A Adapter[C, R, S]] struct{ a A }

// performance is one of them.
type performance[C, R, S any, A Adapter[C, R, S]] func(s show[C, R, S, A], ctx context.Context, size Size) (Figures, error)

func choose[C, R, S any, A Adapter[C, R, S]](workload string) (performance[C, R, S, A], error) {
	type it = show[C, R, S, A]
	perform, ok := map[string]performance[C, R, S, A]{
		"flood": it.flood, "floodinside": it.floodInside, "fanin": it.fanIn,
		"pingpong": it.pingPong, "ring100": it.ring, "ring100k": it.ring,
		"ask": it.ask, "ask64": it.ask, "askinside": it.askInside,
		"big": it.big, "skynet": it.skynet, "spawn": it.spawn, "idle": it.idle,
		"blocking1000": it.blocking, "blocked": it.blocked,
		"fair": it.fair, "flooded-neighbor": it.neighbor,
	}[workload]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNoWorkload, workload)
	}
	return perform, nil
}
