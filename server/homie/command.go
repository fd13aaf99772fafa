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

// A command of an entity sets a property: its name is {node}.{property}, and its request the value.
// Homie has no answer to it. So a command is delivered when the device has acknowledged the message,
// and done when it reports that value; or at once where the description says that the values of the
// property are not retained, as those of a button, which may report none.

// receiver is a client that gets the commands of a device that is ready.
type receiver struct {
	layout.Receiving
	client  layout.Client
	pending map[string]pending // by the name of the property, guarded by Layout.mu
}

// pending is a command that was sent.
type pending struct {
	command string
	want    value.Value
	until   int64 // when it has expired or timed out at the latest
}

// maxPending bounds the commands of a device whose effect is waited for.
const maxPending = 1000

// join has a client receive the commands of a device that says that it is ready.
func (l *Layout) join(c layout.Client, id string) error {
	r := &receiver{client: c, pending: map[string]pending{}}
	l.mu.Lock()
	before := l.receivers[id]
	switch {
	case before != nil && before.client == c && !before.Ended(): // it says so again
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
	if before != nil { // what it was sent before it may still do
		r.pending = before.pending
		l.lose(before.client)
	}
	l.mu.Unlock()
	err := r.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return l.send(r, command, receipt)
	})
	if err != nil {
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "a device gets no commands", slog.String("entity", id), slog.Any("error", err))
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

// lose notes that a client has one device less. REQUIRES: mu held.
func (l *Layout) lose(c layout.Client) {
	if l.joined[c]--; l.joined[c] == 0 {
		delete(l.joined, c)
	}
}

// leave ends that, if the client is still the one, or is nil.
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

// Left ends the receiving of a client whose connection has ended.
func (l *Layout) Left(c layout.Client) {
	for _, id := range l.of(c) {
		l.leave(id, c)
	}
}

// Subscribed has those devices of a client receive their commands that were ready before it
// subscribed to them.
func (l *Layout) Subscribed(c layout.Client, _ string) {
	for _, id := range l.of(c) {
		_ = l.join(c, id) // it has a place already
	}
}

// Unsubscribed has nothing to do: to send fails.
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
	if err != nil { // it fails, and the others go on
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

// await notes what the device reports once it has done a command.
func (l *Layout) await(r *receiver, command *entity.Command) {
	now := time.Now().UnixMilli()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, sent := range r.pending {
		if sent.until < now {
			delete(r.pending, name)
		}
	}
	if len(r.pending) < maxPending { // one more times out
		r.pending[command.Name] = pending{command.ID, command.Request, command.Expires + command.Timeout}
	}
}

// reported ends the command that a value shows to be done. An error of the runtime is returned: the
// message is to come again.
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
