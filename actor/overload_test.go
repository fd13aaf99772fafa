package actor

import "testing"

func TestOfSendersWithAsManyMessagesTheOldestComesFirst(t *testing.T) {
	sys := NewSystem("x")
	defer sys.Shutdown(t.Context()) //nolint:errcheck // nothing runs
	senders := make(map[*core]int)
	var first PID
	for i := range 20 {
		ref := SpawnFunc(sys, "", func(*Context[int], int) error { return nil })
		if senders[ref.recipient().base()] = 5; i == 0 {
			first = ref.PID()
		}
	}
	if top := topOf(senders); top[0].PID != first {
		t.Errorf("%v, want %v", top[0].PID, first)
	}
}
