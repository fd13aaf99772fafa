package homie

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
)

// A command of an entity sets a property: its name is {node}.{property}, and its request is the
// value. Homie has no answers. A command is therefore delivered when the device has acknowledged
// the message, and done when the device reports the value. If the description says that the values
// of the property are not retained, as for a button, the device may report none, and the command is
// done at once.

// join starts the delivery of a device's commands to a client.
func (l *Layout) join(c layout.Client, id string) error {
	return l.receivers.Join(c, id, false, l.send)
}

// Left ends all deliveries to a client whose connection has ended.
func (l *Layout) Left(c layout.Client) { l.receivers.Left(c) }

// Subscribed starts the delivery of commands to devices that were ready before the client
// subscribed.
func (l *Layout) Subscribed(c layout.Client, _ string) {
	for _, id := range l.receivers.Of(c) {
		_ = l.join(c, id) // it has a place already
	}
}

// Unsubscribed does nothing: sending will fail.
func (l *Layout) Unsubscribed(layout.Client, string) {}

// send sends a command to its device.
func (l *Layout) send(r *layout.Receiver, command *entity.Command, receipt *layout.Receipt) error {
	to, ok := setTopic(command.Entity, command.Name)
	if !ok {
		receipt.Settled(fmt.Errorf("%w: the name of a command must be that of a property, {node}.{property}, not %.64q", entity.ErrInvalid, command.Name))
		return nil
	}
	p, err := l.propertyOf(command.Entity, command.Name)
	if err != nil {
		return err
	}
	payload, err := payloadOf(command.Request)
	if err == nil && p.datatype != "" {
		if _, wrong := p.literal(string(payload)); wrong != nil {
			err = fmt.Errorf("%w: the request: %w", entity.ErrInvalid, wrong)
		}
	}
	if err != nil { // this command fails, and others proceed
		receipt.Settled(err)
		return nil
	}
	if p.fleeting {
		id, name := command.Entity, command.ID
		return r.Client.Send(to, payload, receipt.With(func(err error) {
			if err == nil {
				go l.host.Finish(id, name)
				return
			}
			receipt.Settled(err)
		}))
	}
	l.receivers.Await(r, command, command.Request)
	return r.Client.Send(to, payload, receipt)
}

// reported completes the command whose value a device has reported. After an error of the runtime,
// the message must come again.
func (l *Layout) reported(t *topic, v value.Value) error {
	property := t.property()
	return l.receivers.Reported(t.device, func(name string, want value.Value) (value.Value, bool) {
		return v, name == property && value.Compare(v, want) == value.Equal
	})
}
