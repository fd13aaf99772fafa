package thingsboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/greenroom-go/greenroom/entity"
)

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object, in their order. It refuses duplicate names, because
// a value would be lost.
func members(payload []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%w: the payload must be a JSON object, not %.32q", entity.ErrInvalid, payload)
	}
	var list []member
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		m := member{name: t.(string)} //nolint:forcetypeassert // what a decoder returns in the place of a name
		if seen[m.name] {
			return nil, fmt.Errorf("%w: %.64q comes twice", entity.ErrInvalid, m.name)
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, malformed(err)
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the JSON object", entity.ErrInvalid)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the object has no members", entity.ErrInvalid)
	}
	return list, nil
}

// decode unmarshals a JSON object into v.
func decode(payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return malformed(err)
	}
	return nil
}

// malformed translates an error of encoding/json for the sender.
func malformed(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the JSON ends too early", entity.ErrInvalid)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: %s must not be a JSON %s", entity.ErrInvalid, wrong.Field, wrong.Value)
	}
	return fmt.Errorf("%w: not JSON: %w", entity.ErrInvalid, err)
}
