package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// actorDetailJSON is one actor closely. Of a busy one timers, watches, stash and view are not
// known and left empty.
type actorDetailJSON struct {
	Actor    actorJSON       `json:"actor"`
	Parent   string          `json:"parent,omitempty"`
	Mail     []mailJSON      `json:"mail"`
	Oldest   int64           `json:"oldest_ms"`
	Current  string          `json:"current,omitempty"`
	Sender   string          `json:"sender,omitempty"`
	Waits    string          `json:"waits_for,omitempty"`
	Watchers int             `json:"watchers"`
	Links    []actor.PID     `json:"links"`
	Failures []failureJSON   `json:"failures"`
	Busy     bool            `json:"busy"`
	Timers   []timerJSON     `json:"timers"`
	Watches  []actor.PID     `json:"watches"`
	Stash    int             `json:"stash"`
	View     json.RawMessage `json:"view,omitempty"`
	Unshown  string          `json:"view_problem,omitempty"`
	Now      int64           `json:"now_ms"`
}

type mailJSON struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

type timerJSON struct {
	Key   string  `json:"key"`
	In    float64 `json:"in_ms"`
	Every float64 `json:"every_ms"`
}

type failureJSON struct {
	Time    int64  `json:"time_ms"`
	Error   string `json:"error"`
	Message string `json:"message_type,omitempty"`
	Stack   string `json:"stack,omitempty"`
}

// getActor describes one actor, by its path or by its PID.
func (s *Server) getActor(w http.ResponseWriter, r *http.Request) error {
	pid, err := s.actorParam(r.URL.Query())
	if err != nil {
		return err
	}
	detail, err := s.system.Detail(r.Context(), pid)
	if errors.Is(err, actor.ErrStopped) {
		return problemf(http.StatusNotFound, "no actor with the PID %q lives; one that stopped does not come back under the same PID, ask for its path", shorten(pid.String(), 300))
	}
	if err != nil {
		return err
	}
	return writeJSON(w, newActorDetailJSON(&detail))
}

// actorParam reads which actor is meant: exactly one of path and pid.
func (s *Server) actorParam(q url.Values) (actor.PID, error) {
	path, text := q.Get("path"), q.Get("pid")
	switch {
	case q.Has("path") == q.Has("pid"):
		return actor.PID{}, problemf(http.StatusBadRequest, "one of path and pid is needed: path=/entities, or a pid that an answer of this server had")
	case q.Has("path") && !strings.HasPrefix(path, "/"):
		return actor.PID{}, problemf(http.StatusBadRequest, "path=%s is not a path; it begins with / as in /entities", shorten(path, 300))
	case q.Has("path"):
		tree, err := s.system.Inspect(path, 0)
		if err != nil {
			return actor.PID{}, problemf(http.StatusNotFound, "no actor has the path %q; /v1/actors has the paths that there are", shorten(path, 300))
		}
		text = tree.PID
	}
	pid, err := actor.ParsePID(text)
	if err != nil || pid.IsZero() {
		return actor.PID{}, problemf(http.StatusBadRequest, "pid=%s is not a PID; the name of the system, a path and a number are right, as in %s/entities#5", shorten(text, 300), s.system.Name())
	}
	return pid, nil
}

func newActorDetailJSON(d *actor.Detail) *actorDetailJSON {
	answer := &actorDetailJSON{
		Actor: newActorJSON(&d.Info), Parent: pidText(d.Parent), Mail: make([]mailJSON, len(d.Mail)), Oldest: d.Oldest.Milliseconds(),
		Current: messageType(d.Current), Sender: pidText(d.Sender), Waits: pidText(d.Waits), Watchers: d.Watchers, Links: nonNil(d.Links),
		Failures: make([]failureJSON, len(d.Failures)), Busy: d.Busy, Timers: make([]timerJSON, len(d.Timers)),
		Watches: nonNil(d.Watches), Stash: d.Stash, Now: time.Now().UnixMilli(),
	}
	for i, m := range d.Mail {
		answer.Mail[i] = mailJSON(m)
	}
	for i, t := range d.Timers {
		answer.Timers[i] = timerJSON{Key: t.Key, In: milliseconds(t.In), Every: milliseconds(t.Every)}
	}
	for i, f := range d.Failures {
		answer.Failures[i] = newFailureJSON(f)
	}
	if d.View != nil {
		var err error
		if answer.View, err = marshalView(d.View); err != nil {
			answer.Unshown = shorten(err.Error(), 300)
		}
	}
	return answer
}

func newFailureJSON(f actor.Failure) failureJSON {
	answer := failureJSON{Time: f.Time.UnixMilli(), Message: f.MessageType}
	if f.Err != nil {
		answer.Error = shorten(f.Err.Error(), maxFailureText)
	}
	if p, ok := errors.AsType[*actor.PanicError](f.Err); ok {
		answer.Stack = shorten(string(p.Stack), maxFailureText)
	}
	return answer
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

// pidText is the printed PID, empty for nobody's.
func pidText(pid actor.PID) string {
	if pid.IsZero() {
		return ""
	}
	return pid.String()
}

func nonNil(pids []actor.PID) []actor.PID {
	if pids == nil {
		return []actor.PID{}
	}
	return pids
}
