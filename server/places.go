package server

import (
	"net/http"
	"sync"

	"github.com/greenroom-go/greenroom/server/access"
)

// maxStreamsOfOne bounds the streams of one principal, so that it leaves places for others.
const maxStreamsOfOne = MaxStreams / 4

// places are those for open streams. Its methods may be called concurrently.
type places struct {
	mu    sync.Mutex
	taken int                       // guarded by mu
	of    map[*access.Principal]int // guarded by mu; how many of them each has
}

func newPlaces() *places { return &places{of: make(map[*access.Principal]int)} }

// enter takes a place for a stream of a principal, which leave gives back. Where nobody has to log in
// all share all.
func (p *places) enter(who *access.Principal) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.taken >= MaxStreams:
		return nil, problemf(http.StatusServiceUnavailable, "%d streams are open, which is the limit; close one, or follow several entities with one stream: ?entity=a&entity=b", MaxStreams)
	case who.Name() != "" && p.of[who] >= maxStreamsOfOne:
		return nil, problemf(http.StatusServiceUnavailable, "%d streams of %q are open, which is the limit for one principal; close one, or follow several entities with one stream: ?entity=a&entity=b", maxStreamsOfOne, who.Name())
	}
	p.taken++
	p.of[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.of[who]--; p.of[who] == 0 {
			delete(p.of, who)
		}
	}, nil
}

// len returns how many are taken.
func (p *places) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
