package inspect

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/text"
)

const (
	// watchedMost bounds how long a profile or a recording takes, and watchedUsually is how long it
	// takes where the request does not say.
	watchedMost    = 30 * time.Second
	watchedUsually = 2 * time.Second
	// usageShown is how many actors and types a profile shows.
	usageShown = 100
	// recordedShown is how many messages of an actor are written down.
	recordedShown = 100
)

// Usage is what actors spent on messages of one type while a profile was taken; see [actor.Usage].
type Usage struct {
	PID actor.PID `json:"pid,omitzero"`
	// The type of the messages, in parentheses where a timer or the like has made them.
	Type string `json:"type"`
	// The messages that were timed. The next two are estimates for all of them.
	Samples  int     `json:"samples"`
	Messages uint64  `json:"messages"`
	Time     float64 `json:"time_ms"`
	// The part of one processor that they took, in percent.
	Percent float64 `json:"percent"`
	Longest float64 `json:"longest_ms"`
	// How long the messages had waited with which a turn began, the longest of them.
	Waited float64 `json:"waited_ms"`
}

// profilePage says where the handlers' time went, most first.
type profilePage struct {
	For   float64 `json:"for_ms"`
	Usage []Usage `json:"usage"`
	// There are more than those.
	More bool `json:"more"`
}

// profile takes a profile while the request waits.
func (in *inspector) profile(r *http.Request) (any, error) {
	ctx, end, err := watchFor(r)
	if err != nil {
		return nil, err
	}
	defer end()
	began := time.Now()
	usage := in.sys.Profile(ctx)
	took := time.Since(began)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	p := profilePage{For: inMS(took), Usage: []Usage{}, More: len(usage) > usageShown}
	for _, u := range usage[:min(len(usage), usageShown)] {
		p.Usage = append(p.Usage, Usage{
			PID: u.PID, Type: u.Type, Samples: u.Samples, Messages: u.Messages, Time: inMS(u.Time),
			Percent: 100 * float64(u.Time) / float64(took), Longest: inMS(u.Longest), Waited: inMS(u.Waited),
		})
	}
	return p, nil
}

// Handled is a message that an actor has handled while a request waited. What it says is left out: it
// belongs to the actor, which may be changing it.
type Handled struct {
	Time int64   `json:"time_ms"`
	Took float64 `json:"took_ms"`
	// Who has sent it; absent if that was no actor.
	From actor.PID `json:"from,omitzero"`
	Type string    `json:"type"`
	// What has made it, where nobody has sent it.
	Origin string       `json:"origin,omitempty"`
	Header actor.Header `json:"header,omitempty"`
	// Somebody waits for an answer.
	Request bool   `json:"request"`
	Error   string `json:"error,omitempty"`
}

// recordPage has what an actor handled, oldest first.
type recordPage struct {
	PID     actor.PID `json:"pid"`
	For     float64   `json:"for_ms"`
	Handled []Handled `json:"handled"`
}

func (p recordPage) actorPath() string { return p.PID.Path() }

// record writes down what an actor handles while the request waits.
func (in *inspector) record(r *http.Request) (any, error) {
	pid, err := parsePID(r.URL.Query().Get("pid"))
	if err != nil {
		return nil, err
	}
	ctx, end, err := watchFor(r)
	if err != nil {
		return nil, err
	}
	defer end()
	began := time.Now()
	list, err := in.sys.Record(ctx, pid, recordedShown)
	if errors.Is(err, actor.ErrStopped) {
		return nil, refusef(http.StatusNotFound, "no living actor has the PID %q; a stopped actor never comes back under its PID", pid)
	}
	if err == nil {
		err = r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	p := recordPage{PID: pid, For: inMS(time.Since(began)), Handled: make([]Handled, len(list))}
	for i := range list {
		p.Handled[i] = newHandled(&list[i])
	}
	return p, nil
}

func newHandled(h *actor.Handled) Handled {
	shown := Handled{
		Time: h.Time.UnixMilli(), Took: inMS(h.Took), From: h.From, Type: h.Type, Origin: h.Origin, Header: h.Header, Request: h.Request,
	}
	if h.Err != nil {
		var f Failure
		f.describe(h.Err)
		shown.Error = text.Shorten(f.Error, maxProblem)
	}
	return shown
}

// watchFor returns a context that lasts as long as the request says in its parameter "for".
func watchFor(r *http.Request) (context.Context, context.CancelFunc, error) {
	d := watchedUsually
	if given := r.URL.Query().Get("for"); given != "" {
		seconds, err := strconv.ParseFloat(given, 64)
		if d = time.Duration(seconds * float64(time.Second)); err != nil || d < time.Millisecond || d > watchedMost {
			return nil, nil, refusef(http.StatusBadRequest, "for must be seconds, from 0.001 to %.0f, not %q", watchedMost.Seconds(), text.Shorten(given, maxProblem))
		}
	}
	ctx, end := context.WithTimeout(r.Context(), d)
	return ctx, end, nil
}

// inMS returns a duration in milliseconds.
func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
