//go:build race

package sim

// raceEnabled: the race detector makes a step ten times as long.
const raceEnabled = true
