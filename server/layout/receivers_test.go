package layout

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// doneRuntime records which commands are done.
type doneRuntime struct {
	Runtime
	done []string
	err  error
}

func (r *doneRuntime) Receive(string, func(entity.Command)) (func(), error) { return func() {}, nil }

func (r *doneRuntime) Done(_ context.Context, _, command string, _ value.Value) error {
	if r.err == nil {
		r.done = append(r.done, command)
	}
	return r.err
}

// countingClient counts the devices that have joined.
type countingClient struct {
	Client
	joined []string
}

func (c *countingClient) Joined(id string) { c.joined = append(c.joined, id) }

func (c *countingClient) Parted(id string) {
	c.joined = slices.DeleteFunc(c.joined, func(other string) bool { return other == id })
}

func TestADeviceKeepsItsPendingCommandsWhenItComesThroughAnotherClient(t *testing.T) {
	t.Parallel()
	rt := &doneRuntime{}
	rs := NewReceivers(&Host{Runtime: rt, Logger: slog.New(slog.DiscardHandler), Running: t.Context()}, 10, 10)
	first, second := &countingClient{}, &countingClient{}
	send := func(*Receiver, *entity.Command, *Receipt) error { return nil }
	if err := rs.Join(first, "pump", false, send); err != nil {
		t.Fatal(err)
	}
	open, closed := value.String("open"), value.String("closed")
	sent := func(id, name string, want value.Value) {
		c := entity.Command{ID: id, Name: name, Expires: 253402300799999}
		rs.Await(rs.byID["pump"], &c, want)
	}
	sent("1", "valve", open)
	sent("2", "lid", closed)
	if err := rs.Join(second, "pump", false, send); err != nil {
		t.Fatal(err)
	}
	if len(first.joined) != 0 || !slices.Equal(second.joined, []string{"pump"}) {
		t.Errorf("joined: %v and %v", first.joined, second.joined)
	}
	rs.Left(first) // it has lost the device
	reports := func(is value.Value) func(string, value.Value) (value.Value, bool) {
		return func(_ string, want value.Value) (value.Value, bool) {
			return is, value.Compare(is, want) == value.Equal
		}
	}
	rt.err = entity.ErrFull
	if err := rs.Reported("pump", reports(open)); !errors.Is(err, entity.ErrFull) {
		t.Errorf("a full store: %v", err)
	}
	rt.err = nil
	for range 2 { // the second time nothing is pending
		if err := rs.Reported("pump", reports(open)); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(rt.done, []string{"1"}) {
		t.Errorf("done: %v", rt.done)
	}
	sent("3", "lid", open) // replaces the one before
	if err := rs.Reported("pump", reports(closed)); err != nil || len(rt.done) != 1 {
		t.Errorf("done: %v, %v", rt.done, err)
	}
	rs.Left(second)
	if devices, clients := rs.Count(); devices != 0 || clients != 0 || len(second.joined) != 0 {
		t.Errorf("%d devices of %d clients are left, %v have joined", devices, clients, second.joined)
	}
	if err := rs.Reported("pump", reports(open)); err != nil || len(rt.done) != 1 {
		t.Errorf("done after the end: %v, %v", rt.done, err)
	}
}
