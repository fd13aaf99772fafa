package actor

import (
	"context"
	"slices"
	"testing"
)

func TestWhatEndsWithAnIncarnationEndsInOrder(t *testing.T) {
	l := newLifetime()
	var ended []int
	for i := range 10 {
		stop := whenDone(l, func() {
			if l.Err() == nil {
				t.Errorf("%d was called before the end", i)
			}
			ended = append(ended, i)
		})
		if i%3 == 0 && (!stop() || stop()) {
			t.Errorf("%d was not taken back, or twice", i)
		}
	}
	within, cancel := context.WithCancel(l) // package context knows the end as well
	defer cancel()
	l.end()
	l.end()
	if want := []int{1, 2, 4, 5, 7, 8}; !slices.Equal(ended, want) {
		t.Errorf("%v ended, want %v", ended, want)
	}
	if within.Err() == nil {
		t.Error("a context that was derived goes on")
	}
	if stop := whenDone(l, func() { ended = nil }); ended != nil || stop() {
		t.Error("what was added after the end was not called at once")
	}
}
