package entity

import "testing"

func TestABacklogThatStaysIsNotMovedForEachChange(t *testing.T) {
	t.Parallel()
	const most = 4096
	s := &Subscription{rt: &Runtime{hub: &hub{buffer: most, generations: []Generation{{ID: "g"}}}}, values: true, most: most, ready: make(chan struct{}, 1)}
	seq := uint64(0)
	push := func() {
		seq++
		s.push(LoggedChange{Seq: seq})
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
