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

// Pauses before something about a command is tried again, doubled from one to the next.
const (
	commandPauseMin = 50 * time.Millisecond
	commandPauseMax = 2 * time.Second
)

// Receiving is a client's receiving of the commands of one entity, from Begin to End. The zero
// value is ready. Its methods may be called concurrently, also End before Begin has returned.
type Receiving struct {
	mu    sync.Mutex
	stop  func() // nil until the runtime has returned it; guarded by mu
	ended bool   // guarded by mu
}

// Begin has the commands of an entity sent to a client, by send: its receipt is that of
// Client.Send, whose errors send returns. It ends with the first error of send but ErrNoRoom, or
// when the client may receive them no more; what was not sent then goes to the next client. Call it once. The
// error is one of entity.Runtime.Receive; a Receiving whose Begin has failed has ended.
func (r *Receiving) Begin(h *Host, c Client, id string, send func(command *entity.Command, receipt *Receipt) error) error {
	stop, err := h.Runtime.Receive(id, func(command entity.Command) {
		err := h.sendCommand(&command, func(receipt *Receipt) error {
			if err := c.May(access.Receive, id); err != nil { // it might when this began
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

// End ends the receiving, and does nothing for nil.
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

// Ended reports whether it has ended.
func (r *Receiving) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// sendCommand sends a command to a device and has it settled. Where there is no room it waits and
// tries again, for as long as the command is to be sent: other commands of the device come after
// it. The error says why the client gets no commands any more.
func (h *Host) sendCommand(command *entity.Command, send func(receipt *Receipt) error) error {
	id, name := command.Entity, command.ID
	receipt := &Receipt{
		Settled: func(err error) {
			if !errors.Is(err, ErrGone) { // otherwise it is sent again, by the next connection
				go h.settle(id, name, err)
			}
		},
		Wanted: func() bool { return h.Runtime.CommandHeld(id, name) },
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

// Finish ends a command as done, without a result, of which no more is to come than that the device has it. It
// tries until that is durable, or until the runtime is closed. Call it on a goroutine of its own.
func (h *Host) Finish(id, command string) {
	ctx := context.Background() // the runtime ends it
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		err := h.Runtime.Done(ctx, id, command, value.Value{})
		if err == nil || errors.Is(err, entity.ErrClosed) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) || errors.Is(err, entity.ErrMismatch) {
			return
		}
		_ = pause.For(ctx, wait) // it has no end
	}
}

// Answered returns the id of the open command of an entity that a device was sent with a number, "" for none. Of two with one
// number it is the one that was sent last; that it was sent may not be committed yet.
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

// settle tells an entity that its device has a command, or, with refused, why it cannot have it.
// It tries until that is durable, since nothing else ends the wait of the commands behind it, or
// until the runtime is closed. Call it on a goroutine of its own.
func (h *Host) settle(id, command string, refused error) {
	ctx := context.Background() // the runtime ends it
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
		_ = pause.For(ctx, wait) // it has no end
	}
}
