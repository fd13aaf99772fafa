package actor

// source is a place from which a worker takes in rounds.
type source uint8

const (
	fromOwn source = iota
	fromShared
	fromStack
	sources
)

// take returns the next actor that put or again has queued. It serves the worker's queue, the shared
// one and the spawn stack in rounds. A round is as long as what waits there when it begins, of what is
// for all workers the worker's part: so none overtakes the others for long, and an actor that spawns
// without an end waits for those it has spawned, as it would in one queue for all.
func (w *worker) take() *core {
	if w.s.shared.n.Load() == 0 && w.s.spawned.n.Load() == 0 {
		return w.queue.pop()
	}
	for range sources + 1 { // the rest of this round, one of each other source, and again one of this
		if w.round > 0 {
			w.round--
			if c := w.takeFrom(w.source); c != nil {
				return c
			}
		}
		w.source = (w.source + 1) % sources
		w.round = w.roundOf(w.source)
	}
	return nil
}

func (w *worker) takeFrom(from source) *core {
	switch from {
	case fromShared:
		return w.s.shared.pop()
	case fromStack:
		return w.s.spawned.youngest()
	default:
		return w.queue.pop()
	}
}

// roundOf returns how many actors a round takes from a source that begins now.
func (w *worker) roundOf(from source) int {
	switch from {
	case fromShared:
		return w.part(w.s.shared.n.Load())
	case fromStack:
		return w.part(w.s.spawned.n.Load())
	default:
		return int(w.queue.n.Load())
	}
}

// part returns the worker's part of n actors, rounded up.
func (w *worker) part(n int32) int { return int((n + w.s.n - 1) / w.s.n) }

// waits returns how many actors wait in the sources.
func (w *worker) waits() int {
	return int(w.queue.n.Load()) + int(w.s.shared.n.Load()) + int(w.s.spawned.n.Load())
}
