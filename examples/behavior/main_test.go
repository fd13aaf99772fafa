package main

import (
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	t.Parallel() // it waits for the disk
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	const want = `pump-1: power = 40 -> running, 0 commands
pump-1: flow = 7 -> running, 0 commands
pump-1: flow = 0 -> running, 0 commands
pump-1: flow = 0 -> running, 0 commands
the plant opens again
pump-1: flow = 0 -> locked, 1 commands
pump-1: power = 40 -> locked, 1 commands
pump-1 is unlocked -> idle, 1 commands
pump-1: power = 40 -> running, 1 commands
`
	if got := out.String(); got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}
