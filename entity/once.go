package entity

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// Once identifies a delivery, so that it can be recognized when it comes a second time, and its
// sender. The zero Once identifies neither.
type Once struct {
	// Token is the same for both deliveries. See TokenOf.
	Token uint64
	// Fresh says that the delivery cannot be a repetition, even if there was one with the same
	// Token, because clients reuse packet ids.
	Fresh bool
	// By names the sender, such as a principal, "" for nobody in particular. No sender may add more
	// new names of keys than remain for all others, or have more than Config.ShareBytes waiting to
	// be committed; if By is "", the latter limit is per entity. Waiting senders are admitted in
	// turn. By is independent of Token.
	By string
}

// TokenOf returns a token for several texts together, such as a client and its number for a
// message. It is the same in each process, and never 0.
func TokenOf(parts ...string) uint64 {
	var room [128]byte
	text := room[:0]
	for _, p := range parts {
		text = append(binary.AppendUvarint(text, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(text)
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}

// MaxOnce bounds how many tokens are remembered, the newest of all entities together. After a
// restart they are recovered from the last onceLog changes.
const (
	MaxOnce = 1 << 18
	onceLog = 1 << 14
)

// tokens remembers the newest tokens of accepted deliveries.
type tokens struct {
	mu    sync.Mutex
	known map[uint64]int // token → how often it is in order, guarded by mu
	order []uint64       // a ring when it has MaxOnce, guarded by mu
	next  int            // the index of the oldest in a full ring, guarded by mu
}

func newTokens() *tokens { return &tokens{known: make(map[uint64]int)} }

func (t *tokens) has(token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[token] > 0
}

func (t *tokens) add(token uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[token]++
	if len(t.order) < MaxOnce {
		t.order = append(t.order, token)
		return
	}
	old := t.order[t.next]
	if t.known[old]--; t.known[old] == 0 {
		delete(t.known, old)
	}
	t.order[t.next] = token
	t.next = (t.next + 1) % MaxOnce
}

// NeedsOnce reports whether a repetition of the readings could be stored again if it were not
// recognized: whether some arrived without a time and without a number.
func NeedsOnce(readings []Reading) bool {
	return slices.ContainsFunc(readings, func(r Reading) bool { return r.Arrived && r.Number == 0 })
}

// numberToken returns the token of a reading that has a number of its device.
func numberToken(id string, number uint64) uint64 {
	return TokenOf("number", id, strconv.FormatUint(number, 36))
}

// recallTokens recovers the tokens of the last changes, and returns the time of the last commit.
func (r *Runtime) recallTokens(ctx context.Context) (committed int64, err error) {
	info := r.store.Info()
	after := max(info.FirstChange-1, info.LastChange-min(info.LastChange, onceLog))
	for after < info.LastChange {
		page, err := r.store.Changes(ctx, after, changePage)
		if err != nil {
			return 0, fmt.Errorf("read the last changes: %w", err)
		}
		for i := range page {
			c := &page[i]
			if c.Once != 0 {
				r.tokens.add(c.Once)
			}
			if c.Number != 0 {
				r.tokens.add(numberToken(c.Entity, c.Number))
			}
			after, committed = c.Seq, c.Committed
		}
	}
	return committed, nil
}
