//go:build unix

package chaos_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// swap is a swap as whoever has asked for it has seen it.
type swap struct {
	key, value  string
	began, over int64
	before      string // the answer
	known       bool   // there was one
}

// sight is an activation at a moment at which it had a lease.
type sight struct {
	key   string
	epoch uint64
	at    int64
	node  string
}

// notice is a numbered message that has come.
type notice struct {
	from, key string
	epoch     uint64
	n         int
}

// evidence is what is judged. Processes and those who ask add to it.
type evidence struct {
	mu      sync.Mutex
	swaps   []swap
	sights  []sight
	notices []notice
	told    map[string]int // how many were sent, by sender and key
	journal map[string][]Swapped
}

func newEvidence() *evidence {
	return &evidence{told: make(map[string]int), journal: make(map[string][]Swapped)}
}

// add takes a line of a process.
func (e *evidence) add(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var s sight
	var n notice
	switch what, _, _ := strings.Cut(line, " "); what {
	case "active":
		if k, _ := fmt.Sscanf(line, "active %s %d %d %s", &s.key, &s.epoch, &s.at, &s.node); k == 4 {
			e.sights = append(e.sights, s)
		}
	case "told":
		if k, _ := fmt.Sscanf(line, "told %s %s %d %d", &n.from, &n.key, &n.epoch, &n.n); k == 4 {
			e.notices = append(e.notices, n)
		}
	case "tells":
		if k, _ := fmt.Sscanf(line, "tells %s %s %d", &n.from, &n.key, &n.n); k == 3 {
			e.told[n.from+" "+n.key] = n.n
		}
	}
}

func (e *evidence) addSwap(s swap) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.swaps = append(e.swaps, s)
}

// judge returns all that is wrong.
func (e *evidence) judge() (wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Concat(e.atMostOne(), e.fenced(), e.nothingLost(), e.linearizable())
}

// atMostOne finds activations that have handled something with a lease after those of a later epoch.
func (e *evidence) atMostOne() (wrong []string) {
	sights := slices.Clone(e.sights)
	slices.SortStableFunc(sights, func(a, b sight) int { return cmp.Compare(a.at, b.at) })
	last, of := make(map[string]sight), make(map[string]string)
	for _, s := range sights {
		if had := last[s.key]; s.epoch < had.epoch {
			wrong = append(wrong, fmt.Sprintf("two are active: %s of %s has the epoch %d and a lease, %v after %s of %s had %d",
				s.key, s.node, s.epoch, time.Duration(s.at-had.at), s.key, had.node, had.epoch))
			continue
		}
		last[s.key] = s
		id := fmt.Sprint(s.key, " ", s.epoch)
		if had := of[id]; had != "" && had != s.node {
			wrong = append(wrong, fmt.Sprintf("two are active: %s and %s have %s with the epoch %d", had, s.node, s.key, s.epoch))
		}
		of[id] = s.node
	}
	return wrong
}

// fenced finds what was written with an epoch after a later one.
func (e *evidence) fenced() (wrong []string) {
	for key, all := range e.journal {
		var last uint64
		for _, s := range all {
			if s.Epoch < last {
				wrong = append(wrong, fmt.Sprintf("not fenced: %s was written for %s with the epoch %d after %d", s.Value, key, s.Epoch, last))
			}
			last = max(last, s.Epoch)
		}
	}
	return wrong
}

// nothingLost finds what was acknowledged and is not in the journal, and what is there twice.
func (e *evidence) nothingLost() (wrong []string) {
	count := e.written()
	for id, n := range count {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("written twice: %s is %d times in the journal", id, n))
		}
	}
	for _, s := range e.swaps {
		if s.known && count[s.key+" "+s.value] == 0 {
			wrong = append(wrong, fmt.Sprintf("lost: %s was acknowledged by %s", s.value, s.key))
		}
	}
	return wrong
}

func (e *evidence) written() map[string]int {
	count := make(map[string]int)
	for key, all := range e.journal {
		for _, s := range all {
			count[key+" "+s.Value]++
		}
	}
	return count
}

// register is a model for porcupine: the input is what is put, the output what was there, nil if nobody knows.
var registerModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		return output == nil || output == state, input
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("swap(%v) = %v", input, output) },
}

// porcupineTime is more than it takes, by far.
const porcupineTime = 2 * time.Minute

// linearizable finds keys whose answers are not those of one register. A swap without an answer that is not in
// the journal has not taken place.
func (e *evidence) linearizable() (wrong []string) {
	count, histories := e.written(), make(map[string][]porcupine.Operation)
	for i, s := range e.swaps {
		op := porcupine.Operation{ClientId: i, Input: s.value, Call: s.began, Output: s.before, Return: s.over}
		if !s.known {
			if count[s.key+" "+s.value] == 0 {
				continue
			}
			op.Output, op.Return = nil, math.MaxInt64
		}
		histories[s.key] = append(histories[s.key], op)
	}
	for _, key := range slices.Sorted(maps.Keys(histories)) {
		if got := porcupine.CheckOperationsTimeout(registerModel, histories[key], porcupineTime); got != porcupine.Ok {
			wrong = append(wrong, fmt.Sprintf("not linearizable: porcupine says %q of the %d swaps of %s", got, len(histories[key]), key))
		}
	}
	return wrong
}

// inOrder finds numbered messages that are missing, or have come twice or out of order. Activations of a key
// follow each other by their epochs.
func (e *evidence) inOrder() (wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	notices := slices.Clone(e.notices)
	slices.SortStableFunc(notices, func(a, b notice) int { return cmp.Compare(a.epoch, b.epoch) })
	got := make(map[string]int)
	for _, n := range notices {
		id := n.from + " " + n.key
		if n.n != got[id]+1 {
			wrong = append(wrong, fmt.Sprintf("out of order: %s has told %s number %d after %d", n.from, n.key, n.n, got[id]))
		}
		got[id] = n.n
	}
	for id, n := range e.told {
		if got[id] != n {
			wrong = append(wrong, fmt.Sprintf("lost: %s (sender and key): %d of %d have come", id, got[id], n))
		}
	}
	return wrong
}

// complete reports whether as many numbered messages have come as were sent.
func (e *evidence) complete() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := 0
	for _, n := range e.told {
		sent += n
	}
	return len(e.notices) >= sent
}

// TestJudgesFindWhatIsWrong has evidence with one mistake each.
func TestJudgesFindWhatIsWrong(t *testing.T) {
	right := func() *evidence {
		e := newEvidence()
		e.swaps = []swap{{"k", "x", 1, 5, "", true}, {"k", "y", 6, 9, "x", true}, {"k", "z", 6, 30, "", false}, {"k", "gone", 7, 8, "", false}}
		e.journal["k"] = []Swapped{{"x", 3}, {"y", 4}, {"z", 4}}
		for _, line := range []string{
			"active k 3 2 a-1", "active k 4 7 b-1", "active k 4 8 b-1",
			"tells a-1 k 1", "tells a-1 k 2", "told a-1 k 4 2", "told a-1 k 3 1", // of two processes: their lines come as they come
		} {
			e.add(line)
		}
		return e
	}
	if wrong := append(right().judge(), right().inOrder()...); len(wrong) > 0 {
		t.Fatalf("nothing is wrong, and they find %q", wrong)
	}
	for want, spoil := range map[string]func(e *evidence){
		"two are active: k of a-1 has":    func(e *evidence) { e.add("active k 3 9 a-1") },
		"two are active: b-1 and a-1":     func(e *evidence) { e.add("active k 4 9 a-1") },
		"not fenced: z was written for k": func(e *evidence) { e.journal["k"][2].Epoch = 3 },
		"lost: y was acknowledged by k":   func(e *evidence) { e.journal["k"] = []Swapped{{"x", 3}, {"z", 4}} },
		"written twice: k x":              func(e *evidence) { e.journal["k"] = append(e.journal["k"], Swapped{"x", 4}) },
		"not linearizable":                func(e *evidence) { e.swaps[1].before = "" },
		"out of order: a-1 has told k":    func(e *evidence) { e.add("told a-1 k 4 2") },
		"lost: a-1 k (sender and key)":    func(e *evidence) { e.add("tells a-1 k 3") },
	} {
		e := right()
		spoil(e)
		if wrong := append(e.judge(), e.inOrder()...); len(wrong) != 1 || !strings.HasPrefix(wrong[0], want) {
			t.Errorf("they find %q, want %q", wrong, want)
		}
	}
}
