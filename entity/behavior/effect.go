package behavior

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/depth"
)

// effect is something that was decided: readings, patches or a command; the other fields are empty.
type effect struct {
	entity   string
	created  int64 // when the entity was created
	source   string
	seq      uint64
	readings []entity.Reading
	patches  []entity.Patch
	command  *entity.NewCommand
}

// storedEffect is an effect in the store.
type storedEffect struct {
	Entity   string          `json:"e"`
	Created  int64           `json:"c"`
	Source   string          `json:"s"`
	Seq      uint64          `json:"n"`
	Readings json.RawMessage `json:"r,omitempty"`
	Patches  []storedPatch   `json:"p,omitempty"`
	Command  *storedCommand  `json:"m,omitempty"`
}

type storedPatch struct {
	Section entity.Section   `json:"s"`
	Form    entity.PatchForm `json:"f,omitempty"`
	Body    json.RawMessage  `json:"b"`
}

type storedCommand struct {
	Name     string          `json:"n"`
	Request  json.RawMessage `json:"r,omitempty"`
	Key      string          `json:"k"`
	By       string          `json:"b,omitempty"`
	Expires  int64           `json:"e,omitempty"`
	Timeout  time.Duration   `json:"t,omitempty"`
	Parallel bool            `json:"p,omitempty"`
}

// append appends the effect as a line.
func (e *effect) append(dst []byte) ([]byte, error) {
	s := storedEffect{Entity: e.entity, Created: e.created, Source: e.source, Seq: e.seq}
	for i := range e.readings {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		s.Readings = e.readings[i].AppendJSON(append(s.Readings, sep))
	}
	if s.Readings != nil {
		s.Readings = append(s.Readings, ']')
	}
	for _, p := range e.patches {
		s.Patches = append(s.Patches, storedPatch{p.Section, p.Form, p.Body})
	}
	if c := e.command; c != nil {
		s.Command = &storedCommand{Name: c.Name, Key: c.Key, By: c.By, Expires: c.Expires, Timeout: c.Timeout, Parallel: c.Parallel}
		if !c.Request.IsZero() {
			s.Command.Request = c.Request.AppendJSON(nil)
		}
	}
	line, err := json.Marshal(&s)
	if err != nil {
		return dst, fmt.Errorf("effect on %q: %w", e.entity, err)
	}
	return append(append(dst, line...), '\n'), nil
}

// parseEffects reads the lines of effects.
func parseEffects(body []byte) ([]effect, error) {
	var list []effect
	for line := range strings.Lines(string(body)) {
		var s storedEffect
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, fmt.Errorf("stored effect: %w", err)
		}
		e := effect{entity: s.Entity, created: s.Created, source: s.Source, seq: s.Seq}
		if s.Readings != nil {
			var err error
			if e.readings, err = entity.ParseReadings(s.Readings, time.Time{}); err != nil {
				return nil, fmt.Errorf("stored effect on %q: %w", s.Entity, err)
			}
		}
		for _, p := range s.Patches {
			e.patches = append(e.patches, entity.Patch{Section: p.Section, Form: p.Form, Body: p.Body})
		}
		if c := s.Command; c != nil {
			request, _ := value.FromJSON(string(c.Request))
			e.command = &entity.NewCommand{Name: c.Name, Request: request, Key: c.Key, By: c.By, Expires: c.Expires, Timeout: c.Timeout, Parallel: c.Parallel}
		}
		list = append(list, e)
	}
	return list, nil
}

// The parts of a source behind its version.
const (
	partTick = "tick" // of the regular calls, whose numbers are times
	partEdit = "edit" // of edits: a source's number of a change is used once for an entity
)

// source returns the name of a behavior in origins: prefix:name@version, followed by parts. A
// numeric part is the depth, if that is more than 1.
func (b *behavior) source(n int, tick bool) string {
	s := b.origin
	if tick {
		s += ":" + partTick
	}
	return depth.With(s, n)
}
