package server

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// typeScript is the schemas as types of the dashboard.
func (d *document31) typeScript() []byte {
	var b strings.Builder
	b.WriteString("// Code generated from server/openapi.json by go test ./server -run Generated -update; DO NOT EDIT.\n\n")
	b.WriteString("import type { Json } from \"./json\";\n")
	schemas := d.openapiDoc["components"].(object)["schemas"].(object)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name].(object)
		b.WriteString("\n" + tsComment("", s))
		switch {
		case name == "Value": // whose integers may be of 64 bits
			b.WriteString("export type Value = Json;\n")
			continue
		case s["properties"] == nil:
			fmt.Fprintf(&b, "export type %s = %s;\n", name, tsType(s))
			continue
		}
		fmt.Fprintf(&b, "export interface %s {\n%s}\n", name, tsMembers(s))
	}
	return []byte(b.String())
}

func tsComment(indent string, s object) string {
	text, _ := s["description"].(string)
	if text == "" {
		return ""
	}
	return indent + "/** " + strings.ReplaceAll(text, "*/", "* /") + " */\n"
}

var tsName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func tsMembers(s object) string {
	var b strings.Builder
	required, _ := s["required"].([]any)
	properties := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		member := properties[name].(object)
		label := name
		if !tsName.MatchString(name) {
			label = strconv.Quote(name)
		}
		if !slices.Contains(required, any(name)) {
			label += "?"
		}
		fmt.Fprintf(&b, "%s  %s: %s;\n", tsComment("  ", member), label, tsType(member))
	}
	if of, ok := s["additionalProperties"].(object); ok {
		fmt.Fprintf(&b, "  [other: string]: %s | undefined;\n", tsType(of))
	}
	return b.String()
}

func tsType(s object) string {
	if name, ok := componentOf(s); ok {
		return name
	}
	if list, ok := s["enum"].([]any); ok {
		var texts []string
		for _, v := range list {
			texts = append(texts, fmt.Sprintf("%q", v))
		}
		return strings.Join(texts, " | ")
	}
	for _, of := range []string{"oneOf", "anyOf"} {
		if list, ok := s[of].([]any); ok {
			var texts []string
			for _, v := range list {
				if text := tsType(v.(object)); !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
			return strings.Join(texts, " | ")
		}
	}
	switch s["type"] {
	case "object":
		of, ok := s["additionalProperties"].(object)
		if !ok || len(of) == 0 {
			return "{ [key: string]: Json }"
		}
		return "Record<string, " + tsType(of) + ">"
	case "array":
		items, _ := s["items"].(object)
		if items == nil {
			return "Json[]"
		}
		if text := tsType(items); strings.Contains(text, " ") {
			return "(" + text + ")[]"
		}
		return tsType(items) + "[]"
	case "string":
		return "string"
	case "boolean":
		return "boolean"
	case "integer", "number":
		return "number"
	case "null":
		return "null"
	default:
		return "Json"
	}
}
