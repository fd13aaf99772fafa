// Package search finds entities by filters.
//
// At first a [Finder] answers from the store. Once a filter has been used, and there are enough
// entities for it to pay, it builds an index in memory: a column for each path that filters name.
// The index follows the committed changes, and a search sees everything that was committed before
// it began.
package search
