package recent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func names(ns *Nodes[int]) string {
	var all []string
	for name, v := range ns.All() {
		all = append(all, fmt.Sprint(name, v))
	}
	return strings.Join(all, " ")
}

func TestTheOldestNodeWithNothingOpenIsForgottenFirst(t *testing.T) {
	open := map[string]bool{}
	ns := New[int](3, func(name string) bool { return open[name] })
	for i, name := range []string{"a", "b", "c", "b"} {
		ns.Put(name, i)
	}
	open["a"] = true
	ns.Put("d", 4)
	if got := names(ns); got != "b3 d4 a0" || ns.Get("c") != 0 || ns.Get("a") != 0 || ns.Get("b") != 3 {
		t.Errorf("got %s", got)
	}
	open["a"] = false
	ns.Put("e", 5)
	ns.Put("f", 6)
	if got := names(ns); got != "a0 e5 f6" {
		t.Errorf("got %s", got)
	}
}

func TestNodesThatAreOpenAreKeptBeyondTheLimit(t *testing.T) {
	ns := New[int](10, func(name string) bool { return name[0] == 'o' })
	for n := range 100 {
		ns.Put(fmt.Sprint("o", n), n)
	}
	for n := range 10_000 {
		ns.Put(fmt.Sprint("g", n), n)
		if len(ns.of) > 210 || len(ns.of) != ns.oldest.Len() {
			t.Fatalf("%d nodes are known, %d in order", len(ns.of), ns.oldest.Len())
		}
	}
	open := 0
	for name := range ns.All() {
		if name[0] == 'o' {
			open++
		}
	}
	if open != 100 || !slices.Contains(strings.Fields(names(ns)), "g99999999") {
		t.Errorf("%d of 100 open ones are known: %s", open, names(ns))
	}
}
