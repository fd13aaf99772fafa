package attacktest

import (
	"fmt"
	"sync"
	"time"
)

// Problems is what is wrong in a round. The zero value is an empty list, and its methods may be called concurrently.
type Problems struct {
	mu   sync.Mutex
	list []string
}

// problemsMost is how many are kept.
const problemsMost = 10

// Report notes a violation.
func (p *Problems) Report(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < problemsMost {
		p.list = append(p.list, fmt.Sprintf(format, args...))
	}
}

// Found returns what was reported. The caller must not change it.
func (p *Problems) Found() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}

// A wait is over after that many looks, not after a time: a busy machine delays them as it does the actors.
const (
	pace     = 2 * time.Millisecond
	patience = 10_000
)

// Await blocks until done holds or something is wrong. It reports whether nothing is: to wait too long is.
func (p *Problems) Await(what string, done func() bool) bool {
	for range patience {
		if len(p.Found()) > 0 {
			return false
		}
		if done() {
			return true
		}
		<-time.After(pace)
	}
	p.Report("stall: waiting for %s", what)
	return false
}

// IsClosed reports whether a channel on which nothing is sent is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
