package attacktest

import "sync"

// Book has all letters of a round. The zero value is an empty book, and its methods may be called concurrently.
type Book[L any] struct {
	mu      sync.Mutex
	letters []*L
}

// All returns the letters in the order of their numbers. The caller must not change the slice.
func (b *Book[L]) All() []*L {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.letters
}

// Enter adds a letter, and sets its number, which counts from 1.
func (b *Book[L]) Enter(l *L, number *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.letters = append(b.letters, l)
	*number = len(b.letters)
}
