package workload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// WireBytes is the length of a message between processes.
const WireBytes = 99

// Wire leads to an actor of another process, which has a [Far]. It is used by one goroutine.
type Wire interface {
	// Tell sends a message without waiting for an answer; it may wait for room. It copies m.
	Tell(m []byte) error
	// Ask sends a request, which the far one has after all that was told before, and waits for
	// the answer.
	Ask(m []byte) ([]byte, error)
	// Close ends the other process.
	Close() error
}

// Far is what the far actor does. It is not safe for concurrent use.
type Far struct{ received tally }

// Told counts a message.
func (f *Far) Told(m []byte) { f.received.add(Msg{numberIn(m)}) }

// Asked returns the answer to a request: the request itself, or what was received since this was
// asked last.
func (f *Far) Asked(m []byte) []byte {
	if numberIn(m) != last {
		return m
	}
	answer := numbered(f.received.count)
	binary.BigEndian.PutUint64(answer[8:], uint64(f.received.sum))
	f.received = tally{}
	return answer
}

func numberIn(m []byte) int64 {
	if len(m) != WireBytes {
		return 0 // which the sum shows
	}
	return int64(binary.BigEndian.Uint64(m))
}

func numbered(n int64) []byte {
	m := make([]byte, WireBytes)
	binary.BigEndian.PutUint64(m, uint64(n))
	return m
}

// Remote runs a workload between processes.
func Remote(ctx context.Context, name string, size Size, w Wire) (figures Figures, err error) {
	defer func() { err = errors.Join(err, w.Close()) }()
	m := numbered(0)
	switch name {
	case "remote":
		return measure(size.Ops, func(ops int) error {
			for i := range int64(ops) {
				binary.BigEndian.PutUint64(m, uint64(i))
				if err := w.Tell(m); err != nil {
					return err
				}
			}
			answer, err := w.Ask(numbered(last))
			if err != nil {
				return err
			}
			if len(answer) != WireBytes {
				return fmt.Errorf("%w: the answer has %d bytes", ErrWrongCount, len(answer))
			}
			return tally{numberIn(answer), int64(binary.BigEndian.Uint64(answer[8:]))}.check(upTo(ops))
		})
	case "remoteask":
		return measure(size.Ops, func(ops int) error {
			for i := range int64(ops) {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				binary.BigEndian.PutUint64(m, uint64(i))
				answer, err := w.Ask(m)
				if err != nil {
					return err
				}
				if numberIn(answer) != i {
					return fmt.Errorf("%w: the answer to %d is %d", ErrWrongCount, i, numberIn(answer))
				}
			}
			return nil
		})
	}
	return nil, fmt.Errorf("%w: %q", ErrNoWorkload, name)
}

// between are the workloads between two processes.
func between() []Workload {
	return []Workload{
		{
			Name: "remote", Unit: "message", Full: Size{Ops: 500_000}, Quick: Size{Ops: 1_000},
			About: "a goroutine tells an actor of another process, 99 bytes a message",
		},
		{
			Name: "remoteask", Unit: "answer", Full: Size{Ops: 20_000}, Quick: Size{Ops: 100},
			About: "a goroutine asks an actor of another process, one request after the other",
		},
	}
}
