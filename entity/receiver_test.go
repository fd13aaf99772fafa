package entity_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestWhatWasNotAcknowledgedIsSentAgain(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	first, second := s.device("d"), s.device("d")
	made := s.command("d", entity.NewCommand{Name: "open"})
	second.next(t, "the command")
	if len(first.got) > 0 {
		t.Error("two receivers got it")
	}
	second.stop()
	second.stop()
	if got := first.next(t, "the command for the other receiver"); got.ID != made.ID || got.Attempts != 2 {
		t.Errorf("sent again as %+v", got)
	}
	s = s.reopen(entity.Config{})
	third := s.device("d")
	if got := third.next(t, "the command after a restart"); got.ID != made.ID || got.Attempts != 3 {
		t.Errorf("sent again as %+v", got)
	}
	if err := s.Delivered(t.Context(), "d", made.ID); err != nil {
		t.Fatal(err)
	}
	third.stop()
	s = s.reopen(entity.Config{})
	fourth := s.device("d")
	s.done(made, value.Value{})
	next := s.command("d", entity.NewCommand{Name: "close"})
	if got := fourth.next(t, "the next command"); got.ID != next.ID {
		t.Errorf("an acknowledged command was sent again: %+v", got)
	}
	fourth.stop()
	changes, err := s.Changes(t.Context(), entity.ChangesQuery{CommandsOnly: true, Entities: []string{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	for s.find(next).State != entity.CommandQueued {
		if _, err := changes.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACommandIsHeldFromItsSendingToItsAcknowledgement(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	var made []entity.Command
	for _, end := range []string{"acknowledged", "canceled", "left"} {
		made = append(made, s.command("d", entity.NewCommand{Name: end, Parallel: true}))
	}
	held := func(when string, want ...bool) {
		t.Helper()
		for i, c := range made {
			if got := s.CommandHeld("d", c.ID); got != want[i] {
				t.Errorf("%s: is %q held: %t", when, c.Name, got)
			}
		}
	}
	held("queued", false, false, false)
	d := s.device("d")
	for range made {
		d.next(t, "a command")
	}
	held("sent", true, true, true)
	if err := s.Delivered(t.Context(), "d", made[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), "d", made[1].ID); err != nil {
		t.Fatal(err)
	}
	held("two are over", false, false, true)
	d.stop()
	held("without a receiver", false, false, false)
}

func TestAReceiverIsGivenAsMuchAsItHasRoomFor(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	var made []entity.Command
	for i := range 4 {
		made = append(made, s.command("d", entity.NewCommand{Name: fmt.Sprint(i), Parallel: true}))
	}
	receive := func(n int) *device {
		t.Helper()
		d := &device{got: make(chan entity.Command, len(made))}
		var err error
		if d.stop, err = s.ReceiveUpTo("d", n, func(c entity.Command) { d.got <- c }); err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := receive(1)
	if got := first.next(t, "the first"); got.ID != made[0].ID {
		t.Errorf("%q is sent first", got.Name)
	}
	second := receive(2)
	for i := range 2 {
		if got := second.next(t, "the others"); got.ID != made[1+i].ID {
			t.Errorf("%q is sent to the second receiver", got.Name)
		}
	}
	if got := s.find(made[3]); got.State != entity.CommandQueued || got.Attempts != 0 {
		t.Errorf("the one that nobody has room for is %+v", got)
	}
	if err := s.Delivered(t.Context(), "d", made[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := first.next(t, "the last"); got.ID != made[3].ID || got.Attempts != 1 {
		t.Errorf("with room again %+v is sent", got)
	}
	if len(first.got)+len(second.got) > 0 {
		t.Error("more is sent")
	}
	for _, n := range []int{0, entity.MaxOpenCommands + 1} {
		if _, err := s.ReceiveUpTo("d", n, func(entity.Command) {}); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("a receiver of %d: %v", n, err)
		}
	}
}

func TestWhatAReceiverPanicsWithIsSentAgain(t *testing.T) {
	t.Parallel() // it waits for seconds
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	got := make(chan entity.Command, 2)
	stop, err := s.Receive("d", func(c entity.Command) {
		if got <- c; c.Attempts == 1 && c.Name == "first" {
			panic("no")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	made := s.command("d", entity.NewCommand{Name: "first", Parallel: true})
	wait(t, got, "the command")
	if again := wait(t, got, "the command once more"); again.ID != made.ID || again.Attempts != 2 {
		t.Errorf("after the panic %+v is sent", again)
	}
}

func TestADeviceSaysNothingOnTheWayOfWhatItWasNotSent(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("d", entity.Edits{})
	made := s.command("d", entity.NewCommand{Name: "open"})
	if err := s.Delivered(t.Context(), "d", made.ID); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("an acknowledgement: %v", err)
	}
	if err := s.Progress(t.Context(), "d", made.ID, value.Int(1)); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("progress: %v", err)
	}
	if got := s.find(made); got != made {
		t.Errorf("it is %+v", got)
	}
	s.device("d").next(t, "the command")
}
