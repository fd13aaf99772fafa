package changelog

import (
	"crypto/rand"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// NewGeneration returns the ID of a generation.
func NewGeneration() string { return strings.ToLower(rand.Text()[:12]) }

// Begin returns the generations of a store that is being opened, with the one of its next
// commit and without those that no cursor can name any more.
func Begin(stored []entity.Generation, info entity.StoreInfo) []entity.Generation {
	gone := 0
	for gone+1 < len(stored) && stored[gone+1].First < info.FirstChange {
		gone++
	}
	return append(stored[gone:len(stored):len(stored)], entity.Generation{First: info.LastChange + 1, ID: NewGeneration()})
}
