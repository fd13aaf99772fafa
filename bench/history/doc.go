// Package history compares ways to pack the history of a key, among them that of entity/block. It
// contains only tests.
package history
