package entity

// entityView is what inspection tools see of an entity's actor.
type entityView struct {
	ID     string `json:"id"`
	Type   string `json:"type,omitempty"`
	Loaded bool   `json:"loaded"` // whether the state has been read from the store
	Keys   int    `json:"keys"`
	Seq    uint64 `json:"seq"`      // of the last reading
	Edits  uint64 `json:"revision"` // of the last edit
	Open   int    `json:"commands"` // that have not ended
}

// Inspect returns the entity's present state. It reads nothing from the store.
func (e *entityActor) Inspect() any {
	open := 0
	if q := e.queue(); q != nil {
		open = len(q.open)
	}
	return entityView{
		ID: e.h.id, Type: e.state.typ, Loaded: e.loaded,
		Keys: len(e.state.slots), Seq: e.state.seq, Edits: e.state.revision, Open: open,
	}
}
