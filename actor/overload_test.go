package actor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

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

// lingering is a carrier that takes a while for each beginning of an overload.
type lingering struct {
	sink
	begun func()
	busy  bool
	told  []int // the lengths
}

func (l *lingering) Way(PID) (Way, error) { return l, nil }

func (l *lingering) Send(_ FarSender, m FarMessage) FarVerdict {
	n := m.Message.(Overload).Length
	if n > 0 && !l.busy {
		l.busy = true
		l.begun()
		l.busy = false
	}
	l.told = append(l.told, n)
	return FarTaken
}

// The end of an overload is told after its beginning, however long that takes.
func TestAnOverloadIsToldBeforeItsEnd(t *testing.T) {
	for name, others := range map[string]int{"one": 0, "several meanwhile": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bg, sys, l, next := context.Background(), NewSystem("home"), new(lingering), make(chan struct{})
				Carry(sys, l)
				there, err := Lookup[Overload](sys, PID{node: "away", inc: 1, path: "/x", id: 1})
				if err != nil {
					t.Fatal(err)
				}
				Subscribe(sys, there)
				ref := SpawnFunc(sys, "", func(*Context[int], int) error { <-next; return nil }, Bounded(1, DropNewest))
				begin := func() {
					for range 3 { // one is handled, one waits, and one finds no room
						ref.Tell(bg, 0)
						synctest.Wait()
					}
				}
				end := func() {
					next <- struct{}{}
					next <- struct{}{}
					synctest.Wait()
				}
				l.begun = func() {
					end()
					for range others {
						begin()
						end()
					}
				}
				for range 2 {
					begin()
					if want := []int{1, 0}; !slices.Equal(l.told, want) {
						t.Errorf("told %v, want %v", l.told, want)
					}
					l.told = nil
				}
				if _, err := sys.Shutdown(bg); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
