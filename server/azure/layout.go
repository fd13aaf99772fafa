package azure

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Topics of devices.
const (
	prefix         = "$iothub/"
	devicesPrefix  = "devices/"
	eventsPart     = "/messages/events/"
	boundPart      = "/messages/devicebound/"
	twinGet        = prefix + "twin/GET/"
	reportedPatch  = prefix + "twin/PATCH/properties/reported/"
	desiredPatch   = prefix + "twin/PATCH/properties/desired/"
	twinAnswer     = prefix + "twin/res/"
	methodPrefix   = prefix + "methods/POST/"
	methodAnswer   = prefix + "methods/res/"
	requestID      = "$rid"
	versionName    = "$version"
	maxRequestID   = 128
	lookTimeout    = 5 * time.Second
	desiredExample = desiredPatch + "?" + versionName + "=1" // a topic that clients subscribe to
	methodExample  = methodPrefix + "m/?" + requestID + "=1"
)

// Layout is the layout of Azure IoT Hub. The zero Layout is ready for Start.
type Layout struct {
	host *layout.Host

	mu      sync.Mutex
	clients map[layout.Client]*client         // guarded by mu
	of      map[string]map[layout.Client]bool // guarded by mu; the clients that are sent the desired properties of a device
}

// client is a connection that subscribes to an Azure topic. Its fields are guarded by Layout.mu.
type client struct {
	id        string            // the device's id
	receiving *layout.Receiving // nil if it does not receive commands
}

var (
	_ layout.Taker         = (*Layout)(nil)
	_ layout.Authenticator = (*Layout)(nil)
)

// Prefixes returns the prefix of the topics of twins and methods.
func (l *Layout) Prefixes() []string { return []string{prefix} }

// Takes reports whether a topic is that of messages from or to a device: devices/{id}/messages/….
func (l *Layout) Takes(name string) bool {
	rest, ok := strings.CutPrefix(name, devicesPrefix)
	id, rest, in := strings.Cut(rest, "/")
	rest = "/" + rest + "/"
	return ok && in && id != "" && (strings.HasPrefix(rest, eventsPart) || strings.HasPrefix(rest, boundPart))
}

// Start gives the layout its host.
func (l *Layout) Start(h *layout.Host) {
	l.host = h
	l.clients, l.of = map[layout.Client]*client{}, map[string]map[layout.Client]bool{}
}

// About returns layout.Nobody: each client is sent its own messages.
func (l *Layout) About(string) (id string, to layout.Audience) { return "", layout.Nobody }

// deviceOf returns the device that a client speaks for: the one in its user name, if the client has
// the role Device for it, and otherwise its own. A program may thus connect for several devices,
// one after another.
func deviceOf(c layout.Client) string {
	if user := c.User(); user != "" && user != c.Self() && entity.CheckID(user) == nil && c.May(access.Receive, user) == nil {
		return user
	}
	return c.Self()
}

var errTopic = fmt.Errorf("%w: of Azure IoT Hub's there are devices/{id}/messages/events/{properties}, %s?$rid={id}, %s?$rid={id} and %s{status}/?$rid={id}", refusal.ErrTopic, twinGet, reportedPatch, methodAnswer)

// Receive handles a message of a device.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	switch topic := m.Topic; {
	case strings.HasPrefix(topic, devicesPrefix):
		rest := strings.TrimPrefix(topic, devicesPrefix)
		id, bag, ok := strings.Cut(rest+"/", eventsPart) // the final slash is optional
		if !ok {
			return errTopic
		}
		return l.event(c, id, strings.TrimSuffix(bag, "/"), m, done)
	case strings.HasPrefix(topic, twinGet):
		return l.twin(c, m, strings.TrimPrefix(topic, twinGet), l.getTwin, done)
	case strings.HasPrefix(topic, reportedPatch):
		return l.twin(c, m, strings.TrimPrefix(topic, reportedPatch), l.report, done)
	case strings.HasPrefix(topic, methodAnswer):
		return l.methodAnswered(c, m, done)
	default:
		return errTopic
	}
}

// event handles a device-to-cloud message.
func (l *Layout) event(c layout.Client, id, bag string, m *layout.Message, done func(error)) error {
	if err := entity.CheckID(id); err != nil {
		return err
	}
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	properties, err := ParseProperties(bag)
	if err != nil {
		return err
	}
	readings, payload, err := Readings(m.Payload, properties, time.Now())
	if err != nil {
		return err
	}
	var once entity.Once
	if entity.NeedsOnce(readings) {
		once = m.Once
	}
	return layout.By(l.host.Runtime, c.Who().Name()).IngestOnce(l.host.Running, id, once, readings, len(m.Payload), func(err error) {
		if err == nil {
			m.Committed(id, payload)
		}
		done(err)
	})
}

// requestOf returns the id of a request, from the properties at the end of its topic.
func requestOf(bag string) (string, error) {
	list, err := ParseProperties(bag)
	if err != nil {
		return "", fmt.Errorf("%w: %w", refusal.ErrTopic, err)
	}
	for _, p := range list {
		if p.Name == requestID && p.Value != "" && len(p.Value) <= maxRequestID && !strings.ContainsAny(p.Value, "/+#\x00") {
			return p.Value, nil
		}
	}
	return "", fmt.Errorf("%w: the topic of a request must end with ?%s= and an id of 1 to %d bytes without / + #", refusal.ErrTopic, requestID, maxRequestID)
}

// Subscribed starts the delivery of desired properties and of commands to a client, depending on
// the filter.
func (l *Layout) Subscribed(c layout.Client, filter string) {
	id := deviceOf(c)
	if entity.CheckID(id) != nil {
		return // the subscription has no effect
	}
	if id != c.Self() {
		c.Joined(id)
	}
	if layout.Matches(filter, desiredExample) {
		l.watch(c, id)
	}
	if layout.Matches(filter, methodExample) || layout.Matches(filter, boundExample(id)) {
		l.receive(c, id)
	}
}

// boundExample returns a topic of messages to a device.
func boundExample(id string) string { return devicesPrefix + id + boundPart + "a=b" }

// known returns the record of a client, which it creates if needed. The caller holds mu.
func (l *Layout) known(c layout.Client, id string) *client {
	k := l.clients[c]
	if k == nil {
		k = &client{id: id}
		l.clients[c] = k
	}
	return k
}

// watch starts the delivery of desired properties to a client.
func (l *Layout) watch(c layout.Client, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known(c, id)
	if l.of[k.id] == nil {
		l.of[k.id] = map[layout.Client]bool{}
	}
	l.of[k.id][c] = true
}

// forget ends the delivery of desired properties to a client. The caller holds mu.
func (l *Layout) forget(c layout.Client, k *client) {
	delete(l.of[k.id], c)
	if len(l.of[k.id]) == 0 {
		delete(l.of, k.id)
	}
}

// Unsubscribed ends the deliveries that no subscription matches any more.
func (l *Layout) Unsubscribed(c layout.Client, _ string) {
	var end *layout.Receiving
	l.mu.Lock()
	if k := l.clients[c]; k != nil {
		if !c.Subscribes(desiredExample) {
			l.forget(c, k)
		}
		if !c.Subscribes(methodExample) && !c.Subscribes(boundExample(k.id)) {
			end, k.receiving = k.receiving, nil
		}
	}
	l.mu.Unlock()
	end.End()
}

// Left forgets a client.
func (l *Layout) Left(c layout.Client) {
	var end *layout.Receiving
	l.mu.Lock()
	if k := l.clients[c]; k != nil {
		l.forget(c, k)
		end = k.receiving
		delete(l.clients, c)
	}
	l.mu.Unlock()
	end.End()
}

// watchers returns the clients that are sent the desired properties of a device.
func (l *Layout) watchers(id string) []layout.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]layout.Client, 0, len(l.of[id]))
	for c := range l.of[id] {
		list = append(list, c)
	}
	return list
}

// Edited sends devices the desired properties that have changed.
func (l *Layout) Edited(_ context.Context, change *entity.Change) {
	clients := l.watchers(change.Entity)
	if len(clients) == 0 {
		return
	}
	patch := desiredChanges(change.Edit)
	if patch == nil {
		return
	}
	topic := fmt.Sprintf("%s?%s=%d", desiredPatch, versionName, change.Edit.Revision)
	for _, c := range clients {
		if c.May(access.Read, change.Entity) == nil {
			_ = c.Send(topic, patch, nil) // a client that has unsubscribed is sent nothing
		}
	}
}
