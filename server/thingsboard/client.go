package thingsboard

import (
	"github.com/greenroom-go/greenroom/server/layout"
)

// client is a connection that subscribes to a ThingsBoard topic, or has devices behind it. Its
// fields are guarded by Layout.mu.
type client struct {
	devices map[string]*layout.Receiving // the devices that it speaks for, by id; nil for those whose commands it does not receive
	gateway bool                         // it receives the commands of the devices behind it
}

// Topics of commands, as they are subscribed to; callTopic and shortCallTopic are followed by a
// number.
const (
	callTopic      = "v1/devices/me/rpc/request/"
	shortCallTopic = "v2/r/req/"
	gatewayCalls   = "v1/gateway/rpc"
)

// takesCalls reports whether a filter matches the commands of the device itself.
func takesCalls(filter string) bool {
	return layout.Matches(filter, callTopic+"1") || layout.Matches(filter, shortCallTopic+"1")
}

// Subscribed records that a client speaks for its device, and starts the delivery of commands if
// the filter matches them.
func (l *Layout) Subscribed(c layout.Client, filter string) {
	l.join(c, c.Self())
	if takesCalls(filter) {
		l.takeCalls(c, c.Self())
	}
	if layout.Matches(filter, gatewayCalls) {
		for _, id := range l.beginGateway(c) {
			l.takeCalls(c, id)
		}
	}
}

// beginGateway records that a client receives the commands of the devices behind it, and returns
// those that are connected.
func (l *Layout) beginGateway(c layout.Client) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		return nil
	}
	known.gateway = true
	for id := range known.devices {
		if id != c.Self() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Unsubscribed ends the delivery of commands that no subscription matches any more. Other messages
// need no action: a client is only sent what it subscribes to.
func (l *Layout) Unsubscribed(c layout.Client, _ string) {
	own := c.Subscribes(callTopic+"1") || c.Subscribes(shortCallTopic+"1")
	gateway := c.Subscribes(gatewayCalls)
	var ends []*layout.Receiving
	l.mu.Lock()
	if known := l.clients[c]; known != nil {
		known.gateway = known.gateway && gateway
		for id, receiving := range known.devices {
			if self := id == c.Self(); self && !own || !self && !gateway {
				ends = append(ends, receiving)
				known.devices[id] = nil
			}
		}
	}
	l.mu.Unlock()
	endAll(ends)
}

func endAll(list []*layout.Receiving) {
	for _, r := range list {
		r.End()
	}
}

// join records that a client speaks for a device. It reports whether the client receives the
// commands of devices behind it, and whether there was room.
func (l *Layout) join(c layout.Client, id string) (gateway, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		known = &client{devices: map[string]*layout.Receiving{}}
		l.clients[c] = known
	}
	if _, joined := known.devices[id]; joined {
		return known.gateway, true
	}
	if len(known.devices) >= MaxDevices || l.joined >= MaxAllDevices {
		return false, false
	}
	l.joined++
	known.devices[id] = nil
	clients := l.of[id]
	if clients == nil {
		clients = map[layout.Client]bool{}
		l.of[id] = clients
	}
	clients[c] = true
	return known.gateway, true
}

// begin begins the delivery of a device's commands. It returns nil if the client does not speak for
// the device, or already receives them.
func (l *Layout) begin(c layout.Client, id string) *layout.Receiving {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		return nil
	}
	if before, joined := known.devices[id]; !joined || before != nil && !before.Ended() {
		return nil
	}
	known.devices[id] = &layout.Receiving{}
	return known.devices[id]
}

// leave reverts join.
func (l *Layout) leave(c layout.Client, id string) {
	l.mu.Lock()
	var end *layout.Receiving
	if known := l.clients[c]; known != nil {
		if receiving, joined := known.devices[id]; joined {
			end = receiving
			delete(known.devices, id)
			l.forget(c, id)
		}
	}
	l.mu.Unlock()
	end.End()
}

// forget removes a client from those of a device. The caller holds mu.
func (l *Layout) forget(c layout.Client, id string) {
	l.joined--
	delete(l.of[id], c)
	if len(l.of[id]) == 0 {
		delete(l.of, id)
	}
}

// Left forgets a client.
func (l *Layout) Left(c layout.Client) {
	var ends []*layout.Receiving
	l.mu.Lock()
	if known := l.clients[c]; known != nil {
		for id, receiving := range known.devices {
			l.forget(c, id)
			ends = append(ends, receiving)
		}
		delete(l.clients, c)
	}
	l.mu.Unlock()
	endAll(ends)
}
