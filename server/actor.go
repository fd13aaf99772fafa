package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/inspect"
)

type actorRequest struct {
	// The path of an actor with a name; / is the root. Give either path or pid.
	Path *string `query:"path" example:"/entities"`
	// A PID from an answer of this server.
	PID *string `query:"pid"`
}

// actor returns a description of one actor. It asks the actor itself, in its turn, for what nobody
// else knows.
func (a *systemAPI) actor(ctx context.Context, in *actorRequest) (*answer[*inspect.ActorDetail], error) {
	pid, err := a.find(in)
	if err != nil {
		return nil, err
	}
	detail, err := inspect.ReadDetail(ctx, a.system, pid)
	if errors.Is(err, actor.ErrStopped) {
		err = problemf(http.StatusNotFound, "no living actor has the PID %q; a stopped actor never comes back under its PID, ask for its path", shorten(pid.String(), 300))
	}
	if err != nil {
		return nil, err
	}
	return ok(detail), nil
}

// find returns the PID of the requested actor.
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
