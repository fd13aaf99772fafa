package sim

import "fmt"

// stretch is a part of a trace: a round of events, and the same ones again at other times.
type stretch struct {
	events []Event // of all rounds
	times  int     // rounds
}

// roundMost is how many events are looked at as one round, such as the ticks of several actors.
const roundMost = 8

// repeats is how often a round must come for the trace to show it once.
const repeats = 3

// folded returns a trace in stretches. What does not repeat itself is in stretches of one event.
func folded(events []Event) []stretch {
	var all []stretch
	for len(events) > 0 {
		s := stretch{events[:1], 1}
		for size := 1; size <= min(roundMost, len(events)/repeats); size++ {
			if times := roundsOf(events, size); times >= repeats && times*size > len(s.events) {
				s = stretch{events[:times*size], times}
			}
		}
		all, events = append(all, s), events[len(s.events):]
	}
	return all
}

// roundsOf returns how often the first size events come in a row.
func roundsOf(events []Event, size int) int {
	i := size
	for i < len(events) && events[i].repeats(events[i-size]) {
		i++
	}
	return i / size
}

// repeats reports whether two events are the same but for their time.
func (e Event) repeats(o Event) bool {
	e.Step, e.At = o.Step, o.At
	return e == o
}

// round returns the first round.
func (s stretch) round() []Event { return s.events[:len(s.events)/s.times] }

// lines returns the first round, and in one more line how often it comes again.
func (s stretch) lines() []string {
	var lines []string
	for _, e := range s.round() {
		lines = append(lines, e.String())
	}
	if last := s.events[len(s.events)-1]; s.times > 1 {
		what := "the same"
		if n := len(s.round()); n > 1 {
			what = fmt.Sprintf("these %d events", n)
		}
		lines = append(lines, fmt.Sprintf("%5d %12v ...     %s, %d more times until here", last.Step, last.At, what, s.times-1))
	}
	return lines
}

// lastOf returns the last stretches whose rounds have no more than most events, but at least one
// stretch, and of how many events of the trace they are.
func lastOf(all []stretch, most int) (last []stretch, events int) {
	first, shown := len(all), 0
	for first > 0 {
		n := len(all[first-1].round())
		if shown > 0 && shown+n > most {
			break
		}
		first--
		shown += n
		events += len(all[first].events)
	}
	return all[first:], events
}
