package homie

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
)

// A command of an entity sets a property: its name is {node}.{property}, and its request is the
// value. Homie has no answers. A command is therefore delivered when the device has acknowledged
// the message, and done when the device reports the value. If the description says that the values
// of the property are not retained, as for a button, the device may report none, and the command is
// done at once.

// receiver is the client that receives the commands of a device.
type receiver struct {
	layout.Receiving
	client  layout.Client
	pending map[string]pending // by name of the property, guarded by Layout.mu
}

// pending is a command that was sent.
type pending struct {
	command string
	want    value.Value
	until   int64 // when it will have expired or timed out, in milliseconds since the epoch
}

// maxPending bounds the commands of a device that wait for their effect.
const maxPending = 1000

// join starts the delivery of a device's commands to a client.
func (l *Layout) join(c layout.Client, id string) error {
	r := &receiver{client: c, pending: map[string]pending{}}
	l.mu.Lock()
	before := l.receivers[id]
	switch {
	case before != nil && before.client == c && !before.Ended(): // the device repeats that it is ready
		l.mu.Unlock()
		return nil
	case before == nil && len(l.receivers) >= MaxDevices:
		l.mu.Unlock()
		return fmt.Errorf("%w: %d devices are ready; no more are allowed", entity.ErrInvalid, MaxDevices)
	case (before == nil || before.client != c) && l.joined[c] >= MaxDevicesOfClient:
		l.mu.Unlock()
		return fmt.Errorf("%w: the client has %d devices; no more are allowed", entity.ErrInvalid, MaxDevicesOfClient)
	}
	l.receivers[id] = r
	l.joined[c]++
	if before != nil { // commands sent before may still take effect
		r.pending = before.pending
		l.lose(before.client)
	}
	l.mu.Unlock()
	err := r.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return l.send(r, command, receipt)
	})
	if err != nil {
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "cannot deliver commands to a device", slog.String("entity", id), slog.Any("error", err))
	}
	if before != nil {
		before.End()
		if before.client != c {
			before.client.Parted(id)
		}
	}
	c.Joined(id)
	return nil
}

// lose records that a client has one device less. The caller holds mu.
func (l *Layout) lose(c layout.Client) {
	if l.joined[c]--; l.joined[c] == 0 {
		delete(l.joined, c)
	}
}

// leave ends the delivery of a device's commands to c, or with a nil c to any client.
func (l *Layout) leave(id string, c layout.Client) {
	l.mu.Lock()
	r := l.receivers[id]
	if r == nil || c != nil && r.client != c {
		l.mu.Unlock()
		return
	}
	delete(l.receivers, id)
	l.lose(r.client)
	l.mu.Unlock()
	r.End()
	r.client.Parted(id)
}

// of returns the devices of a client.
func (l *Layout) of(c layout.Client) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined[c] == 0 {
		return nil
	}
	for id, r := range l.receivers {
		if r.client == c {
			ids = append(ids, id)
		}
	}
	return ids
}

// Left ends all deliveries to a client whose connection has ended.
func (l *Layout) Left(c layout.Client) {
	for _, id := range l.of(c) {
		l.leave(id, c)
	}
}

// Subscribed starts the delivery of commands to devices that were ready before the client
// subscribed.
func (l *Layout) Subscribed(c layout.Client, _ string) {
	for _, id := range l.of(c) {
		_ = l.join(c, id) // the device has been counted
	}
}

// Unsubscribed does nothing: sending will fail.
func (l *Layout) Unsubscribed(layout.Client, string) {}

// send sends a command to its device.
func (l *Layout) send(r *receiver, command *entity.Command, receipt *layout.Receipt) error {
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
		return r.client.Send(to, payload, receipt.With(func(err error) {
			if err == nil {
				go l.host.Finish(id, name)
				return
			}
			receipt.Settled(err)
		}))
	}
	l.await(r, command)
	return r.client.Send(to, payload, receipt)
}

// await records the value that a device will report when it has carried out a command.
func (l *Layout) await(r *receiver, command *entity.Command) {
	now := time.Now().UnixMilli()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, sent := range r.pending {
		if sent.until < now {
			delete(r.pending, name)
		}
	}
	if len(r.pending) < maxPending { // any beyond that time out
		r.pending[command.Name] = pending{command.ID, command.Request, command.Expires + command.Timeout}
	}
}

// reported completes the command whose value a device has reported. After an error of the runtime,
// the message must come again.
func (l *Layout) reported(t *topic, v value.Value) error {
	l.mu.Lock()
	r := l.receivers[t.device]
	var sent pending
	if r != nil {
		sent = r.pending[t.property()]
	}
	l.mu.Unlock()
	if sent.command == "" || value.Compare(v, sent.want) != value.Equal {
		return nil
	}
	err := l.host.Runtime.Done(l.host.Running, t.device, sent.command, v)
	if err != nil && !errors.Is(err, entity.ErrNotFound) && !errors.Is(err, entity.ErrMismatch) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.pending[t.property()].command == sent.command {
		delete(r.pending, t.property())
	}
	return nil
}
