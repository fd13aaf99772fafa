package entity_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestAnswersOfDevicesAreRead(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]entity.CommandAnswer{
		`{"id":"a","delivered":true}`:        {ID: "a", State: entity.CommandDelivered},
		`{"id":"a","progress":50}`:           {ID: "a", State: entity.CommandDelivered, Value: value.Int(50)},
		` {"result": {"b": [1]}, "id":"a"} `: {ID: "a", State: entity.CommandDone, Value: entity.ParseJSON([]byte(`{"b":[1]}`))}, //nolint:gocritic // space around it is allowed
		`{"id":"a","result":null}`:           {ID: "a", State: entity.CommandDone},
		`{"id":"a","error":"jammed"}`:        {ID: "a", State: entity.CommandFailed, Error: "jammed"},
	} {
		if got, err := entity.ParseCommandAnswer([]byte(payload)); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", payload, got, err, want)
		}
	}
	for _, payload := range []string{
		``, `[]`, `{"id":"a"}`, `{"id":"a","delivered":false}`, `{"result":1}`, `{"id":1,"result":1}`, `{"id":"a","result":1,"error":"x"}`,
		`{"id":"a","progress":null}`, `{"id":"a","error":{}}`, `{"id":"a","resutl":1}`, `{"id":"a","result":1} x`,
	} {
		if got, err := entity.ParseCommandAnswer([]byte(payload)); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
	}
}
