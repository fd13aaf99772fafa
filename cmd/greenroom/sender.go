package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight is how many messages of a connection may be unacknowledged.
const inFlight = 256

// laneBuffer lets other lanes proceed while one waits for an acknowledgement.
const laneBuffer = 16

// sender publishes messages over several connections concurrently, and counts the acknowledgements.
type sender struct {
	ctx    context.Context //nolint:containedctx // the sender's own life: it ends with the first error
	cancel context.CancelCauseFunc
	lanes  []chan *message
	conns  []*publisher
	wg     sync.WaitGroup
	done   sync.WaitGroup // the goroutine that shows progress

	began                                    time.Time
	took                                     time.Duration
	messages, readings, values, refused, all atomic.Int64 // all: sent or being sent
	firstRefusal                             atomic.Pointer[refusedError]
	latency                                  latencies
	stderr                                   io.Writer
}

// newSender connects. It shows progress on stderr.
func newSender(ctx context.Context, addr string, connections int, stderr io.Writer) (*sender, error) {
	s := &sender{stderr: stderr}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	for range connections {
		p, err := dial(s.ctx, addr)
		if err != nil {
			s.cancel(err)
			return nil, err
		}
		s.conns = append(s.conns, p)
	}
	s.began = time.Now()
	for _, p := range s.conns {
		for range inFlight { // one for each lane, so that the messages of a lane keep their order
			lane := make(chan *message, laneBuffer)
			s.lanes = append(s.lanes, lane)
			s.wg.Go(func() { s.work(p, lane) })
		}
	}
	s.done.Go(s.progress)
	return s, nil
}

func (s *sender) work(p *publisher, lane <-chan *message) {
	for m := range lane {
		start := time.Now()
		err := p.publish(s.ctx, m)
		var refused *refusedError
		switch {
		case err == nil:
			s.latency.add(time.Since(start))
			s.messages.Add(1)
			s.readings.Add(int64(m.readings))
			s.values.Add(int64(m.values))
		case errors.As(err, &refused):
			s.refused.Add(1)
			s.firstRefusal.CompareAndSwap(nil, refused)
		default:
			s.cancel(err) // ends the others too
		}
	}
}

// send passes a message to its lane, and waits for room.
func (s *sender) send(m *message) error {
	select {
	case s.lanes[lane(m, len(s.lanes))] <- m:
		s.all.Add(1)
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// finish waits for all acknowledgements and disconnects. Its error is the first refusal, if any;
// send has returned any other error.
func (s *sender) finish() error {
	for _, lane := range s.lanes {
		close(lane)
	}
	s.wg.Wait()
	s.took = time.Since(s.began)
	err := context.Cause(s.ctx)
	s.cancel(nil)
	s.done.Wait()
	for _, p := range s.conns {
		p.close()
	}
	if first := s.firstRefusal.Load(); first != nil {
		err = errors.Join(err, fmt.Errorf("%d messages were refused, the first: %w", s.refused.Load(), first))
	}
	return err
}

// report returns a summary of what was acknowledged.
func (s *sender) report() string {
	n := s.messages.Load()
	return fmt.Sprintf("%d messages acknowledged (%d readings, %d values), %d refused, in %v: %.0f messages/s, acknowledged after p50 %v, p99 %v",
		n, s.readings.Load(), s.values.Load(), s.refused.Load(), s.took.Round(time.Millisecond),
		float64(n)/max(s.took.Seconds(), 1e-9), short(s.latency.quantile(0.5)), short(s.latency.quantile(0.99)))
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// progress shows the progress: in place on a terminal, and otherwise as a line every ten seconds.
func (s *sender) progress() {
	every, before, after := 10*time.Second, "", "\n"
	if isTerminal(s.stderr) {
		every, before, after = 250*time.Millisecond, "\r\x1b[K", ""
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	shown := false
	for {
		select {
		case <-ticker.C:
			n := s.messages.Load()
			fmt.Fprintf(s.stderr, "%s%d messages acknowledged, %d on the way, %.0f/s%s",
				before, n, s.all.Load()-n-s.refused.Load(), float64(n)/time.Since(s.began).Seconds(), after)
			shown = true
		case <-s.ctx.Done():
			if shown && after == "" {
				fmt.Fprint(s.stderr, before)
			}
			return
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
