package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

const (
	// maxView bounds the JSON of an actor's own view of its state: it is for reading.
	maxView = 64 << 10
	// maxFailureText bounds the message of a failure, and the stack of a panic.
	maxFailureText = 8 << 10
)

// actorDetailJSON is one actor in detail.
type actorDetailJSON struct {
	Actor actorJSON `json:"actor"`
	// The PID of the parent; absent for the root.
	Parent actor.PID `json:"parent,omitzero" example:"greenroom/entities#3"`
	// The messages that wait, by type, the most frequent first.
	Mail []mailJSON `json:"mail"`
	// How long the oldest message has waited.
	Oldest int64 `json:"oldest_ms"`
	// The type of the message that is being handled, or was last.
	Current string `json:"current,omitempty" example:"entity.message"`
	// The PID of the sender of that message.
	Sender actor.PID `json:"sender,omitzero" example:"greenroom/entities#3"`
	// The PID of the actor that an ask in the handler waits for.
	Waits actor.PID `json:"waits_for,omitzero" example:"greenroom/store#4"`
	// How many actors watch this one.
	Watchers int `json:"watchers"`
	// The PIDs of the actors that it is linked to.
	Links []actor.PID `json:"links"`
	// The last failures, newest first, at most 8.
	Failures []failureJSON `json:"failures"`
	// The actor did not answer within 100 ms: timers, watches, stash and view are unknown and empty.
	Busy   bool        `json:"busy"`
	Timers []timerJSON `json:"timers"`
	// The PIDs of the actors that it watches.
	Watches []actor.PID `json:"watches"`
	// The number of stashed messages.
	Stash int `json:"stash"`
	// What the actor's Inspect method returned; absent if it has none.
	View json.RawMessage `json:"view,omitempty"`
	// Why the view cannot be shown.
	Unshown string `json:"view_problem,omitempty" example:"the view of the actor cannot be shown: json: unsupported type: chan int"`
	Now     int64  `json:"now_ms" example:"1451649660512"`
}

// mailJSON counts the waiting messages of a type.
type mailJSON struct {
	Type  string `json:"type" example:"entity.message"`
	Count int    `json:"count" example:"2"`
}

// timerJSON is a timer of an actor.
type timerJSON struct {
	Key string `json:"key" example:"passivate"`
	// How long until it fires.
	In float64 `json:"in_ms" example:"250"`
	// Its period; 0 if it fires once.
	Every float64 `json:"every_ms"`
}

// failureJSON is a failure of an actor.
type failureJSON struct {
	Time  int64  `json:"time_ms" example:"1451649600512"`
	Error string `json:"error" example:"panic: assignment to entry in nil map"`
	// The type of the message that was being handled.
	Message string `json:"message_type,omitempty" example:"entity.message"`
	// The stack of a panic.
	Stack string `json:"stack,omitempty" example:"goroutine 7 [running]: ..."`
}

type actorRequest struct {
	// The path of an actor with a name; / is the root. Give either path or pid.
	Path *string `query:"path" example:"/entities"`
	// A PID from an answer of this server.
	PID *string `query:"pid"`
}

// actor describes one actor. What only the actor itself knows is asked of it in its turn.
func (a *systemAPI) actor(ctx context.Context, in *actorRequest) (*answer[*actorDetailJSON], error) {
	pid, err := a.find(in)
	if err != nil {
		return nil, err
	}
	detail, err := a.system.Detail(ctx, pid)
	if errors.Is(err, actor.ErrStopped) {
		err = problemf(http.StatusNotFound, "no living actor has the PID %q; a stopped actor never comes back under its PID, ask for its path", shorten(pid.String(), 300))
	}
	if err != nil {
		return nil, err
	}
	return ok(newActorDetailJSON(&detail)), nil
}

// find returns the PID of the actor that a request means.
func (a *systemAPI) find(in *actorRequest) (actor.PID, error) {
	var text string
	switch {
	case (in.Path == nil) == (in.PID == nil):
		return actor.PID{}, problemf(http.StatusBadRequest, "the query must have either path, as in path=/entities, or pid")
	case in.PID != nil:
		text = *in.PID
	case !strings.HasPrefix(*in.Path, "/"):
		return actor.PID{}, problemf(http.StatusBadRequest, "path must begin with / as in /entities, not %q", shorten(*in.Path, 300))
	default:
		tree, err := a.system.Inspect(*in.Path, 0)
		if err != nil {
			return actor.PID{}, problemf(http.StatusNotFound, "no actor has the path %q; GET /v1/actors lists the paths", shorten(*in.Path, 300))
		}
		text = tree.PID
	}
	pid, err := actor.ParsePID(text)
	if err != nil || pid.IsZero() {
		return actor.PID{}, problemf(http.StatusBadRequest, "pid must be the name of the system, a path and a number, as in %s/entities#5, not %q", a.system.Name(), shorten(text, 300))
	}
	return pid, nil
}

func newActorDetailJSON(d *actor.Detail) *actorDetailJSON {
	shown := &actorDetailJSON{
		Actor: actorJSON(d.Info), Parent: d.Parent, Mail: make([]mailJSON, len(d.Mail)), Oldest: d.Oldest.Milliseconds(),
		Current: messageType(d.Current), Sender: d.Sender, Waits: d.Waits, Watchers: d.Watchers, Links: append([]actor.PID{}, d.Links...),
		Failures: make([]failureJSON, len(d.Failures)), Busy: d.Busy, Timers: make([]timerJSON, len(d.Timers)),
		Watches: append([]actor.PID{}, d.Watches...), Stash: d.Stash, Now: time.Now().UnixMilli(),
	}
	for i, m := range d.Mail {
		shown.Mail[i] = mailJSON(m)
	}
	for i, t := range d.Timers {
		shown.Timers[i] = timerJSON{Key: t.Key, In: milliseconds(t.In), Every: milliseconds(t.Every)}
	}
	for i, f := range d.Failures {
		shown.Failures[i] = newFailureJSON(f)
	}
	if d.View != nil {
		var err error
		if shown.View, err = marshalView(d.View); err != nil {
			shown.Unshown = shorten(err.Error(), 300)
		}
	}
	return shown
}

func newFailureJSON(f actor.Failure) failureJSON {
	shown := failureJSON{Time: f.Time.UnixMilli(), Message: f.MessageType}
	if f.Err != nil {
		shown.Error = shorten(f.Err.Error(), maxFailureText)
	}
	if p, ok := errors.AsType[*actor.PanicError](f.Err); ok {
		shown.Stack = shorten(string(p.Stack), maxFailureText)
	}
	return shown
}

// marshalView makes JSON of what an actor's Inspect returned, which is foreign code to us.
func marshalView(view any) (text json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = nil, fmt.Errorf("the view of the actor cannot be shown: panic: %v", p)
		}
	}()
	if text, err = json.Marshal(view); err != nil {
		return nil, fmt.Errorf("the view of the actor cannot be shown: %w", err)
	}
	if len(text) > maxView {
		return nil, fmt.Errorf("the view of the actor has %d bytes of JSON; at most %d are shown", len(text), maxView)
	}
	return text, nil
}

// messageType leaves out the type of no message at all.
func messageType(name string) string {
	if name == "<nil>" {
		return ""
	}
	return name
}
