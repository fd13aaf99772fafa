package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// DTDL is the Digital Twins Definition Language. This package reads version 3, and version 2 where
// the two agree.
//
// https://azure.github.io/opendigitaltwins-dtdl/DTDL/v3/DTDL.v3.html
const (
	dtdl2 = "dtmi:dtdl:context;2"
	dtdl3 = "dtmi:dtdl:context;3"
)

var (
	dtmi       = regexp.MustCompile(`^dtmi:[A-Za-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?(?::[A-Za-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?)*(?:;[1-9][0-9]{0,8}(?:\.[1-9][0-9]{0,5})?)?$`)
	memberName = regexp.MustCompile(`^[A-Za-z](?:[A-Za-z0-9_]*[A-Za-z0-9])?$`)
)

// ParseDTDL reads a DTDL document: an Interface, or an array of them, in JSON. It
// returns the types in the order in which they occur, an Interface inside another
// before that one. An error wraps ErrInvalid and names the path in the document:
// "$.contents[2].schema: …".
//
// Properties, telemetry, relationships, commands, components, extends and all schemas become what
// this package has for them. Geospatial schemas become objects whose contents are not checked.
// Unknown members are refused, except those that another @context defines.
func ParseDTDL(data []byte) (types []*Type, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: something follows the document", ErrInvalid)
	}
	var in dtdlReader
	list, ok := doc.([]any)
	if !ok {
		list = []any{doc}
	}
	for i, item := range list {
		at := "$"
		if ok {
			at = fmt.Sprintf("$[%d]", i)
		}
		in.document(at, item)
	}
	if in.err != nil {
		return nil, in.err
	}
	seen := map[string]bool{}
	for _, t := range in.types {
		if seen[t.ID] {
			return nil, invalid("$", "the interface %q occurs twice", t.ID)
		}
		seen[t.ID] = true
		if err := t.Check(); err != nil {
			return nil, err
		}
	}
	return in.types, nil
}

// dtdlReader gathers the interfaces of a document. After the first error, what its methods and
// those of its elements return is meaningless.
type dtdlReader struct {
	types []*Type
	depth int
	nodes int // schemas read so far
	err   error
}

// maxNodes bounds the schemas of a document: shared ones that use each other could grow without
// bound.
const maxNodes = 100_000

func (in *dtdlReader) fail(at, format string, args ...any) {
	if in.err == nil {
		in.err = invalid(at, format, args...)
	}
}

// element is a JSON object of a DTDL document and where it stands.
type element struct {
	in *dtdlReader
	at string
	m  map[string]any
}

func (in *dtdlReader) object(at string, v any) element {
	m, ok := v.(map[string]any)
	if !ok {
		in.fail(at, "must be an object, not %s", describe(v))
	}
	return element{in, at, m}
}

// object returns a member that is an object.
func (e element) object(name string) element { return e.in.object(e.at+"."+name, e.m[name]) }

// each calls f with the items of a member, an array or a single item, until there is an error.
func (e element) each(name string, f func(at string, item any)) {
	v, ok := e.m[name]
	if !ok {
		return
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for i, item := range list {
		if e.in.err == nil {
			f(fmt.Sprintf("%s.%s[%d]", e.at, name, i), item)
		}
	}
}

// eachOf is each for a member that must be an array.
func (e element) eachOf(name string, f func(at string, item any)) {
	if _, ok := e.m[name].([]any); !ok {
		e.in.fail(e.at+"."+name, "must be an array, not %s", describe(e.m[name]))
	}
	e.each(name, f)
}

// checkID refuses what is no id of an interface or a schema.
func (in *dtdlReader) checkID(at, id string) string {
	if !dtmi.MatchString(id) {
		in.fail(at, "must be an id such as dtmi:com:example:Room;1, not %q", brief(id))
	}
	return id
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return fmt.Sprintf("the text %q", brief(v))
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	}
	return fmt.Sprint(v)
}

// text returns a member that is a text, "" where it is missing.
func (e element) text(name string) string {
	v, ok := e.m[name]
	s, isText := v.(string)
	if ok && !isText {
		e.in.fail(e.at+"."+name, "must be a text, not %s", describe(v))
	}
	return s
}

// words is a text in one language: a string, or an object of languages.
func (e element) words(name string) string {
	m, ok := e.m[name].(map[string]any)
	switch {
	case !ok:
		return e.text(name)
	case len(m) == 0:
		return ""
	}
	language := slices.Min(slices.Collect(maps.Keys(m)))
	if _, ok := m["en"]; ok {
		language = "en"
	}
	return e.object(name).text(language)
}

func (e element) id() string { return e.in.checkID(e.at+".@id", e.text("@id")) }

func (e element) name() string {
	name := e.text("name")
	if !memberName.MatchString(name) || len(name) > 512 {
		e.in.fail(e.at+".name", "must have letters, digits and _, and begin with a letter, not %q", brief(name))
	}
	return name
}

// kinds returns @type: the kind of the element, and its semantic type.
func (e element) kinds(of ...string) (sort, semantic string) {
	at := e.at + ".@type"
	if e.m["@type"] == nil {
		e.in.fail(at, "must be one of %v, not nothing", of)
	}
	var names []string
	e.each("@type", func(at string, item any) {
		name, ok := item.(string)
		if !ok {
			e.in.fail(at, "must be a text, not %s", describe(item))
		}
		names = append(names, name)
	})
	for _, name := range names {
		if !slices.Contains(of, name) {
			semantic = name
			continue
		}
		if sort != "" {
			e.in.fail(at, "must be one of %s and %s, not both", sort, name)
		}
		sort = name
	}
	if sort == "" {
		e.in.fail(at, "must be one of %v, not %v", of, names)
	}
	return sort, semantic
}

// only refuses members that are not in names. A semantic type brings its own.
func (e element) only(semantic string, names ...string) {
	names = append(names, "@type", "@id", "displayName", "description", "comment", "name")
	for name := range e.m {
		if !slices.Contains(names, name) && (semantic == "" || strings.HasPrefix(name, "@")) {
			slices.Sort(names)
			e.in.fail(e.at+"."+name, "it is not known here; there are %v", names)
		}
	}
}

// document reads an interface that stands on its own, with its context.
func (in *dtdlReader) document(at string, v any) {
	e := in.object(at, v)
	contexts, ok := e.m["@context"].([]any)
	if !ok {
		contexts = []any{e.m["@context"]}
	}
	known := func(c any) bool {
		s, _ := c.(string)
		s, _, _ = strings.Cut(s, "#")
		return s == dtdl2 || s == dtdl3
	}
	if !slices.ContainsFunc(contexts, known) {
		in.fail(at+".@context", "must be %q, not %s", dtdl3, describe(e.m["@context"]))
	}
	in.iface(e)
}

// reference reads an interface given by its id or in place, and returns its id.
func (in *dtdlReader) reference(at string, v any) string {
	if id, ok := v.(string); ok {
		return in.checkID(at, id)
	}
	return in.iface(in.object(at, v))
}

// iface reads an interface and returns its id.
func (in *dtdlReader) iface(e element) string {
	if in.depth++; in.depth > MaxDepth {
		in.fail(e.at, "interfaces nested deeper than %d", MaxDepth)
	}
	_, semantic := e.kinds("Interface")
	e.only(semantic, "@context", "contents", "extends", "schemas")
	r := interfaceReader{dtdlReader: in, shared: map[string]any{}, t: &Type{
		ID: e.id(), Name: e.words("displayName"), Description: e.words("description"),
		Properties: map[string]*Property{}, Telemetry: map[string]*Schema{}, Relations: map[string]*Relation{},
		Commands: map[string]*Command{}, Components: map[string]string{},
	}}
	e.each("schemas", func(at string, item any) { r.shared[in.object(at, item).id()] = item })
	e.each("schemas", func(at string, item any) { r.schema(at, item, 1) })
	e.each("extends", func(at string, item any) { r.t.Extends = append(r.t.Extends, in.reference(at, item)) })
	names := map[string]bool{}
	e.each("contents", func(at string, item any) {
		c := in.object(at, item)
		name := c.name()
		if names[name] {
			in.fail(c.at+".name", "%q occurs twice", name)
		}
		names[name] = true
		r.content(c, name)
	})
	in.types = append(in.types, r.t)
	in.depth--
	return r.t.ID
}

// interfaceReader reads what an interface has.
type interfaceReader struct {
	*dtdlReader

	t      *Type
	shared map[string]any // schemas by id
}

func (r *interfaceReader) content(e element, name string) {
	switch sort, semantic := e.kinds("Property", "Telemetry", "Relationship", "Command", "Component"); sort {
	case "Property":
		writable, ok := e.m["writable"].(bool)
		if !ok && e.m["writable"] != nil {
			r.fail(e.at+".writable", "must be true or false, not %s", describe(e.m["writable"]))
		}
		r.t.Properties[name] = &Property{Schema: *r.described(e, semantic, "schema", "unit", "writable"), Writable: writable}
	case "Telemetry":
		r.t.Telemetry[name] = r.described(e, semantic, "schema", "unit")
	case "Relationship":
		r.relationship(e, semantic, name)
	case "Command":
		e.only(semantic, "request", "response", "commandType")
		r.t.Commands[name] = &Command{Description: e.words("description"), Request: r.payload(e, "request"), Response: r.payload(e, "response")}
	case "Component":
		e.only(semantic, "schema")
		r.t.Components[name] = r.reference(e.at+".schema", e.m["schema"])
	}
}

// described reads the schema of an element, with what the element says about it.
func (r *interfaceReader) described(e element, semantic string, names ...string) *Schema {
	e.only(semantic, names...)
	s := r.schema(e.at+".schema", e.m["schema"], 1)
	s.Semantic, s.Name, s.Description, s.Unit = semantic, e.words("displayName"), e.words("description"), e.text("unit")
	return s
}

func (r *interfaceReader) relationship(e element, semantic, name string) {
	e.only(semantic, "target", "minMultiplicity", "maxMultiplicity", "properties", "writable")
	rel := &Relation{Description: e.words("description")}
	r.t.Relations[name] = rel
	if _, ok := e.m["target"]; ok {
		rel.Target = []string{r.checkID(e.at+".target", e.text("target"))}
	}
	if v, ok := e.m["maxMultiplicity"]; ok {
		n, err := wholeNumber(v)
		if err != nil || n < 1 || n > 500 {
			r.fail(e.at+".maxMultiplicity", "must be from 1 to 500, not %s", describe(v))
		}
		rel.Max = int(n)
	}
	if e.m["properties"] == nil {
		return
	}
	e.eachOf("properties", func(at string, item any) {
		p := r.object(at, item)
		name := p.name()
		_, semantic := p.kinds("Property")
		if rel.Properties == nil {
			rel.Properties = map[string]*Schema{}
		}
		rel.Properties[name] = r.described(p, semantic, "schema", "unit", "writable")
	})
}

func wholeNumber(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, ErrInvalid
	}
	return n.Int64()
}

// payload reads what goes with a command, nil where nothing does.
func (r *interfaceReader) payload(e element, name string) *Schema {
	if e.m[name] == nil {
		return nil
	}
	p := e.object(name)
	p.name()
	return r.described(p, "", "schema", "nullable")
}

// primitives are the schemas that are a word.
var primitives = map[string]Schema{
	"boolean": {Type: Boolean}, "date": {Type: Date}, "dateTime": {Type: DateTime}, "duration": {Type: Duration}, "time": {Type: Time},
	"string": {Type: String}, "double": {Type: Number}, "long": {Type: Integer},
	"float":   {Type: Number, Min: new(-math.MaxFloat32), Max: new(math.MaxFloat32)},
	"integer": {Type: Integer, Min: new(float64(math.MinInt32)), Max: new(float64(math.MaxInt32))},
	"point":   {Type: Any}, "multiPoint": {Type: Any}, "lineString": {Type: Any}, "multiLineString": {Type: Any}, "polygon": {Type: Any}, "multiPolygon": {Type: Any},
}

// schema reads a schema. It never returns nil.
func (r *interfaceReader) schema(at string, v any, depth int) *Schema {
	if depth > MaxDepth {
		r.fail(at, "schemas nested deeper than %d", MaxDepth)
	}
	if r.nodes++; r.nodes > maxNodes {
		r.fail(at, "more than %d schemas in one document, those that are shared counted wherever they are used", maxNodes)
	}
	if r.err != nil {
		return &Schema{}
	}
	if name, ok := v.(string); ok {
		if shared, ok := r.shared[name]; ok {
			return r.schema(at, shared, depth+1)
		}
		p, ok := primitives[name]
		if !ok {
			r.fail(at, "%q is neither a primitive schema nor the id of one of this interface", brief(name))
		}
		return &p
	}
	e := r.object(at, v)
	switch sort, semantic := e.kinds("Array", "Enum", "Map", "Object"); sort {
	case "Array":
		e.only(semantic, "elementSchema")
		return &Schema{Type: Array, Element: r.schema(at+".elementSchema", e.m["elementSchema"], depth+1)}
	case "Map":
		e.only(semantic, "mapKey", "mapValue")
		key, value := e.object("mapKey"), e.object("mapValue")
		if key.m["schema"] != "string" {
			r.fail(key.at+".schema", `must be "string", not %s`, describe(key.m["schema"]))
		}
		return &Schema{Type: Map, Element: r.schema(value.at+".schema", value.m["schema"], depth+1)}
	case "Object":
		e.only(semantic, "fields")
		return r.fields(e, depth)
	default:
		e.only(semantic, "enumValues", "valueSchema")
		return e.enum()
	}
}

func (r *interfaceReader) fields(e element, depth int) *Schema {
	if e.m["fields"] == nil {
		r.fail(e.at+".fields", "it is missing")
	}
	s := &Schema{Type: Object, Fields: map[string]*Schema{}}
	e.each("fields", func(at string, item any) {
		f := r.object(at, item)
		name := f.name()
		if s.Fields[name] != nil {
			r.fail(f.at+".name", "%q occurs twice", name)
		}
		s.Fields[name] = r.schema(f.at+".schema", f.m["schema"], depth+1)
	})
	return s
}

func (e element) enum() *Schema {
	kind := e.text("valueSchema")
	if kind != "string" && kind != "integer" {
		e.in.fail(e.at+".valueSchema", `must be "string" or "integer", not %q`, kind)
	}
	s := &Schema{Type: Enum}
	e.eachOf("enumValues", func(at string, item any) {
		v := e.in.object(at, item)
		v.name()
		text, isText := v.m["enumValue"].(string)
		n, err := wholeNumber(v.m["enumValue"])
		switch {
		case kind == "string" && isText:
			s.Values = append(s.Values, text)
		case kind == "integer" && err == nil:
			s.Values = append(s.Values, n)
		default:
			e.in.fail(v.at+".enumValue", "must be of type %s, not %s", kind, describe(v.m["enumValue"]))
		}
	})
	return s
}
