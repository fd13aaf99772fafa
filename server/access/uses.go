package access

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// kindUses is the kind of the documents with the times of last use.
	kindUses = "principal-uses"
	// useParts is the number of these documents.
	useParts = 32
	// usesEvery is how often they are written; a crash loses later times.
	usesEvery = time.Minute
)

// uses records when principals were last used. With a document for each principal, every
// connection would write one; so thousands share a document.
type uses struct {
	book *Book

	mu    sync.Mutex
	dirty [useParts]bool // guarded by mu
	timer *time.Timer    // guarded by mu; nil while nothing is dirty

	writing sync.Mutex // held while they are written
	closed  bool       // guarded by mu
}

func usePart(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash takes all
	return int(h.Sum32() % useParts)
}

// openUses reads the times of last use.
func openUses(ctx context.Context, b *Book) (*uses, error) {
	docs, err := b.store.Docs(ctx, kindUses)
	if err != nil {
		return nil, fmt.Errorf("read the uses of principals: %w", err)
	}
	for i := range docs {
		var at map[string]int64
		if err := json.Unmarshal(docs[i].Body, &at); err != nil {
			return nil, fmt.Errorf("read the uses of principals: %w", err)
		}
		for name, ms := range at {
			if p := b.byName[name]; p != nil && ms >= p.stored.Created { // not of a namesake before it
				p.used.Store(ms)
			}
		}
	}
	return &uses{book: b}, nil
}

// note records that a principal is used now.
func (u *uses) note(p *Principal) {
	now := time.Now().UnixMilli()
	if last := p.used.Swap(now); now-last < usesEvery.Milliseconds() {
		return // each request of a client ends here
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dirty[usePart(p.name)] = true
	if u.timer == nil && !u.closed {
		u.timer = time.AfterFunc(usesEvery, u.flush)
	}
}

func (u *uses) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), usesEvery)
	defer cancel()
	if err := u.write(ctx); err != nil {
		u.book.log.LogAttrs(ctx, slog.LevelWarn, "cannot store when principals were last used", slog.Any("error", err))
	}
}

// write stores the documents that have changed.
func (u *uses) write(ctx context.Context) error {
	u.writing.Lock()
	defer u.writing.Unlock()
	u.mu.Lock()
	dirty := u.dirty
	u.dirty, u.timer = [useParts]bool{}, nil
	u.mu.Unlock()
	var parts [useParts]map[string]int64
	u.book.mu.RLock()
	for name, p := range u.book.byName {
		part, used := usePart(name), p.used.Load()
		if !dirty[part] || used == 0 {
			continue
		}
		if parts[part] == nil {
			parts[part] = make(map[string]int64)
		}
		parts[part][name] = used
	}
	u.book.mu.RUnlock()
	for part, at := range parts {
		if at == nil {
			continue
		}
		body, err := json.Marshal(at)
		if err == nil {
			_, err = u.book.store.PutDoc(ctx, kindUses, strconv.Itoa(part), body, "")
		}
		if err != nil {
			return fmt.Errorf("keep the uses of principals: %w", err)
		}
	}
	return nil
}

// close stores what was not written yet.
func (u *uses) close(ctx context.Context) error {
	u.mu.Lock()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
	u.mu.Unlock()
	return u.write(ctx)
}
