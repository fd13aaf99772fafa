package behavior

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Stateful returns a handler that keeps a state of type S for each entity, as JSON. f gets the
// entity's state in s, the zero S the first time; whatever it leaves in s is kept if it returns
// nil. Use it to write a state machine: S says which state the entity is in and what it has to
// remember.
//
//	behavior.Stateful(func(e *behavior.Entity, s *door, ev behavior.Event) error { … })
func Stateful[S any](f func(e *Entity, s *S, ev Event) error) Handler {
	return func(e *Entity, ev Event) error {
		var s S
		before := e.State()
		if before != nil {
			if err := json.Unmarshal(before, &s); err != nil {
				return fmt.Errorf("state: %w", err)
			}
		}
		if err := f(e, &s, ev); err != nil {
			return err
		}
		after, err := json.Marshal(&s)
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		if bytes.Equal(before, after) {
			return nil
		}
		return e.SetState(after)
	}
}
