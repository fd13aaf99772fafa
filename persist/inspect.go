package persist

import "github.com/greenroom-go/greenroom/actor"

// Inspection is what [actor.System.Detail] and the dashboard show as the view of a durable actor.
type Inspection struct {
	ID string `json:"id"`
	// Number is the number of the last event that it has applied, or of its state. During a
	// recovery, Number is the progress and RecoverTo the end.
	Number    uint64 `json:"number"`
	RecoverTo uint64 `json:"recover_to,omitempty"`
	// Ready is true once it has recovered.
	Ready bool `json:"ready"`
	// Snapshot is the number of its newest snapshot, and SinceSnapshot how many events have come
	// since. Both are 0 if it has none.
	Snapshot      uint64 `json:"snapshot,omitempty"`
	SinceSnapshot uint64 `json:"since_snapshot,omitempty"`
	// OnItsWay is how many handlers have recorded something that is not durable yet, and
	// Held how many messages and answers wait for that.
	OnItsWay int `json:"on_its_way"`
	Held     int `json:"held"`
	// Trouble says why it is about to be restarted; it is empty if it is not.
	Trouble string `json:"trouble,omitempty"`
	// View is what the actor's own Inspect method returns, nil while the actor does not answer.
	View any `json:"view,omitempty"`
}

// Inspect implements actor.Inspector.
func (s *shell[M]) Inspect() any {
	i := s.gate.in.Load().inspect()
	if a, ok := s.Actor.(actor.Inspector); ok {
		i.View = a.Inspect()
	}
	return i
}

// Inspect implements actor.Inspector for times when the actor does not answer, because it replays a
// long past or runs a handler. It is called on any goroutine.
func (g *gate[M]) Inspect() any {
	if in := g.in.Load(); in != nil {
		return in.inspect()
	}
	return nil
}

// isReady records that the actor is recovered.
func (in *incarnation) isReady() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ready = true
}

// inspect returns everything except the actor's own view.
func (in *incarnation) inspect() Inspection {
	i, trouble := in.look()
	if trouble != nil {
		i.Trouble = textOf(trouble) // calls methods of the user
	}
	return i
}

// look also returns why the actor is about to be restarted, nil if it is not.
func (in *incarnation) look() (i Inspection, trouble error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	i = Inspection{ID: in.id, Ready: in.ready, Number: in.last, Snapshot: in.snapshot, OnItsWay: len(in.units), Held: len(in.outputs)}
	if in.recoverTo > in.last {
		i.RecoverTo = in.recoverTo
	}
	if in.snapshot > 0 {
		i.SinceSnapshot = in.last - min(in.snapshot, in.last)
	}
	for _, u := range in.units {
		i.Held += len(u.outputs)
	}
	return i, in.trouble()
}
