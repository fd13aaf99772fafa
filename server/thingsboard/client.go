package thingsboard

import (
	"github.com/greenroom-go/greenroom/server/layout"
)

// client is a connection that has subscribed to something of ThingsBoard's, or behind which
// devices are. Its fields are guarded by Layout.mu.
type client struct {
	devices map[string]*device // for which it speaks, by id
	gateway bool               // it takes commands of devices behind it
}

// device is a device for which a client speaks.
type device struct {
	stop func() // ends the receiving of its commands; nil: it takes none
	// dropped says that the receiving has to end whose stop is not known yet.
	dropped bool
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

// Unsubscribed ends the receiving of commands. To what else is sent nothing has to be done:
// a client is sent only what it subscribes to.
func (l *Layout) Unsubscribed(c layout.Client, filter string) {
	own, gateway := takesCalls(filter), layout.Matches(filter, gatewayCalls)
	var stops []func()
	l.mu.Lock()
	if known := l.clients[c]; known != nil {
		known.gateway = known.gateway && !gateway
		for id, d := range known.devices {
			if d.stop != nil && (own && id == c.Self() || gateway && id != c.Self()) {
				stops = append(stops, d.stop)
				d.stop = nil
			}
		}
	}
	l.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// join notes that a client speaks for a device. It reports whether there is room, and whether the
// client takes the commands of devices behind it.
func (l *Layout) join(c layout.Client, id string) (gateway, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil {
		known = &client{devices: map[string]*device{}}
		l.clients[c] = known
	}
	if known.devices[id] != nil {
		return known.gateway, true
	}
	if len(known.devices) >= MaxDevices {
		return false, false
	}
	known.devices[id] = &device{}
	clients := l.of[id]
	if clients == nil {
		clients = map[layout.Client]bool{}
		l.of[id] = clients
	}
	clients[c] = true
	return known.gateway, true
}

// receiving notes how the receiving of a device's commands is ended. It reports false where the
// client no longer speaks for the device, or receives them already.
func (l *Layout) receiving(c layout.Client, id string, stop func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[c]
	if known == nil || known.devices[id] == nil || known.devices[id].stop != nil {
		return false
	}
	d := known.devices[id]
	if d.dropped {
		d.dropped = false
		return false
	}
	d.stop = stop
	return true
}

// leave takes join back.
func (l *Layout) leave(c layout.Client, id string) {
	l.mu.Lock()
	var stop func()
	if known := l.clients[c]; known != nil && known.devices[id] != nil {
		stop = known.devices[id].stop
		delete(known.devices, id)
		l.forget(c, id)
	}
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// forget takes a client out of those of a device. The caller holds mu.
func (l *Layout) forget(c layout.Client, id string) {
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
		for id, d := range known.devices {
			l.forget(c, id)
			if d.stop != nil {
				stops = append(stops, d.stop)
			}
		}
		delete(l.clients, c)
	}
	l.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
