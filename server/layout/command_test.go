package layout

import (
	"log/slog"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// givingRuntime gives each receiver the same command, which the newest of them then holds.
type givingRuntime struct{ Runtime }

func (givingRuntime) Receive(id string, deliver func(entity.Command)) (func(), error) {
	deliver(entity.Command{Entity: id, ID: "1", Name: "open"})
	return func() {}, nil
}

func (givingRuntime) CommandHeld(string, string) bool { return true }

type anyClient struct{ Client }

func (anyClient) May(access.Action, string) error { return nil }

func TestACommandThatGoesToAnotherReceiverIsNotWantedFromTheOneBefore(t *testing.T) {
	t.Parallel()
	h := &Host{Runtime: givingRuntime{}, Logger: slog.New(slog.DiscardHandler), Running: t.Context()}
	begin := func() (*Receiving, *Receipt) {
		r := &Receiving{}
		var got *Receipt
		if err := r.Begin(h, anyClient{}, "pump", func(_ *entity.Command, receipt *Receipt) error {
			got = receipt
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return r, got
	}
	before, old := begin()
	if !old.Wanted() {
		t.Error("the command is not wanted from its only receiver")
	}
	before.End()
	_, current := begin()
	if old.Wanted() {
		t.Error("the command is still wanted from the receiver that has ended")
	}
	if !current.Wanted() {
		t.Error("the command is not wanted from the receiver that has it now")
	}
}
