package sim

import (
	"fmt"
	"io"
	"math/bits"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// watchdog watches a run from outside of its bubble, where the time is the real one. A step
// takes microseconds. In one that takes longer the handler may wait for a socket, which is no
// matter of the seed: the run is refused when the step is over. And it may wait for something
// that is not coming, for a lock that another handler holds for example, which no bubble
// notices: then the run is abandoned. A handler that only computes is reported.
type watchdog struct {
	world atomic.Pointer[World]
	out   io.Writer     // for what cannot wait until the step is over
	long  time.Duration // after which a step that is not over is reported, and one that waits is abandoned
	stuck chan outcome  // the run that was given up
	stop  chan struct{}
	ended chan struct{}
}

const (
	interval       = 20 * time.Millisecond
	strictInterval = 200 * time.Microsecond // in runs that are looked at closely
	longStep       = 10 * time.Second
)

// watch begins to watch a run, and returns where it comes if it has to be given up.
// REQUIRES: called outside of a bubble.
func (l *watchdog) watch(strict bool) (stuck <-chan outcome) {
	l.stuck, l.stop, l.ended = make(chan outcome, 1), make(chan struct{}), make(chan struct{})
	pace := interval
	if strict {
		pace = strictInterval
	}
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		var s observed
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				l.look(&s)
			}
		}
	}()
	return l.stuck
}

// leave ends the watch.
func (l *watchdog) leave() {
	l.world.Store(nil)
	close(l.stop)
	<-l.ended
}

// observed is a step as the watchdog sees it.
type observed struct {
	step  int64 // counted from 1
	since time.Time
	seen  uint // looks at it
	told  bool
}

// look checks whether the step is the one of the last look.
func (l *watchdog) look(s *observed) {
	w := l.world.Load()
	if w == nil {
		return
	}
	step := w.underway.Load()
	if step == 0 || step != s.step {
		*s = observed{step: step, since: time.Now()}
		return
	}
	lasted := time.Since(s.since)
	tell := lasted > l.long && !s.told
	s.seen++
	if !tell && (w.outside.Load() != nil || bits.OnesCount(s.seen) > 1) { // stacks stop the world: seldom, and more seldom
		return
	}
	for _, stack := range allStacks() {
		header, _, _ := strings.Cut(stack, "\n")
		if !w.guard.inBubble(header) || strings.Contains(header, "[coroutine") || strings.Contains(header, "(durable)") || w.underway.Load() != step {
			continue
		}
		if strings.Contains(header, "[IO wait") {
			w.outside.CompareAndSwap(nil, &stack)
		}
		if !tell {
			continue
		}
		s.told = true
		if waiting.MatchString(header) {
			l.giveUp(w, step, stack)
			return
		}
		_, _ = fmt.Fprintf(l.out, "sim: seed 0x%x: step %d is not over after %v: a handler computes, or is in a call of the operating system\n%s\n",
			w.seed, step-1, lasted.Round(time.Millisecond), stack)
	}
}

// waiting finds, in the first line of a stack, that the goroutine waits for another one or for
// a socket. What computes is running, runnable, in a system call, or helps the collector.
var waiting = regexp.MustCompile(`\[(?:sync\.|semacquire|chan |select|IO wait)`)

// giveUp ends the watch over a run that will not end. REQUIRES: a step is being run, so that
// nobody writes what is read here.
func (l *watchdog) giveUp(w *World, step int64, stack string) {
	text := refusedWait
	if w.outside.Load() != nil {
		text = refusedOutside
	}
	l.stuck <- outcome{trace: w.trace, steps: int(step), failure: &Failure{
		Seed: w.seed, Strategy: w.strategy, Step: int(step), Text: text + stack, Trace: w.trace.events, about: "stuck outside",
	}}
}

const refusedWait = "a handler waits for something that no step can give it, a lock that another handler holds for example: " +
	"hold no lock over Ask or Sleep, and keep what handlers share in an actor\n"

const refusedOutside = "a handler waits for the world outside, a socket or a pipe: what comes from there is no matter of the seed. " +
	"Put an actor in its place, or w.At\n"
