package entity

import (
	"errors"
	"testing"
)

func TestABacklogThatStaysIsNotMovedForEachChange(t *testing.T) {
	t.Parallel()
	const most = 4096
	s := &Subscription{rt: &Runtime{hub: &hub{buffer: most, generations: []Generation{{ID: "g"}}}}, values: true, most: most, ready: make(chan struct{}, 1)}
	seq := uint64(0)
	push := func() {
		seq++
		s.push(LoggedChange{Seq: seq}, 1)
	}
	for len(s.buffer) < most-1 {
		push()
	}
	moved := 0
	for want := uint64(1); want <= 10*most; want++ {
		head := s.head
		if push(); s.head < head {
			moved += len(s.buffer) - 1
		}
		if c, ok, err := s.fromBuffer(); err != nil || !ok || c.Seq != want {
			t.Fatalf("change %d, %v, %v; want %d", c.Seq, ok, err, want)
		}
		if len(s.buffer) > 3*most {
			t.Fatalf("the buffer has %d places for %d changes", len(s.buffer), most)
		}
	}
	if moved > 20*most {
		t.Errorf("%d changes were moved for %d that came, want about as many", moved, 10*most)
	}
}

func TestASubscriptionIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const most, large = 4096, 1 << 20
	s := &Subscription{rt: &Runtime{hub: &hub{buffer: most, generations: []Generation{{ID: "g"}}}}, values: true, most: most, ready: make(chan struct{}, 1)}
	n := 0
	for ; s.err == nil && n <= most; n++ {
		s.push(LoggedChange{Seq: uint64(n + 1)}, large)
	}
	if n != MaxStreamBytes/large+1 {
		t.Errorf("it lags after %d changes of 1 MiB", n)
	}
	if s.buffer != nil || s.bytes != 0 {
		t.Errorf("%d changes with %d bytes are kept of one that lags", len(s.buffer), s.bytes)
	}
	if _, ok, err := s.fromBuffer(); ok || !errors.Is(err, ErrLagged) {
		t.Errorf("a change: %v, %v; want ErrLagged", ok, err)
	}
}
