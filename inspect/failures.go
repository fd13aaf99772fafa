package inspect

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// failuresKept is how many failures of a system are remembered.
const failuresKept = 256

// SystemFailure is a failure of an actor of the system.
type SystemFailure struct {
	PID actor.PID `json:"pid" example:"greenroom/entities/room-1#17"`
	Failure
}

// failureLog has the last failures of a system, which an actor of its own records.
type failureLog struct {
	mu   sync.Mutex // a leaf lock
	last []SystemFailure
}

func newFailureLog(sys *actor.System) *failureLog {
	l := &failureLog{}
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", l.note, actor.Bounded(failuresKept, actor.DropOldest)))
	return l
}

func (l *failureLog) note(_ *actor.Context[actor.ActorFailed], e actor.ActorFailed) error {
	f := SystemFailure{e.PID, newFailure(actor.Failure{Time: time.Now(), Err: e.Err, MessageType: e.MessageType})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == failuresKept {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, f)
	return nil
}

// recentFailures returns them newest first.
func (in *inspector) recentFailures(*http.Request) (any, error) {
	in.failures.mu.Lock()
	defer in.failures.mu.Unlock()
	list := append([]SystemFailure{}, in.failures.last...)
	slices.Reverse(list)
	return list, nil
}
