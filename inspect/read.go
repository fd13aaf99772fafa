package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/text"
)

const (
	// MaxView bounds the JSON of an actor's own view of its state, in bytes.
	MaxView = 64 << 10
	// MaxFailureText bounds the text of a failure, and the stack of a panic, in bytes.
	MaxFailureText = 8 << 10
	// maxProblem bounds the text of why a view cannot be shown, in bytes.
	maxProblem = 300
)

// Actor is one actor.
type Actor struct {
	Path string `json:"path" example:"/entities/room-1"`
	PID  string `json:"pid" example:"greenroom/entities/room-1#17"`
	// The Go type of its messages.
	Type  string `json:"type" example:"entity.message"`
	State string `json:"state" example:"running"`
	// idle, runnable (it waits for a worker), running, or waiting: a handler waits for an answer, for
	// example.
	Activity string `json:"activity" example:"idle"`
	// It has a mailbox. An actor that has been idle for a while has none until its next message.
	Attached bool `json:"attached" example:"true"`
	// The messages that wait.
	Mailbox  int    `json:"mailbox"`
	Handled  uint64 `json:"handled" example:"42"`
	Restarts uint64 `json:"restarts"`
	Children int    `json:"children"`
	// The bulkhead that it runs in; absent for the system's own workers.
	Bulkhead string `json:"bulkhead,omitempty" example:"db"`
}

func newActor(i *actor.Info) Actor {
	return Actor{
		Path: i.Path, PID: i.PID, Type: i.Type, State: i.State, Activity: i.Activity, Attached: i.Attached,
		Mailbox: i.Mailbox, Handled: i.Handled, Restarts: i.Restarts, Children: i.Children, Bulkhead: i.Bulkhead,
	}
}

// ActorTree is one actor with its first children.
type ActorTree struct {
	Actor    Actor   `json:"actor"`
	Children []Actor `json:"children"`
	// There are more children than these.
	More bool  `json:"more"`
	Now  int64 `json:"now_ms" example:"1451649660512"`
}

// ReadTree returns the actor with the given path, "/" for the root, and at most limit of its
// children, oldest first. It fails with [actor.ErrStopped] if there is none.
func ReadTree(sys *actor.System, path string, limit int) (*ActorTree, error) {
	tree, err := sys.Inspect(path, limit)
	if err != nil {
		return nil, err
	}
	shown := &ActorTree{Actor: newActor(&tree.Info), Children: make([]Actor, len(tree.Children)), More: tree.More, Now: time.Now().UnixMilli()}
	for i := range tree.Children {
		shown.Children[i] = newActor(&tree.Children[i])
	}
	return shown, nil
}

// ActorDetail is one actor in detail.
type ActorDetail struct {
	Actor Actor `json:"actor"`
	// The PID of the parent; absent for the root.
	Parent actor.PID `json:"parent,omitzero" example:"greenroom/entities#3"`
	// The messages that wait, by type, the most frequent first.
	Mail []Mail `json:"mail"`
	// How long the oldest message has waited.
	Oldest int64 `json:"oldest_ms"`
	// The type of the message that is being handled, or was handled last.
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
	Failures []Failure `json:"failures"`
	// The actor did not answer within 100 ms: timers, watches and stash are unknown and empty, and
	// the view has only what is known without the actor, such as how far the recovery of a durable
	// actor has come.
	Busy   bool    `json:"busy"`
	Timers []Timer `json:"timers"`
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

// Mail counts the waiting messages of a type.
type Mail struct {
	Type  string `json:"type" example:"entity.message"`
	Count int    `json:"count" example:"2"`
}

// Timer is a timer of an actor.
type Timer struct {
	Key string `json:"key" example:"passivate"`
	// How long until it fires.
	In float64 `json:"in_ms" example:"250"`
	// Its period; 0 if it fires once.
	Every float64 `json:"every_ms"`
}

// Failure is a failure of an actor.
type Failure struct {
	Time  int64  `json:"time_ms" example:"1451649600512"`
	Error string `json:"error" example:"panic: assignment to entry in nil map"`
	// The type of the message that was being handled.
	Message string `json:"message_type,omitempty" example:"entity.message"`
	// The stack of a panic.
	Stack string `json:"stack,omitempty" example:"goroutine 7 [running]: ..."`
}

// ReadDetail describes the living actor with the given address. It asks the actor for what only the
// actor knows, for at most 100 ms; after that Busy is set, and those fields are empty or contain
// what the actor's gate knows. It must not be called in a handler. It fails with [actor.ErrStopped]
// if there is no such actor.
func ReadDetail(ctx context.Context, sys *actor.System, pid actor.PID) (*ActorDetail, error) {
	d, err := sys.Detail(ctx, pid)
	if err != nil {
		return nil, err
	}
	shown := &ActorDetail{
		Actor: newActor(&d.Info), Parent: d.Parent, Mail: make([]Mail, len(d.Mail)), Oldest: d.Oldest.Milliseconds(),
		Current: messageType(d.Current), Sender: d.Sender, Waits: d.Waits, Watchers: d.Watchers, Links: append([]actor.PID{}, d.Links...),
		Failures: make([]Failure, len(d.Failures)), Busy: d.Busy, Timers: make([]Timer, len(d.Timers)),
		Watches: append([]actor.PID{}, d.Watches...), Stash: d.Stash, Now: time.Now().UnixMilli(),
	}
	for i, m := range d.Mail {
		shown.Mail[i] = Mail(m)
	}
	for i, t := range d.Timers {
		shown.Timers[i] = Timer{Key: t.Key, In: milliseconds(t.In), Every: milliseconds(t.Every)}
	}
	for i, f := range d.Failures {
		shown.Failures[i] = newFailure(f)
	}
	if d.View != nil {
		if shown.View, err = marshalView(d.View); err != nil {
			shown.Unshown = text.Shorten(err.Error(), maxProblem)
		}
	}
	return shown, nil
}

func newFailure(f actor.Failure) Failure {
	shown := Failure{Time: f.Time.UnixMilli(), Message: messageType(f.MessageType)}
	if f.Err != nil {
		shown.describe(f.Err)
	}
	return shown
}

// describe adds the text of an error and the stack of a panic. The methods of the error are foreign
// code to us.
func (f *Failure) describe(err error) {
	defer func() {
		if recover() != nil {
			f.Error = fmt.Sprintf("an error of type %T, whose methods panic", err)
		}
	}()
	f.Error = text.Shorten(err.Error(), MaxFailureText)
	if p, ok := errors.AsType[*actor.PanicError](err); ok {
		f.Stack = text.Shorten(string(p.Stack), MaxFailureText)
	}
}

// marshalView makes JSON of what an actor's Inspect returned, which is foreign code to us.
func marshalView(view any) (shown json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			shown, err = nil, fmt.Errorf("the view of the actor cannot be shown: panic: %v", p)
		}
	}()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the template does it, and leaves it readable
	if err := enc.Encode(view); err != nil {
		return nil, fmt.Errorf("the view of the actor cannot be shown: %w", err)
	}
	shown = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(shown) > MaxView {
		return nil, fmt.Errorf("the view of the actor has %d bytes of JSON; at most %d are shown", len(shown), MaxView)
	}
	return shown, nil
}

// DeadLetter is a message that no actor handled.
type DeadLetter struct {
	// The PID of the receiver.
	To actor.PID `json:"to" example:"greenroom/entities/room-1#17"`
	// The PID of the sender; empty for a message from outside.
	From actor.PID `json:"from"`
	// The Go type of the message.
	Type   string `json:"type" example:"entity.reading"`
	Reason string `json:"reason" example:"stopped"`
	Time   int64  `json:"time_ms" example:"1451649600512"`
}

// DeadLetters returns the last dead letters of the system, at most 256, newest first.
func DeadLetters(sys *actor.System) []DeadLetter {
	list := []DeadLetter{}
	for _, d := range sys.DeadLetters() {
		list = append(list, DeadLetter{To: d.To, From: d.From, Type: d.Type, Reason: d.Reason.String(), Time: d.Time.UnixMilli()})
	}
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// messageType leaves out the type of no message at all.
func messageType(name string) string {
	if name == "<nil>" {
		return ""
	}
	return name
}
