// Package history compares ways to pack the history of a key: that of entity/block beside
// others. It has tests only.
package history
