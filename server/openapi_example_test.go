package server

import (
	"encoding/json"
	"slices"
	"strings"
)

// addExamples gives each body an example, made of those of its members.
func (d *document31) addExamples(v any) {
	switch v := v.(type) {
	case object:
		for media, c := range v {
			body, ok := c.(object)
			if schema, has := body["schema"].(object); ok && has && strings.Contains(media, "/") {
				body["example"] = d.textExample(media)
				if body["example"] == nil {
					body["example"] = d.example(schema, 0)
				}
				continue
			}
			d.addExamples(c)
		}
	case []any:
		for _, item := range v {
			d.addExamples(item)
		}
	}
}

// textExample is the example of a body that is no JSON, nil for JSON.
func (d *document31) textExample(media string) any {
	switch media {
	case mediaText:
		return "insert into room select sensor.t * 1.8 + 32 as fahrenheit"
	case mediaNDJSON:
		return "{\"entity\":\"room-1\",\"ts\":1451649600512,\"values\":{\"temperature\":21.5}}\n"
	case mediaCSV:
		return "entity,ts,key,value\nroom-1,1451649600512,temperature,21.5\n"
	case mediaEvents:
		return "id: 3k\nevent: change\ndata: {\"entity\":\"room-1\",\"ts\":1451649600512,\"values\":{\"temperature\":21.5},\"committed_ms\":1451649600700}\n\n"
	default:
		return nil
	}
}

// exampleOf are the examples of components whose members have none of their own.
var exampleOf = map[string]string{
	"Value":    `21.5`,
	"TypeBody": `{"id":"Room","telemetry":{"temperature":{"type":"number","unit":"degreeCelsius"}}}`,
	"Type":     `{"id":"Room","etag":"3k","telemetry":{"temperature":{"type":"number","unit":"degreeCelsius"}}}`,
	"TypesBody": `[{"@context":"dtmi:dtdl:context;3","@id":"dtmi:example:Room;1","@type":"Interface",
		"contents":[{"@type":"Telemetry","name":"temperature","schema":"double"}]}]`,
	"Schema":     `{"type":"number"}`,
	"Property":   `{"type":"string","writable":true}`,
	"JsonObject": `{"setpoint":21}`,
	"RuleBody":   `{"type":"Room","raw":"30d","tiers":[{"step":"1h"}]}`,
	"Rule":       `{"id":"meters","etag":"3k","type":"Room","raw":"30d","tiers":[{"step":"1h"}]}`,
}

// example makes an example of a schema. An optional member is in it if it has one of
// its own.
func (d *document31) example(s object, depth int) any {
	if list, ok := s["examples"].([]any); ok {
		return list[0]
	}
	if name, ok := componentOf(s); ok {
		if text := exampleOf[name]; text != "" {
			return plain(d.t, json.RawMessage(text))
		}
		s = plain(d.t, d.schemas[name]).(object)
	}
	if list, ok := s["enum"].([]any); ok {
		return list[0]
	}
	for _, of := range []string{"oneOf", "anyOf"} {
		if list, ok := s[of].([]any); ok {
			return d.example(list[0].(object), depth+1)
		}
	}
	switch s["type"] {
	case "object":
		return d.exampleObject(s, depth)
	case "array":
		items, _ := s["items"].(object)
		if depth > 6 || items == nil {
			return []any{}
		}
		return []any{d.example(items, depth+1)}
	case "string":
		return ""
	case "boolean":
		return false
	case "integer", "number":
		if least, ok := s["minimum"].(float64); ok {
			return least
		}
		return 0.0
	default:
		return object{}
	}
}

func (d *document31) exampleObject(s object, depth int) any {
	out := object{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	for name, member := range properties {
		m := member.(object)
		if slices.Contains(required, any(name)) || m["examples"] != nil {
			out[name] = d.example(m, depth+1)
		}
	}
	if of, ok := s["additionalProperties"].(object); ok && len(of) > 0 && depth < 6 {
		key := "temperature"
		if of["type"] == "integer" {
			key = "contains"
		}
		out[key] = d.example(of, depth+1)
	}
	return out
}
