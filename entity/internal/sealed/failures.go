package sealed

import (
	"context"
	"log/slog"
	"sync"
)

// maxCauses bounds the causes that are remembered.
const maxCauses = 100

// Failures counts how often sealing has failed, and logs each cause once. The zero value has none.
// It is safe for concurrent use.
type Failures struct {
	mu     sync.Mutex
	n      uint64              // guarded by mu
	logged map[string]struct{} // guarded by mu
}

// Note counts a failure.
func (f *Failures) Note(log *slog.Logger, err error) {
	f.mu.Lock()
	f.n++
	cause := err.Error()
	_, known := f.logged[cause]
	if !known {
		if f.logged == nil || len(f.logged) >= maxCauses {
			f.logged = make(map[string]struct{})
		}
		f.logged[cause] = struct{}{}
	}
	f.mu.Unlock()
	if !known {
		log.LogAttrs(context.Background(), slog.LevelWarn, "history could not be sealed, it stays as it is and is tried again", slog.String("error", cause))
	}
}

// Count returns how many there were.
func (f *Failures) Count() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}
