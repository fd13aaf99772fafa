package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

const building = `[
{
  "@context": ["dtmi:dtdl:context;3", "dtmi:dtdl:extension:quantitativeTypes;1"],
  "@id": "dtmi:com:example:Room;1", "@type": "Interface", "displayName": {"en": "Room", "de": "Raum"}, "comment": "c",
  "extends": {"@id": "dtmi:com:example:Space;1", "@type": "Interface", "contents": [{"@type": "Property", "name": "area", "schema": "double"}]},
  "schemas": [{"@id": "dtmi:com:example:Mode;1", "@type": "Enum", "valueSchema": "string", "enumValues": [{"name": "on", "enumValue": "ON"}, {"name": "off", "enumValue": "OFF"}]}],
  "contents": [
    {"@type": ["Telemetry", "Temperature"], "name": "temp", "schema": "double", "unit": "degreeCelsius"},
    {"@type": "Telemetry", "name": "position", "schema": {"@type": "Object", "fields": [{"name": "x", "schema": "float"}, {"name": "path", "schema": {"@type": "Array", "elementSchema": "integer"}}]}},
    {"@type": "Property", "name": "mode", "schema": "dtmi:com:example:Mode;1", "writable": true, "description": "how it is run"},
    {"@type": "Property", "name": "labels", "schema": {"@type": "Map", "mapKey": {"name": "k", "schema": "string"}, "mapValue": {"name": "v", "schema": "boolean"}}},
    {"@type": "Property", "name": "level", "schema": {"@type": "Enum", "valueSchema": "integer", "enumValues": [{"name": "low", "enumValue": 1}]}},
    {"@type": "Relationship", "name": "isIn", "target": "dtmi:com:example:Floor;1", "maxMultiplicity": 1, "properties": [{"@type": "Property", "name": "since", "schema": "date"}]},
    {"@type": "Command", "name": "reboot", "request": {"name": "delay", "schema": "duration"}, "response": {"name": "at", "schema": "dateTime"}},
    {"@type": "Component", "name": "thermostat", "schema": "dtmi:com:example:Thermostat;1"}
  ]
},
{"@context": "dtmi:dtdl:context;2", "@id": "dtmi:com:example:Thermostat;1", "@type": "Interface", "contents": [{"@type": "Telemetry", "name": "set", "schema": "long"}]}
]`

func TestDTDLBecomesTypes(t *testing.T) {
	list, err := ParseDTDL([]byte(building))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]*Type{}
	var ids []string
	for _, typ := range list {
		types[typ.ID] = typ
		ids = append(ids, typ.ID)
		text, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, string(text)) // it can be stored
	}
	if fmt.Sprint(ids) != "[dtmi:com:example:Space;1 dtmi:com:example:Room;1 dtmi:com:example:Thermostat;1]" {
		t.Errorf("types %v", ids)
	}
	resolved, err := ResolveAll(types)
	if err != nil {
		t.Fatal(err)
	}
	room := resolved["dtmi:com:example:Room;1"]
	if room.Type.Name != "Room" || !room.IsA["dtmi:com:example:Space;1"] || room.Properties["area"].Type != Number || !room.Properties["mode"].Writable || room.Properties["mode"].Description != "how it is run" {
		t.Errorf("room %+v", room)
	}
	if s := room.Telemetry["temp"]; s.Unit != "degreeCelsius" || s.Semantic != "Temperature" || s.Type != Number {
		t.Errorf("temp %+v", s)
	}
	if r := room.Relations["isIn"]; r.Max != 1 || r.Target[0] != "dtmi:com:example:Floor;1" || r.Properties["since"].Type != Date {
		t.Errorf("isIn %+v", r)
	}
	if c := room.Commands["reboot"]; c.Request.Type != Duration || c.Response.Type != DateTime {
		t.Errorf("reboot %+v", c)
	}
	for key, d := range map[string]value.Value{
		"position":       value.JSON(`{"x":1.5,"path":[1,2]}`),
		"thermostat.set": value.Int(1 << 40),
	} {
		if err := room.CheckTelemetry(key, d); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, d := range map[string]value.Value{
		"position":       value.JSON(`{"x":1.5,"path":[3000000000]}`), // integer is of 32 bits
		"thermostat.set": value.Float(1.5),
	} {
		if err := room.CheckTelemetry(key, d); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, want ErrMismatch", key, err)
		}
	}
	for path, d := range map[string]value.Value{"mode": value.String("ON"), "labels/x": value.Bool(false), "level": value.Int(1)} {
		if err := room.CheckAttribute(strings.Split(path, "/"), d); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := room.CheckAttribute(strings.Split(path, "/"), value.Float(0.5)); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, want ErrMismatch", path, err)
		}
	}
}

func TestDTDLThatIsNotRightIsRefusedWithItsPath(t *testing.T) {
	const head = `"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Interface"`
	content := func(c string) string {
		return `{` + head + `,"contents":[{"@type":"Property","name":"ok","schema":"double"},` + c + `]}`
	}
	for text, place := range map[string]string{
		`{`: "", `7`: "$:", `{` + head + `} 1`: "follows",
		`{"@id":"dtmi:a;1","@type":"Interface"}`:                                  "$.@context",
		`{"@context":"dtmi:dtdl:context;9","@id":"dtmi:a;1","@type":"Interface"}`: "$.@context",
		`{"@context":"dtmi:dtdl:context;3","@id":"room","@type":"Interface"}`:     "$.@id",
		`[{"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Room"}]`:    "$[0].@type",
		`{` + head + `,"content":[]}`:                                             "$.content",
		`[{` + head + `},{` + head + `}]`:                                         "twice",
		`{` + head + `,"extends":[7]}`:                                            "$.extends[0]",
		`{` + head + `,"schemas":[{"@type":"Map"}]}`:                              "$.schemas[0].@id",
		content(`7`): "$.contents[1]",
		content(`{"@type":"Property","name":"ok","schema":"double"}`):                                                                                     "$.contents[1].name",
		content(`{"@type":"Property","name":"1x","schema":"double"}`):                                                                                     "$.contents[1].name",
		content(`{"@type":"Propperty","name":"x","schema":"double"}`):                                                                                     "$.contents[1].@type",
		content(`{"@type":["Property","Telemetry"],"name":"x","schema":"double"}`):                                                                        "$.contents[1].@type",
		content(`{"@type":"Property","name":"x","schema":"dubble"}`):                                                                                      "$.contents[1].schema",
		content(`{"@type":"Property","name":"x"}`):                                                                                                        "$.contents[1].schema",
		content(`{"@type":"Property","name":"x","schema":"double","writeable":true}`):                                                                     "$.contents[1].writeable",
		content(`{"@type":"Property","name":"x","schema":"double","writable":1}`):                                                                         "$.contents[1].writable",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Array"}}`):                                                                             "$.contents[1].schema.elementSchema",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Object"}}`):                                                                            "$.contents[1].schema.fields",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Object","fields":[{"name":"f","schema":"x"}]}}`):                                       "$.contents[1].schema.fields[0].schema",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Map","mapKey":{"name":"k","schema":"integer"},"mapValue":{"name":"v","schema":"x"}}}`): "$.contents[1].schema.mapKey.schema",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Enum","valueSchema":"double","enumValues":[]}}`):                                       "$.contents[1].schema.valueSchema",
		content(`{"@type":"Property","name":"x","schema":{"@type":"Enum","valueSchema":"string","enumValues":[{"name":"a","enumValue":1}]}}`):             "$.contents[1].schema.enumValues[0].enumValue",
		content(`{"@type":"Relationship","name":"x","maxMultiplicity":0}`):                                                                                "$.contents[1].maxMultiplicity",
		content(`{"@type":"Relationship","name":"x","target":"Room"}`):                                                                                    "$.contents[1].target",
		content(`{"@type":"Command","name":"x","request":{"schema":"double"}}`):                                                                           "$.contents[1].request.name",
		content(`{"@type":"Component","name":"x","schema":"Room"}`):                                                                                       "$.contents[1].schema",
	} {
		_, err := ParseDTDL([]byte(text))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), place) {
			t.Errorf("%.120s:\n  %v, want ErrInvalid at %q", text, err, place)
		}
	}
}

// Shared schemas that use each other would double with each step.
func TestDTDLThatGrowsBeyondAnyMeasureIsRefused(t *testing.T) {
	var schemas []string
	for i := range 31 {
		inner := `"double"`
		if i < 30 {
			inner = fmt.Sprintf(`"dtmi:s%d;1"`, i+1)
		}
		schemas = append(schemas, fmt.Sprintf(`{"@id":"dtmi:s%d;1","@type":"Object","fields":[{"name":"a","schema":%s},{"name":"b","schema":%s}]}`, i, inner, inner))
	}
	doc := `{"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Interface","schemas":[` + strings.Join(schemas, ",") + `]}`
	if _, err := ParseDTDL([]byte(doc)); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
	if _, err := ParseDTDL([]byte(`{"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Interface","schemas":[{"@id":"dtmi:s;1","@type":"Array","elementSchema":"dtmi:s;1"}]}`)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a schema of itself: %v, want ErrInvalid", err)
	}
}

func FuzzParseDTDL(f *testing.F) {
	f.Add([]byte(building))
	f.Add([]byte(`{"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Interface","contents":[{"@type":"Property","name":"x","schema":"point"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		types, err := ParseDTDL(data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is not ErrInvalid", err)
			}
			return
		}
		for _, typ := range types {
			text, err := json.Marshal(typ)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Parse(text); err != nil {
				t.Fatalf("%s does not read back: %v", text, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":"a","telemetry":{"t":{"type":"enum","values":[1,2]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		typ, err := Parse(data)
		if err != nil {
			return
		}
		text, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text); err != nil {
			t.Fatalf("%s does not read back: %v", text, err)
		}
	})
}
