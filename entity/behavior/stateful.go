package behavior

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Stateful returns a handler whose entities have a state of a type S each, kept as JSON: f finds
// the one of the entity in s, the zero S the first time, and what it leaves there is kept if it
// returns nil. It is how a state machine is written: S says which state the entity is in and what
// it has to remember.
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
