package thingsboard

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

// MaxDevices bounds the devices of one gateway: those in a message, and those that are connected.
const MaxDevices = 10_000

// MaxAllDevices bounds the devices of all clients together: their own, and those behind them.
const MaxAllDevices = 200_000

// lookTimeout bounds how long an answer waits for an entity.
const lookTimeout = 5 * time.Second

// Layout is the layout of ThingsBoard. The zero Layout is ready for Start.
type Layout struct {
	// Provisioner issues credentials to new devices. If it is nil, there are none.
	Provisioner Provisioner
	// Claims accepts the claims that devices offer. If it is nil, devices cannot be claimed.
	Claims Claimer

	host *layout.Host

	mu      sync.Mutex
	clients map[layout.Client]*client         // guarded by mu
	of      map[string]map[layout.Client]bool // guarded by mu; the clients that speak for a device
	joined  int                               // guarded by mu; the number of clients in of, for all devices
}

var _ layout.Layout = (*Layout)(nil)

// Prefixes returns the prefixes of the topics of devices and gateways.
func (l *Layout) Prefixes() []string {
	return []string{"v1/devices/me/", "v1/gateway/", "v2/", provisionPrefix}
}

// Start prepares the layout.
func (l *Layout) Start(h *layout.Host) {
	l.host = h
	l.clients, l.of = map[layout.Client]*client{}, map[string]map[layout.Client]bool{}
}

// About returns layout.Nobody: each client is sent its own messages.
func (l *Layout) About(string) (id string, to layout.Audience) { return "", layout.Nobody }

// topic is a topic and its handler.
type topic struct {
	name string // the topic, or its beginning if a number follows
	// number reports whether the number of a request follows.
	number  bool
	receive func(l *Layout, c layout.Client, m *layout.Message, r request, done func(error)) error
}

// request is a message that expects an answer.
type request struct {
	number string
	answer string // the topic of the answer
}

// topics are the topics that devices publish to. A topic precedes those that are its prefix.
var topics = []topic{
	{name: "v1/devices/me/telemetry", receive: (*Layout).telemetry},
	{name: "v1/devices/me/attributes/request/", number: true, receive: (*Layout).attributesRequest},
	{name: "v1/devices/me/attributes", receive: (*Layout).attributes},
	{name: "v1/devices/me/rpc/request/", number: true, receive: (*Layout).clientCall},
	{name: "v1/devices/me/rpc/response/", number: true, receive: (*Layout).answerCall},
	{name: "v2/t", receive: (*Layout).telemetry},
	{name: "v2/t/j", receive: (*Layout).telemetry},
	{name: "v2/a/req/", number: true, receive: (*Layout).attributesRequest},
	{name: "v2/a", receive: (*Layout).attributes},
	{name: "v2/a/j", receive: (*Layout).attributes},
	{name: "v2/r/req/", number: true, receive: (*Layout).clientCall},
	{name: "v2/r/res/", number: true, receive: (*Layout).answerCall},
	{name: "v1/gateway/rpc", receive: (*Layout).gatewayAnswer},
	{name: "v1/gateway/telemetry", receive: (*Layout).gatewayTelemetry},
	{name: "v1/gateway/attributes/request", receive: (*Layout).gatewayAttributesRequest},
	{name: "v1/gateway/attributes", receive: (*Layout).gatewayAttributes},
	{name: "v1/gateway/connect", receive: (*Layout).gatewayConnect},
	{name: "v1/devices/me/claim", receive: (*Layout).claim},
	{name: "v2/c", receive: (*Layout).claim},
	{name: "v1/gateway/claim", receive: (*Layout).gatewayClaim},
	{name: provisionRequest, receive: (*Layout).provision},
	{name: "v1/gateway/disconnect", receive: (*Layout).gatewayDisconnect},
}

// errTopic lists the topics that exist.
var errTopic = func() error {
	var names []string
	for i := range topics {
		name := topics[i].name
		if topics[i].number {
			name += "{number}"
		}
		names = append(names, name)
	}
	return fmt.Errorf("%w: of ThingsBoard's there are %s", refusal.ErrTopic, strings.Join(names, ", "))
}()

// Receive handles a message of a device or a gateway.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	for i := range topics {
		t := &topics[i]
		if !t.number && m.Topic == t.name {
			return t.receive(l, c, m, request{}, done)
		}
		if number, ok := strings.CutPrefix(m.Topic, t.name); ok && t.number {
			if err := checkNumber(number); err != nil {
				return err
			}
			return t.receive(l, c, m, request{number, answerTopic.Replace(m.Topic)}, done)
		}
	}
	return errTopic
}

// answerTopic turns the topic of a request into that of its answer.
var answerTopic = strings.NewReplacer("/request/", "/response/", "/req/", "/res/")

// checkNumber checks that a string is the number of a request.
func checkNumber(number string) error {
	if number == "" || len(number) > 19 || strings.Trim(number, "0123456789") != "" {
		return fmt.Errorf("%w: the number of a request must be an integer from 0 to 9223372036854775807, not %.32q", refusal.ErrTopic, number)
	}
	return nil
}

// telemetry handles readings of the device itself.
func (l *Layout) telemetry(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	readings, err := entity.ParseReadings(m.Payload, time.Now())
	if err != nil {
		return err
	}
	return l.ingest(c, c.Self(), &ingest{readings: readings, payload: m.Payload, once: m.Once, message: m}, done)
}

// ingest contains readings of one device.
type ingest struct {
	readings []entity.Reading
	payload  []byte
	once     entity.Once
	message  *layout.Message
}

func (l *Layout) ingest(c layout.Client, id string, in *ingest, done func(error)) error {
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	var once entity.Once
	if entity.NeedsOnce(in.readings) {
		once = in.once
	}
	return layout.By(l.host.Runtime, c.Who().Name()).IngestOnce(l.host.Running, id, once, in.readings, len(in.payload), func(err error) {
		if err == nil {
			in.message.Committed(id, in.payload)
		}
		done(err)
	})
}

// speakers returns the clients that speak for a device.
func (l *Layout) speakers(id string) []layout.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]layout.Client, 0, len(l.of[id]))
	for c := range l.of[id] {
		list = append(list, c)
	}
	return list
}

// view calls f with an entity. If the entity does not exist, it does nothing.
func (l *Layout) view(c layout.Client, id string, f func(entity.View)) error {
	if err := c.May(access.Read, id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.host.Running, lookTimeout)
	defer cancel()
	err := l.host.Runtime.View(ctx, id, func(v entity.View) error {
		f(v)
		return nil
	})
	return notFoundIsNothing(err)
}
