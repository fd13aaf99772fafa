package script

import "sync"

// trials are those under way.
type trials struct {
	mu    sync.Mutex
	n     int
	under map[Owner]bool
}

// begin takes a place for a trial until end is called, or returns ErrBusy. An owner has one place; everybody,
// where nobody has to log in, may have all.
func (t *trials) begin(owner Owner) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == MaxTrials || t.under[owner] {
		return nil, ErrBusy
	}
	if t.n++; owner != (Owner{}) {
		t.under[owner] = true
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.n--
		delete(t.under, owner)
	}, nil
}
