package entity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
)

func (s *stage) types(texts ...string) {
	s.t.Helper()
	var list []*model.Type
	for _, text := range texts {
		typ, err := model.Parse([]byte(text))
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, typ)
	}
	if _, err := s.PutTypes(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
}

const (
	space     = `{"id":"Space","properties":{"floor":{"type":"integer","min":0,"max":50}}}`
	room      = `{"id":"Room","extends":["Space"],"strict":true,"telemetry":{"temperature":{"type":"number","min":-50,"max":100,"unit":"degreeCelsius"}},"relations":{"isIn":{"target":["Building"],"max":1}}}`
	aBuilding = `{"id":"Building","extends":["Space"]}`
)

func TestReadingsAndEditsAreCheckedAgainstTheType(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(space, room, aBuilding)
	s.edit("r", entity.Edits{Type: new("Room"), Patches: []entity.Patch{merge(entity.Attributes, `{"floor":3}`)}})
	s.edit("b", entity.Edits{Type: new("Building")})
	s.edit("other", entity.Edits{Type: new("Space")})
	s.edit("b2", entity.Edits{Type: new("Building")})
	s.edit("untyped", entity.Edits{})
	for range 2 {
		s.write("r", at(1, "temperature", value.Float(21.5)))
		s.patch("r", entity.Desired, `{"floor":4}`)
		s.edit("r", entity.Edits{Relate: []entity.Relation{{Type: "isIn", To: "b"}}})
		before := s.entity("r")
		err := s.Write(t.Context(), "r", []entity.Reading{at(2, "temperature", value.Float(20)), at(3, "temperature", value.Int(130))}, 50)
		if !errors.Is(err, entity.ErrMismatch) || !strings.Contains(err.Error(), `reading 1 key "temperature"`) || !strings.Contains(err.Error(), "from -50 to 100 degreeCelsius") {
			t.Errorf("a reading beyond its limits: %v", err)
		}
		if err := s.Write(t.Context(), "r", []entity.Reading{at(2, "temprature", value.Float(20))}, 50); !errors.Is(err, entity.ErrMismatch) {
			t.Errorf("a reading of an unknown key: %v", err)
		}
		for name, e := range map[string]entity.Edits{
			"beyond its limits":  {Patches: []entity.Patch{merge(entity.Reported, `{"floor":51}`)}},
			"an unknown one":     {Patches: []entity.Patch{merge(entity.Attributes, `{"flor":5}`)}},
			"to another type":    {Relate: []entity.Relation{{Type: "isIn", To: "other"}}},
			"to no type":         {Relate: []entity.Relation{{Type: "isIn", To: "untyped"}}},
			"to a second":        {Relate: []entity.Relation{{Type: "isIn", To: "b2"}}},
			"of an unknown type": {Relate: []entity.Relation{{Type: "near", To: "b"}}},
		} {
			if _, err := s.Edit(t.Context(), "r", e); !errors.Is(err, entity.ErrMismatch) || !strings.Contains(err.Error(), `type "Room"`) {
				t.Errorf("%s: %v, want ErrMismatch", name, err)
			}
		}
		if after := s.entity("r"); after.ETag != before.ETag || len(after.Latest) != 1 || after.Latest[0].TS != 1 {
			t.Errorf("what was refused left %+v, was %+v", after, before)
		}
		s = s.reopen(entity.Config{})
	}
	// One for the other in one edit is still one.
	s.edit("r", entity.Edits{Unrelate: []entity.Relation{{Type: "isIn", To: "b"}}, Relate: []entity.Relation{{Type: "isIn", To: "b2"}}})
}

func TestTypeIsGivenOnlyToWhatAgreesWithIt(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(space, room, aBuilding)
	s.write("a", at(1, "temperature", value.String("warm")))
	s.patch("b", entity.Attributes, `{"floor":"second"}`)
	for _, id := range []string{"a", "b"} {
		if _, err := s.Edit(t.Context(), id, entity.Edits{Type: new("Room")}); !errors.Is(err, entity.ErrMismatch) {
			t.Errorf("%s: %v, want ErrMismatch", id, err)
		}
		if snap := s.entity(id); snap.Type != "" {
			t.Errorf("%s has the type %q", id, snap.Type)
		}
	}
	s.edit("b", entity.Edits{Type: new("Room"), Patches: []entity.Patch{merge(entity.Attributes, `{"floor":2}`)}})
	s.edit("b", entity.Edits{Type: new("")})
	s.patch("b", entity.Attributes, `{"floor":"second"}`)
}

func TestTypesAreKeptAndFoundWithThoseThatExtendThem(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(space, room, aBuilding)
	for i, typ := range []string{"Room", "Building", "Space", ""} {
		s.edit(fmt.Sprint("e", i), entity.Edits{Type: new(typ)})
	}
	for range 2 {
		var ids []string
		for _, typ := range s.Types() {
			ids = append(ids, typ.ID)
		}
		if !slices.Equal(ids, []string{"Building", "Room", "Space"}) {
			t.Errorf("types %v", ids)
		}
		for typ, want := range map[string]string{"": "e0 e1 e2 e3", "Space": "e0 e1 e2", "Room": "e0", "Attic": ""} {
			page, _, err := s.Entities(t.Context(), entity.Page{Type: typ})
			var got []string
			for _, e := range page {
				got = append(got, e.ID)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("of type %q: %v, %v, want %s", typ, got, err, want)
			}
		}
		err := s.View(t.Context(), "e0", func(v entity.View) error {
			if v.Type() != "Room" || !v.IsA("Room") || !v.IsA("Space") || v.IsA("Building") || v.IsA("") {
				t.Errorf("e0 is a %s", v.Type())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		s = s.reopen(entity.Config{})
	}
	if err := s.DeleteType(t.Context(), "Space", ""); !errors.Is(err, entity.ErrTypeInUse) || !strings.Contains(err.Error(), "Building") {
		t.Errorf("delete a type that others extend: %v", err)
	}
	if err := s.DeleteType(t.Context(), "Room", ""); !errors.Is(err, entity.ErrTypeInUse) || !strings.Contains(err.Error(), "e0") {
		t.Errorf("delete a type of an entity: %v", err)
	}
	if err := s.Delete(t.Context(), "e0", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteType(t.Context(), "Room", "old"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("delete with another version: %v", err)
	}
	if err := s.DeleteType(t.Context(), "Room", ""); err != nil {
		t.Error(err)
	}
	if _, err := s.Type("Room"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("the deleted type: %v", err)
	}
}

func TestTypesThatDoNotFitTogetherAreRefusedAndNoneIsKept(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(space)
	put := func(text string, condition string) error {
		typ, err := model.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.PutType(t.Context(), typ, condition)
		return err
	}
	if err := put(`{"id":"Space","extends":["Room"]}`, ""); !errors.Is(err, model.ErrUnknown) {
		t.Errorf("a base that does not exist: %v", err)
	}
	if err := put(`{"id":"Room","extends":["Space"]}`, ""); err != nil {
		t.Error(err)
	}
	if err := put(`{"id":"Space","extends":["Room"]}`, ""); !errors.Is(err, model.ErrCycle) || !strings.Contains(err.Error(), "→") {
		t.Errorf("a cycle: %v", err)
	}
	if err := put(`{"id":"Room"}`, entity.IfNone); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("put where nothing should be: %v", err)
	}
	if typ, err := s.ResolvedType("Room"); err != nil || len(typ.Properties) != 1 {
		t.Errorf("%+v, %v", typ, err)
	}
	s.edit("e", entity.Edits{Type: new("Room")})
	typ, err := s.Type("Room")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(`{"id":"Room","strict":true}`, typ.ETag); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), "e", []entity.Reading{at(1, "t", value.Int(1))}, 9); !errors.Is(err, entity.ErrMismatch) {
		t.Errorf("the new version of the type is not applied: %v", err)
	}
}
