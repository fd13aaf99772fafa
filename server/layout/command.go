package layout

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server/access"
)

// Pauses before an operation on a command is tried again, doubled each time.
const (
	commandPauseMin = 50 * time.Millisecond
	commandPauseMax = 2 * time.Second
)

// Receiving is the delivery of one entity's commands to a client, from Begin to End. The zero value
// is ready to use. Its methods may be called concurrently; End may be called before Begin has
// returned.
type Receiving struct {
	mu    sync.Mutex
	stop  func() // nil until the runtime has returned it; guarded by mu
	ended bool   // guarded by mu
}

// Begin starts the delivery of an entity's commands to a client with send, which must pass the
// receipt to Client.Send and return that method's error. The delivery ends at the first error of
// send other than ErrNoRoom, or when the client may no longer receive the commands; unsent ones
// then go to the next client. Call Begin once. The error is one of entity.Runtime.Receive; after an
// error, the Receiving has ended.
func (r *Receiving) Begin(h *Host, c Client, id string, send func(command *entity.Command, receipt *Receipt) error) error {
	stop, err := h.Runtime.Receive(id, func(command entity.Command) {
		err := r.sendCommand(h, &command, func(receipt *Receipt) error {
			if err := c.May(access.Receive, id); err != nil { // it was permitted at the beginning
				return err
			}
			return send(&command, receipt)
		})
		if err != nil {
			r.End()
		}
	})
	r.mu.Lock()
	r.stop, r.ended = stop, r.ended || err != nil
	ended := r.ended
	r.mu.Unlock()
	if ended && stop != nil {
		stop()
	}
	return err
}

// End ends the delivery. It does nothing if r is nil.
func (r *Receiving) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	stop := r.stop
	r.ended = true
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Ended reports whether the delivery has ended.
func (r *Receiving) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// sendCommand sends a command to a device, and settles it. If there is no room, it waits and tries
// again, as long as the command is to be sent: the device's other commands come after it. The error
// says why the client receives no more commands.
func (r *Receiving) sendCommand(h *Host, command *entity.Command, send func(receipt *Receipt) error) error {
	id, name := command.Entity, command.ID
	receipt := &Receipt{
		Settled: func(err error) {
			if !errors.Is(err, ErrGone) { // otherwise it is sent again, over the next connection
				go h.settle(id, name, err)
			}
		},
		// Once the delivery has ended, the command goes to another receiver, which then holds it.
		Wanted: func() bool { return !r.Ended() && h.Runtime.CommandHeld(id, name) },
	}
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		err := send(receipt)
		if !errors.Is(err, ErrNoRoom) {
			return err
		}
		if err := pause.For(h.Running, wait); err != nil {
			return err
		}
		if !receipt.Wanted() {
			return nil // it was canceled, or has expired
		}
	}
}

// Finish ends a command as done, without a result, for devices that only acknowledge the delivery.
// It tries until that is durable, or the runtime is closed, and must be called on a separate
// goroutine.
func (h *Host) Finish(id, command string) {
	ctx := context.Background() // closing the runtime ends it
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		err := h.Runtime.Done(ctx, id, command, value.Value{})
		if err == nil || errors.Is(err, entity.ErrClosed) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) || errors.Is(err, entity.ErrMismatch) {
			return
		}
		_ = pause.For(ctx, wait) // ctx never ends
	}
}

// Answered returns the id of the open command of an entity that was sent with a number, or "". If
// two commands have the number, it is the one that was sent last; the commit of that may be
// pending.
func Answered(ctx context.Context, rt Runtime, id string, number int64) (command string, err error) {
	open, err := rt.OpenCommands(ctx, id)
	if errors.Is(err, entity.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sent := int64(-1)
	for i := range open {
		if c := &open[i]; NumberOf(c) == number && c.Sent > sent {
			command, sent = c.ID, c.Sent
		}
	}
	return command, nil
}

// settle records that a device has received a command or, if refused is not nil, why it could not.
// It tries until that is durable, because the next commands wait for it, or until the runtime is
// closed. It must be called on a separate goroutine.
func (h *Host) settle(id, command string, refused error) {
	ctx := context.Background() // closing the runtime ends it
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		var err error
		if refused == nil {
			err = h.Runtime.Delivered(ctx, id, command)
		} else {
			err = h.Runtime.Fail(ctx, id, command, refused.Error())
		}
		if err == nil || errors.Is(err, entity.ErrClosed) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) {
			return
		}
		if wait == commandPauseMin {
			h.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot record that a command was delivered; will try again",
				slog.String("entity", id), slog.String("command", command), slog.Any("error", err))
		}
		_ = pause.For(ctx, wait) // ctx never ends
	}
}
