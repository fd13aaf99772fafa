package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// schedule is what a run has decided: which of the things that were ready happened, where
// it was not the first one, and the faults. Its text is "12.3,40.1,41!p7": at step 12 the
// fourth, at step 40 the second, at step 41 a fault.
type schedule struct {
	picks  map[int]int
	faults []fault
}

// fault is one that happens in a run. Its place is a step or, for a Sometimes, the number
// of the call.
type fault struct {
	at   int
	kind faultKind
	draw uint64 // whom it concerns
}

type faultKind byte

const (
	faultPanic     faultKind = 'p' // before the handler
	faultPanicLate faultKind = 'P' // after it
	faultStop      faultKind = 's'
	faultKill      faultKind = 'k'
	faultLag       faultKind = 'l'
	faultSometimes faultKind = 'x'
)

const faultKinds = "pPsklx"

func newSchedule() *schedule { return &schedule{picks: make(map[int]int)} }

// String returns the form that parseSchedule reads.
func (s *schedule) String() string {
	var parts []string
	for _, at := range slices.Sorted(maps.Keys(s.picks)) {
		parts = append(parts, fmt.Sprintf("%d.%d", at, s.picks[at]))
	}
	for _, f := range s.faults {
		parts = append(parts, fmt.Sprintf("%d!%c%d", f.at, f.kind, f.draw))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ",")
}

// parseSchedule reads what String has written.
func parseSchedule(text string) (*schedule, error) {
	s := newSchedule()
	if text == "-" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if err := s.parse(part); err != nil {
			return nil, fmt.Errorf("schedule %q: %q: %w", text, part, err)
		}
	}
	return s, nil
}

func (s *schedule) parse(part string) error {
	if at, pick, ok := strings.Cut(part, "."); ok {
		step, err := strconv.ParseUint(at, 10, 31)
		if err != nil {
			return fmt.Errorf("want step.choice: %w", err)
		}
		n, err := strconv.ParseUint(pick, 10, 31)
		if err != nil {
			return fmt.Errorf("want step.choice: %w", err)
		}
		s.picks[int(step)] = int(n)
		return nil
	}
	at, what, ok := strings.Cut(part, "!")
	if !ok || what == "" || !strings.Contains(faultKinds, what[:1]) {
		return fmt.Errorf("want step.choice or step!fault, where a fault is one of %s and a number", faultKinds)
	}
	step, err := strconv.ParseUint(at, 10, 31)
	if err != nil {
		return fmt.Errorf("want step!fault: %w", err)
	}
	draw, err := strconv.ParseUint(what[1:], 10, 64)
	if err != nil {
		return fmt.Errorf("want step!fault: %w", err)
	}
	s.faults = append(s.faults, fault{int(step), faultKind(what[0]), draw})
	return nil
}

// picker follows the schedule.
func (s *schedule) picker() Picker {
	step := -1
	return picker(func(ready []Choice) int {
		step++
		return min(s.picks[step], len(ready)-1)
	})
}
