package entity

import "sort"

// Generation stands for the changes that were committed between one opening of a store and the
// next. Two copies of a store, whether made by a backup or by copying files, share the generations
// up to the copy and no later one. So a store can tell that a cursor's change is not its own,
// however the copy was made.
type Generation struct {
	First uint64 // the sequence of its first change; it ends where the next one begins
	ID    string // random, without a hyphen
}

// generationOf returns the ID of the generation of a change. REQUIRES: list is not empty.
func generationOf(list []Generation, seq uint64) string {
	later := sort.Search(len(list), func(i int) bool { return list[i].First > seq })
	return list[max(later-1, 0)].ID
}
