package homie

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// Layout is the layout of Homie 5. The zero Layout is ready for Start.
type Layout struct {
	host         *layout.Host
	descriptions descriptions
	receivers    *layout.Receivers
}

const (
	// MaxDevices bounds the devices that are ready.
	MaxDevices = 200_000
	// MaxDevicesOfClient bounds the devices of one connection that are ready.
	MaxDevicesOfClient = 10_000
)

// Prefixes returns the prefix of the topics of Homie 5.
func (l *Layout) Prefixes() []string { return []string{prefix} }

// Start prepares the layout.
func (l *Layout) Start(h *layout.Host) {
	l.host, l.receivers = h, layout.NewReceivers(h, MaxDevices, MaxDevicesOfClient)
}

// About returns the device that a topic is about. Those who may read it receive the message.
func (l *Layout) About(name string) (id string, to layout.Audience) {
	t, err := parse(name)
	switch {
	case err != nil:
		return "", layout.Readers
	case t.kind == toAll:
		return "", layout.Everybody
	default:
		return t.device, layout.Readers
	}
}

// Retained returns the filter for the topics of a device.
func (l *Layout) Retained(id string) string {
	if !isID(id) {
		return ""
	}
	return prefix + id + "/#"
}

// Receive handles a message of a device or a controller.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	t, err := parse(m.Topic)
	if err != nil {
		return err
	}
	switch t.kind {
	case toAll:
		if !c.Who().MayAll(access.Write) {
			return fmt.Errorf("%w: a broadcast is for who may write all entities", access.ErrForbidden)
		}
		c.Record("sendHomieBroadcast", m.Topic)
		done(nil)
		return nil
	case ofSet:
		if err := c.May(access.Write, t.device); err != nil {
			return err
		}
		c.Record("sendHomieSet", m.Topic)
		done(nil)
		return nil
	default:
	}
	if err := c.May(access.Report, t.device); err != nil {
		return err
	}
	switch t.kind {
	case ofState:
		err = l.receiveState(c, &t, m)
	case ofDescription:
		err = l.receiveDescription(c, &t, m)
	case ofAlert:
		err = l.receiveAlert(c, &t, m)
	default:
		return l.receiveValue(c, &t, m, done)
	}
	if err != nil {
		return err
	}
	m.Spoke(t.device)
	done(nil)
	return nil
}

// States of a device.
const (
	ready = "ready"
	lost  = "lost"
)

var states = []string{"init", ready, "disconnected", "sleeping", lost}

// receiveState handles the state of a device, which receives its commands while it is ready. An
// empty payload means that the device was removed; the entity stays, with its history.
func (l *Layout) receiveState(c layout.Client, t *topic, m *layout.Message) error {
	text := string(m.Payload)
	if m.Clears {
		l.receivers.Leave(nil, t.device)
		return l.report(c, t.device, merge(nil, "state"))
	}
	if !slices.Contains(states, text) {
		return fmt.Errorf("%w: $state must be one of %s, not %.64q", entity.ErrInvalid, strings.Join(states, ", "), text)
	}
	if text != ready {
		l.receivers.Leave(nil, t.device)
	}
	if err := l.report(c, t.device, merge(value.String(text).AppendJSON(nil), "state")); err != nil {
		return err
	}
	if text == ready && !m.Will {
		return l.join(c, t.device)
	}
	return nil
}

// receiveDescription handles the description of a device.
func (l *Layout) receiveDescription(c layout.Client, t *topic, m *layout.Message) error {
	if m.Clears {
		l.descriptions.drop(t.device)
		return l.report(c, t.device, merge(nil, "description"))
	}
	d, err := describe(m.Payload)
	if err != nil {
		return err
	}
	if known := l.descriptions.find(t.device); known != nil && known.text == d.text {
		return nil
	}
	if err := l.report(c, t.device, entity.Patch{Section: entity.Reported, Body: []byte(`{"homie":{}}`)}, entity.Patch{
		Section: entity.Reported, Form: entity.JSONPatch, Body: append(append([]byte(`[{"op":"add","path":"/homie/description","value":`), m.Payload...), `}]`...),
	}); err != nil {
		return err
	}
	l.descriptions.put(t.device, d)
	return nil
}

// receiveAlert handles an alert of a device, or its end.
func (l *Layout) receiveAlert(c layout.Client, t *topic, m *layout.Message) error {
	if m.Clears {
		return l.report(c, t.device, merge(nil, "alerts", t.name))
	}
	return l.report(c, t.device, merge(value.String(string(m.Payload)).AppendJSON(nil), "alerts", t.name))
}

// report changes the reported attributes of a device.
func (l *Layout) report(c layout.Client, id string, patches ...entity.Patch) error {
	_, err := layout.By(l.host.Runtime, c.Who().Name()).Edit(l.host.Running, id, entity.Edits{Patches: patches})
	return err
}

// merge returns a patch that sets a member of homie to a value that is not an object, or removes it
// if member is nil.
func merge(member []byte, names ...string) entity.Patch {
	if member == nil {
		member = []byte("null")
	}
	return entity.Patch{Section: entity.Reported, Body: nest(append([]string{"homie"}, names...), member)}
}

// nest wraps a member in objects.
func nest(names []string, member []byte) []byte {
	for _, name := range slices.Backward(names) {
		member = append(append(append(value.AppendQuoted([]byte{'{'}, name), ':'), member...), '}')
	}
	return member
}

// receiveValue handles a reading.
func (l *Layout) receiveValue(c layout.Client, t *topic, m *layout.Message, done func(error)) error {
	if m.Clears { // the property has no value any more; its history stays
		done(nil)
		return nil
	}
	p := property{datatype: "string"}
	if t.kind != ofLog {
		var err error
		if p, err = l.propertyOf(t.device, t.property()); err != nil {
			return err
		}
	}
	text, err := p.literal(string(m.Payload))
	if err != nil {
		return fmt.Errorf("%w: %s/%s: %w", entity.ErrInvalid, t.node, t.name, err)
	}
	payload := nest([]string{t.key()}, text)
	readings, err := entity.ParseReadings(payload, time.Now())
	if err != nil {
		return err
	}
	if t.kind == ofValue {
		if err := l.reported(t, readings[0].Values[0].Value); err != nil {
			return err
		}
	}
	return layout.By(l.host.Runtime, c.Who().Name()).IngestOnce(l.host.Running, t.device, m.Once, readings, len(m.Payload), func(err error) {
		if err == nil {
			m.Committed(t.device, payload)
		}
		done(err)
	})
}

// Edited drops the description of an entity that was deleted.
func (l *Layout) Edited(_ context.Context, change *entity.Change) {
	if change.Edit.Deleted {
		l.descriptions.drop(change.Entity)
	}
}

// payloadOf returns a value in Homie's format.
func payloadOf(v value.Value) ([]byte, error) {
	switch v.Kind() {
	case value.KindString:
		if v.Text() == "" {
			return []byte(zero), nil
		}
		return []byte(v.Text()), nil
	case 0:
		return nil, fmt.Errorf("%w: the request must be the value that the property is to have", entity.ErrInvalid)
	default:
		return v.AppendJSON(nil), nil
	}
}
