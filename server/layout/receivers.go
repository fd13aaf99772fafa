package layout

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Receivers delivers commands to the devices of a layout in which devices announce themselves and do
// not answer commands: a command is done when its device reports the value that it was to set. Make
// it with NewReceivers. Its methods may be called concurrently.
type Receivers struct {
	host               *Host
	most, mostOfClient int

	mu      sync.Mutex
	byID    map[string]*Receiver // guarded by mu
	clients map[Client]int       // how many of them a client has, guarded by mu
}

// Receiver is the client that receives the commands of a device.
type Receiver struct {
	Receiving
	Client  Client
	pending map[string]pendingCommand // by name, guarded by Receivers.mu
}

// pendingCommand is a command that was sent.
type pendingCommand struct {
	id    string
	want  value.Value
	until int64 // when it will have expired or timed out, in milliseconds since the epoch
}

// maxPending bounds the commands of a device that wait for their effect.
const maxPending = 1000

// NewReceivers returns Receivers of at most most devices, and mostOfClient of one client.
func NewReceivers(h *Host, most, mostOfClient int) *Receivers {
	return &Receivers{host: h, most: most, mostOfClient: mostOfClient, byID: map[string]*Receiver{}, clients: map[Client]int{}}
}

// Join starts the delivery of a device's commands to a client, and ends that to any other. send is
// as for Receiving.Begin. If the client receives them already, Join does nothing unless fresh is
// set. It returns ErrInvalid if there are too many devices.
func (rs *Receivers) Join(c Client, id string, fresh bool, send func(r *Receiver, command *entity.Command, receipt *Receipt) error) error {
	r := &Receiver{Client: c, pending: map[string]pendingCommand{}}
	rs.mu.Lock()
	before := rs.byID[id]
	switch {
	case !fresh && before != nil && before.Client == c && !before.Ended():
		rs.mu.Unlock()
		return nil
	case before == nil && len(rs.byID) >= rs.most:
		rs.mu.Unlock()
		return fmt.Errorf("%w: %d devices are ready; no more are allowed", entity.ErrInvalid, rs.most)
	case (before == nil || before.Client != c) && rs.clients[c] >= rs.mostOfClient:
		rs.mu.Unlock()
		return fmt.Errorf("%w: the client has %d devices; no more are allowed", entity.ErrInvalid, rs.mostOfClient)
	}
	rs.byID[id] = r
	rs.clients[c]++
	if before != nil { // commands sent before may still take effect
		r.pending = before.pending
		rs.lose(before.Client)
	}
	rs.mu.Unlock()
	err := r.Begin(rs.host, c, id, func(command *entity.Command, receipt *Receipt) error { return send(r, command, receipt) })
	if err != nil {
		rs.host.Logger.LogAttrs(rs.host.Running, slog.LevelWarn, "a device gets no commands", slog.String("entity", id), slog.Any("error", err))
	}
	if before != nil {
		before.End()
		if before.Client != c {
			before.Client.Parted(id)
		}
	}
	c.Joined(id)
	return nil
}

// lose records that a client has one device less. The caller holds mu.
func (rs *Receivers) lose(c Client) {
	if rs.clients[c]--; rs.clients[c] == 0 {
		delete(rs.clients, c)
	}
}

// Leave ends the delivery of a device's commands to c, or with a nil c to any client.
func (rs *Receivers) Leave(c Client, id string) {
	rs.mu.Lock()
	r := rs.byID[id]
	if r == nil || c != nil && r.Client != c {
		rs.mu.Unlock()
		return
	}
	delete(rs.byID, id)
	rs.lose(r.Client)
	rs.mu.Unlock()
	r.End()
	r.Client.Parted(id)
}

// Left ends all deliveries to a client whose connection has ended.
func (rs *Receivers) Left(c Client) {
	for _, id := range rs.Of(c) {
		rs.Leave(c, id)
	}
}

// Of returns the devices of a client.
func (rs *Receivers) Of(c Client) (ids []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.clients[c] == 0 {
		return nil
	}
	for id, r := range rs.byID {
		if r.Client == c {
			ids = append(ids, id)
		}
	}
	return ids
}

// Count returns the numbers of devices and of their clients.
func (rs *Receivers) Count() (devices, clients int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.byID), len(rs.clients)
}

// Await records the value that a device will report when it has carried out a command.
func (rs *Receivers) Await(r *Receiver, command *entity.Command, want value.Value) {
	now := time.Now().UnixMilli()
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for name, sent := range r.pending {
		if sent.until < now {
			delete(r.pending, name)
		}
	}
	if len(r.pending) < maxPending { // one more times out
		r.pending[command.Name] = pendingCommand{command.ID, want, command.Expires + command.Timeout}
	}
}

// Reported completes commands of a device. It calls reported with the name of each pending one and
// the value that it was to set; reported returns the result if the device has carried it out. After
// an error of the runtime, the message that reports it must come again.
func (rs *Receivers) Reported(id string, reported func(name string, want value.Value) (is value.Value, done bool)) error {
	type report struct {
		id string
		is value.Value
	}
	done := map[string]report{}
	rs.mu.Lock()
	r := rs.byID[id]
	if r != nil {
		for name, sent := range r.pending {
			if is, ok := reported(name, sent.want); ok {
				done[name] = report{sent.id, is}
			}
		}
	}
	rs.mu.Unlock()
	for name, d := range done {
		err := rs.host.Runtime.Done(rs.host.Running, id, d.id, d.is)
		if err != nil && !errors.Is(err, entity.ErrNotFound) && !errors.Is(err, entity.ErrMismatch) {
			return err
		}
		rs.mu.Lock()
		if r.pending[name].id == d.id {
			delete(r.pending, name)
		}
		rs.mu.Unlock()
	}
	return nil
}
