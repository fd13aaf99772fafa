package thingsboard

import (
	"github.com/greenroom-go/greenroom/server/layout"
)

// client is a connection that has subscribed to something of ThingsBoard's, or behind which
// devices are. Its fields are guarded by Layout.mu.
type client struct {
	devices map[string]*layout.Receiving // for which it speaks, by id; nil where it takes no commands
	gateway bool                         // it takes commands of devices behind it
}

// Topics to which clients subscribe for commands, as the first of them has it.
const (
	callTopic      = "v1/devices/me/rpc/request/"
	shortCallTopic = "v2/r/req/"
	gatewayCalls   = "v1/gateway/rpc"
)

// takesCalls reports whether a filter covers the commands of the device itself.
func takesCalls(filter string) bool {
	return layout.Matches(filter, callTopic+"1") || layout.Matches(filter, shortCallTopic+"1")
}

// Subscribed notes that a device may want to be told what it should be, and takes its commands
// if that is what it subscribes to.
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

// beginGateway notes that a client takes the commands of the devices behind it, and returns
// those that there are.
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

// Unsubscribed ends the receiving of commands that no subscription covers any more. To what
// else is sent nothing has to be done: a client is sent only what it subscribes to.
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

// join notes that a client speaks for a device. It reports whether there is room, and whether the
// client takes the commands of devices behind it.
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

// begin begins the receiving of a device's commands. It returns nil where the client does not
// speak for the device, or receives them already.
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

// leave takes join back.
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

// forget takes a client out of those of a device. The caller holds mu.
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
