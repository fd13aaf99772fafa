// Package search finds entities by filters.
//
// A [Finder] answers from the store at first. When a filter has been asked for and
// there are enough entities for it to pay, it builds an index in memory: a column for
// each path that filters name. The index follows the committed changes, and a search
// sees everything that was committed before it began.
package search
