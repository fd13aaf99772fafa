package homie

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/layout"
)

// reachable is a runtime that knows who can be reached.
type reachable struct {
	layout.Runtime
	devices int
}

func (r *reachable) Receive(string, func(entity.Command)) (stop func(), err error) {
	r.devices++
	return func() { r.devices-- }, nil
}

// gateway is a client with devices.
type gateway struct {
	layout.Client
	joined int
}

func (g *gateway) Joined(string) { g.joined++ }
func (g *gateway) Parted(string) { g.joined-- }

func TestTheDevicesOfAConnectionAreBounded(t *testing.T) {
	t.Parallel()
	rt, l := &reachable{}, &Layout{}
	l.Start(&layout.Host{Runtime: rt, Logger: slog.New(slog.DiscardHandler), Running: context.Background()})
	first, second := &gateway{}, &gateway{}
	for i := range MaxDevicesOfClient {
		if err := l.join(first, fmt.Sprint("d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.join(first, "more"); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("one more: %v", err)
	}
	if err := l.join(first, "d1"); err != nil {
		t.Errorf("one again: %v", err)
	}
	if err := l.join(second, "d0"); err != nil { // it is behind another gateway now
		t.Fatal(err)
	}
	if err := l.join(first, "more"); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
	l.Left(first)
	if devices, clients := l.receivers.Count(); first.joined != 0 || second.joined != 1 || rt.devices != 1 || devices != 1 || clients != 1 {
		t.Errorf("%d and %d devices have joined, %d can be reached, and %d are known of %d clients", first.joined, second.joined, rt.devices, devices, clients)
	}
	l.Left(second)
	if devices, clients := l.receivers.Count(); rt.devices != 0 || devices != 0 || clients != 0 {
		t.Errorf("%d devices can be reached, and %d are known of %d clients", rt.devices, devices, clients)
	}
}
