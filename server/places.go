package server

import (
	"net/http"
	"sync"

	"github.com/greenroom-go/greenroom/server/access"
)

// maxStreamsOfOne bounds the streams of one principal, so that others can open some.
const maxStreamsOfOne = MaxStreams / 4

// places counts the open streams. Its methods may be called concurrently.
type places struct {
	mu    sync.Mutex
	taken int                       // guarded by mu
	of    map[*access.Principal]int // guarded by mu; by principal
}

func newPlaces() *places { return &places{of: make(map[*access.Principal]int)} }

// enter counts a stream of a principal until leave is called. If nobody has to log in, there is no
// limit per principal.
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

// len returns the number of open streams.
func (p *places) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
