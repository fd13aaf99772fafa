package entity

import (
	"bytes"
	"context"
	"fmt"
)

// Item is a small record that a part of the program keeps in the store, such as an alarm. Its kind
// says which part owns it, and items of a kind are ordered by the bytes of their keys.
type Item struct {
	Kind, Key string
	// Body is for the owner of the kind to define. In a write, nil removes the item.
	Body []byte
}

// ItemsQuery asks for items of a kind with From <= key < To, in the order of their keys or from the
// last to the first. To "" means no end. Limit is the most items to return, up to MaxItems.
type ItemsQuery struct {
	Kind, From, To string
	Limit          int
	Descending     bool
}

// Until returns the end of the range, which is after all keys if To is "": a query with an upper
// bound can use an index in both directions.
func (q *ItemsQuery) Until() []byte {
	if q.To == "" {
		return bytes.Repeat([]byte{0xff}, MaxItemKeyBytes+1)
	}
	return []byte(q.To)
}

// PutItems writes and removes items: all of them or none, durable when it returns. If a key occurs
// twice the later one counts. Removing an item that does not exist is not an error. It returns
// ErrInvalid for a kind or a key of no bytes or more than MaxItemKeyBytes, or a body of more than
// MaxItemBytes, and ErrFull while the store has no room.
func (r *Runtime) PutItems(ctx context.Context, items []Item) error {
	for i := range items {
		it := &items[i]
		if err := checkName("kind of an item", it.Kind, MaxDocIDBytes); err != nil {
			return err
		}
		if n := len(it.Key); n == 0 || n > MaxItemKeyBytes {
			return fmt.Errorf("key of an item of kind %s: %w: must have 1 to %d bytes, not %d", it.Kind, ErrInvalid, MaxItemKeyBytes, n)
		}
		if n := len(it.Body); n > MaxItemBytes {
			return fmt.Errorf("%s %q: %w: must have at most %d bytes, not %d", it.Kind, it.Key, ErrInvalid, MaxItemBytes, n)
		}
	}
	if len(items) == 0 {
		return nil
	}
	return r.read(ctx, func(ctx context.Context) error { return r.store.PutItems(ctx, items) })
}

// Items returns items of a kind, fewer than q.Limit if there are no more.
func (r *Runtime) Items(ctx context.Context, q ItemsQuery) ([]Item, error) {
	limit, err := checkLimit(q.Limit, MaxItems, MaxItems)
	if err != nil {
		return nil, err
	}
	q.Limit = limit
	return query(ctx, r, func(ctx context.Context) ([]Item, error) { return r.store.Items(ctx, q) })
}
