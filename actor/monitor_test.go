package actor

import (
	"testing"
	"time"
)

// 5000 handlers that sleep, of which hundreds become runnable together, look like a load that keeps the
// processors busy: the room for another worker must not be taken back for that.
func TestRoomBesideBlockedHandlersIsKept(t *testing.T) {
	t.Parallel()
	const blocked = 5000
	for _, c := range []struct {
		name                         string
		waits, moving, long, compute int
		keeps                        bool
	}{
		{name: "while nobody waits", long: blocked, keeps: true},
		{name: "while nobody waits and they have just begun", keeps: true},
		{name: "while nobody waits and many could run", long: blocked, compute: 500, keeps: true},
		{name: "while one waits that they hold up", waits: 1, long: blocked, keeps: true},
		{name: "but not for ever more handlers that compute", waits: 1, long: blocked, compute: 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &scheduler{n: 2, most: workersMax}
			s.allowed.Store(blocked + s.n)
			for range 100 {
				s.takeBack(c.waits, c.moving, blocked, c.long, c.compute)
			}
			if got := s.allowed.Load(); (got == blocked+s.n) != c.keeps {
				t.Errorf("beside %d handlers there may be %d workers, keeps = %t", blocked, got, c.keeps)
			}
		})
	}
}

// Workers that all get on are taken back to the usual number, whatever waits.
func TestWorkersThatGetOnAreTakenBack(t *testing.T) {
	t.Parallel()
	s := &scheduler{n: 2, most: workersMax}
	s.allowed.Store(500)
	for range 200 {
		s.takeBack(100, 400, 0, 0, 0)
	}
	if got := s.allowed.Load(); got != s.n {
		t.Errorf("there may be %d workers, want %d", got, s.n)
	}
}

// A worker that has just been let in and begins its first handler has not got on with anything yet: where
// thousands block, those who are let in would otherwise look like a load that needs no more of them.
func TestAWorkerThatHasJustComeDoesNotCountAsOneThatGetsOn(t *testing.T) {
	t.Parallel()
	w, s := &worker{}, &scheduler{}
	s.workers.Store(&[]*worker{w})
	looks := func(of *core) int {
		w.current.Store(of)
		_, _, moving, _ := s.mark(time.Unix(1, 0))
		return moving
	}
	for _, c := range []struct {
		of   *core
		want int
		what string
	}{
		{nil, 0, "one that looks for work"},
		{new(core), 0, "one in its first handler"},
		{new(core), 1, "one in its second"},
	} {
		if n := looks(c.of); n != c.want {
			t.Errorf("%s: %d get on, want %d", c.what, n, c.want)
		}
	}
}

// What is runnable for a moment does not count as what computes, nor does what was so long ago.
func TestLowestForgetsWhatWasRunnableForAMoment(t *testing.T) {
	t.Parallel()
	var l lowest
	now := time.Unix(1, 0)
	look := func(runs int) int {
		now = now.Add(2 * time.Millisecond)
		return l.note(now, runs)
	}
	for range 10 * lowestLooks {
		look(300)
	}
	if got := look(300); got != 300 {
		t.Errorf("300 that can always run count as %d", got)
	}
	if got := look(3); got != 3 {
		t.Errorf("3 count as %d", got)
	}
	if got := look(2000); got != 3 {
		t.Errorf("a burst counts as %d", got)
	}
	for range 10 * lowestLooks {
		look(300)
	}
	if got := look(300); got != 300 {
		t.Errorf("long after, 300 that can always run count as %d", got)
	}
}
