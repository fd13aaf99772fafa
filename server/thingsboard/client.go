package thingsboard

import (
	"github.com/greenroom-go/greenroom/server/layout"
)

// client is a connection that has subscribed to something of ThingsBoard's, or behind which
// devices are. Its fields are guarded by Layout.mu.
type client struct {
	devices map[string]*calls // for which it speaks, by id; nil where it takes no commands
	gateway bool              // it takes commands of devices behind it
}

// calls is the receiving of a device's commands by a client. Its fields are guarded by
// Layout.mu.
type calls struct {
	stop  func() // nil until the runtime has returned it
	ended bool
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
	var stops []func()
	l.mu.Lock()
	if known := l.clients[c]; known != nil {
		known.gateway = known.gateway && gateway
		for id, receiving := range known.devices {
			if self := id == c.Self(); self && !own || !self && !gateway {
				stops = append(stops, receiving.end())
				known.devices[id] = nil
			}
		}
	}
	l.mu.Unlock()
	callAll(stops)
}

// end ends the receiving and returns what is to be called for it, nil for nothing. The caller
// holds Layout.mu.
func (r *calls) end() (stop func()) {
	if r == nil || r.ended {
		return nil
	}
	r.ended = true
	return r.stop
}

func callAll(list []func()) {
	for _, f := range list {
		if f != nil {
			f()
		}
	}
}

// join notes that a client speaks for a device. It reports whether there is room, and whether the
// client takes the commands of devices behind it.
func (l *Layout) join(c layout.Client, id string) (gateway, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		known = &client{devices: map[string]*calls{}}
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
func (l *Layout) begin(c layout.Client, id string) *calls {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		return nil
	}
	if before, joined := known.devices[id]; !joined || before != nil && !before.ended {
		return nil
	}
	known.devices[id] = &calls{}
	return known.devices[id]
}

// began notes how the receiving is ended, and ends it where it has been ended meanwhile.
func (l *Layout) began(r *calls, stop func()) {
	l.mu.Lock()
	r.stop = stop
	ended := r.ended
	l.mu.Unlock()
	if ended {
		stop()
	}
}

// drop ends the receiving of a client that no longer takes a device's commands.
func (l *Layout) drop(r *calls) {
	l.mu.Lock()
	stop := r.end()
	l.mu.Unlock()
	callAll([]func(){stop})
}

// leave takes join back.
func (l *Layout) leave(c layout.Client, id string) {
	l.mu.Lock()
	var stop func()
	if known := l.clients[c]; known != nil {
		if receiving, joined := known.devices[id]; joined {
			stop = receiving.end()
			delete(known.devices, id)
			l.forget(c, id)
		}
	}
	l.mu.Unlock()
	callAll([]func(){stop})
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
	var stops []func()
	l.mu.Lock()
	if known := l.clients[c]; known != nil {
		for id, receiving := range known.devices {
			l.forget(c, id)
			stops = append(stops, receiving.end())
		}
		delete(l.clients, c)
	}
	l.mu.Unlock()
	callAll(stops)
}
