package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// DTDL is the Digital Twins Definition Language. What is read here is version 3,
// and version 2 where it says the same.
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
// Properties, telemetry, relationships, commands, components, extends and all
// schemas become what this package has for them. The schemas of geography are
// objects that are not looked into. What is not known is refused, except for
// members that another @context defines.
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
		if _, err := in.document(at, item); err != nil {
			return nil, err
		}
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

// dtdlReader gathers the interfaces of a document.
type dtdlReader struct {
	types []*Type
	depth int
	nodes int // schemas read so far
}

// maxNodes bounds the schemas of a document: shared ones that use each other would
// grow beyond any measure.
const maxNodes = 100_000

// element is a JSON object of a DTDL document and where it stands.
type element struct {
	at string
	m  map[string]any
}

func object(at string, v any) (element, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return element{}, invalid(at, "must be an object, not %s", describe(v))
	}
	return element{at, m}, nil
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
func (e element) text(name string) (string, error) {
	v, ok := e.m[name]
	if !ok {
		return "", nil
	}
	s, ok := v.(string)
	if !ok {
		return "", invalid(e.at+"."+name, "must be a text, not %s", describe(v))
	}
	return s, nil
}

// words is a text in one language: a string, or an object of languages.
func (e element) words(name string) (string, error) {
	m, ok := e.m[name].(map[string]any)
	if !ok {
		return e.text(name)
	}
	var languages []string
	for language := range m {
		languages = append(languages, language)
	}
	slices.Sort(languages)
	if _, ok := m["en"]; ok {
		languages = []string{"en"}
	}
	if len(languages) == 0 {
		return "", nil
	}
	return element{e.at + "." + name, m}.text(languages[0])
}

// kinds returns @type: which sort the element is, and what it means beside.
func (e element) kinds(of ...string) (sort, semantic string, err error) {
	var names []string
	switch v := e.m["@type"].(type) {
	case string:
		names = []string{v}
	case []any:
		for i, item := range v {
			name, ok := item.(string)
			if !ok {
				return "", "", invalid(fmt.Sprintf("%s.@type[%d]", e.at, i), "must be a text, not %s", describe(item))
			}
			names = append(names, name)
		}
	default:
		return "", "", invalid(e.at+".@type", "must be one of %v, not %s", of, describe(v))
	}
	for _, name := range names {
		if slices.Contains(of, name) {
			if sort != "" {
				return "", "", invalid(e.at+".@type", "both %s and %s", sort, name)
			}
			sort = name
		} else {
			semantic = name
		}
	}
	if sort == "" {
		return "", "", invalid(e.at+".@type", "must be one of %v, not %v", of, names)
	}
	return sort, semantic, nil
}

// only refuses members that are not in names. A semantic type brings its own.
func (e element) only(semantic string, names ...string) error {
	names = append(names, "@type", "@id", "displayName", "description", "comment", "name")
	for name := range e.m {
		if !slices.Contains(names, name) && (semantic == "" || strings.HasPrefix(name, "@")) {
			slices.Sort(names)
			return invalid(e.at+"."+name, "it is not known here; there are %v", names)
		}
	}
	return nil
}

// document reads an interface that stands on its own, with its context.
func (in *dtdlReader) document(at string, v any) (string, error) {
	e, err := object(at, v)
	if err != nil {
		return "", err
	}
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
		return "", invalid(at+".@context", "must be %q, not %s", dtdl3, describe(e.m["@context"]))
	}
	return in.iface(e)
}

// reference reads an interface given by its id or in place.
func (in *dtdlReader) reference(at string, v any) (string, error) {
	if id, ok := v.(string); ok {
		if !dtmi.MatchString(id) {
			return "", invalid(at, "must be an id such as dtmi:com:example:Room;1, not %q", brief(id))
		}
		return id, nil
	}
	e, err := object(at, v)
	if err != nil {
		return "", err
	}
	return in.iface(e)
}

// iface reads an interface and returns its id.
func (in *dtdlReader) iface(e element) (string, error) {
	if in.depth++; in.depth > MaxDepth {
		return "", invalid(e.at, "interfaces nested deeper than %d", MaxDepth)
	}
	defer func() { in.depth-- }()
	_, semantic, err := e.kinds("Interface")
	if err != nil {
		return "", err
	}
	if err := e.only(semantic, "@context", "contents", "extends", "schemas"); err != nil {
		return "", err
	}
	id, err := e.text("@id")
	if err != nil {
		return "", err
	}
	if !dtmi.MatchString(id) {
		return "", invalid(e.at+".@id", "must be an id such as dtmi:com:example:Room;1, not %q", brief(id))
	}
	r := interfaceReader{in: in, t: &Type{
		ID: id, Properties: map[string]*Property{}, Telemetry: map[string]*Schema{}, Relations: map[string]*Relation{},
		Commands: map[string]*Command{}, Components: map[string]string{},
	}}
	if r.t.Name, err = e.words("displayName"); err != nil {
		return "", err
	}
	if r.t.Description, err = e.words("description"); err != nil {
		return "", err
	}
	for _, part := range []func(element) error{r.schemas, r.extends, r.contents} {
		if err := part(e); err != nil {
			return "", err
		}
	}
	in.types = append(in.types, r.t)
	return id, nil
}

// interfaceReader reads what an interface has.
type interfaceReader struct {
	in     *dtdlReader
	t      *Type
	shared map[string]any // schemas by id
}

func (r *interfaceReader) schemas(e element) error {
	v, ok := e.m["schemas"]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	r.shared = map[string]any{}
	for i, item := range list {
		s, err := object(fmt.Sprintf("%s.schemas[%d]", e.at, i), item)
		if err != nil {
			return err
		}
		id, err := s.text("@id")
		if err != nil {
			return err
		}
		if !dtmi.MatchString(id) {
			return invalid(s.at+".@id", "%q; a schema that is shared has an id", brief(id))
		}
		r.shared[id] = item
	}
	for i, item := range list {
		if _, err := r.schema(fmt.Sprintf("%s.schemas[%d]", e.at, i), item, 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *interfaceReader) extends(e element) error {
	v, ok := e.m["extends"]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for i, item := range list {
		id, err := r.in.reference(fmt.Sprintf("%s.extends[%d]", e.at, i), item)
		if err != nil {
			return err
		}
		r.t.Extends = append(r.t.Extends, id)
	}
	return nil
}

func (r *interfaceReader) contents(e element) error {
	v, ok := e.m["contents"]
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	names := map[string]bool{}
	for i, item := range list {
		c, err := object(fmt.Sprintf("%s.contents[%d]", e.at, i), item)
		if err != nil {
			return err
		}
		name, err := c.name()
		if err != nil {
			return err
		}
		if names[name] {
			return invalid(c.at+".name", "%q occurs twice", name)
		}
		names[name] = true
		if err := r.content(c, name); err != nil {
			return err
		}
	}
	return nil
}

func (e element) name() (string, error) {
	name, err := e.text("name")
	if err == nil && (!memberName.MatchString(name) || len(name) > 512) {
		err = invalid(e.at+".name", "must have letters, digits and _, and begin with a letter, not %q", brief(name))
	}
	return name, err
}

func (r *interfaceReader) content(e element, name string) error {
	sort, semantic, err := e.kinds("Property", "Telemetry", "Relationship", "Command", "Component")
	if err != nil {
		return err
	}
	switch sort {
	case "Property":
		p := &Property{}
		writable, ok := e.m["writable"].(bool)
		if !ok && e.m["writable"] != nil {
			return invalid(e.at+".writable", "must be true or false, not %s", describe(e.m["writable"]))
		}
		p.Writable = writable
		r.t.Properties[name] = p
		return r.described(e, semantic, &p.Schema, "schema", "unit", "writable")
	case "Telemetry":
		s := &Schema{}
		r.t.Telemetry[name] = s
		return r.described(e, semantic, s, "schema", "unit")
	case "Relationship":
		return r.relationship(e, semantic, name)
	case "Command":
		return r.command(e, semantic, name)
	}
	if err := e.only(semantic, "schema"); err != nil {
		return err
	}
	id, err := r.in.reference(e.at+".schema", e.m["schema"])
	r.t.Components[name] = id
	return err
}

// described reads the schema of an element, with what the element says of it.
func (r *interfaceReader) described(e element, semantic string, s *Schema, names ...string) error {
	if err := e.only(semantic, names...); err != nil {
		return err
	}
	schema, err := r.schema(e.at+".schema", e.m["schema"], 1)
	if err != nil {
		return err
	}
	*s = *schema
	s.Semantic = semantic
	if s.Name, err = e.words("displayName"); err != nil {
		return err
	}
	if s.Description, err = e.words("description"); err != nil {
		return err
	}
	s.Unit, err = e.text("unit")
	return err
}

func (r *interfaceReader) relationship(e element, semantic, name string) error {
	if err := e.only(semantic, "target", "minMultiplicity", "maxMultiplicity", "properties", "writable"); err != nil {
		return err
	}
	rel := &Relation{}
	r.t.Relations[name] = rel
	var err error
	if rel.Description, err = e.words("description"); err != nil {
		return err
	}
	if v, ok := e.m["target"]; ok {
		id, ok := v.(string)
		if !ok || !dtmi.MatchString(id) {
			return invalid(e.at+".target", "must be the id of an interface, not %s", describe(v))
		}
		rel.Target = []string{id}
	}
	if v, ok := e.m["maxMultiplicity"]; ok {
		n, err := wholeNumber(v)
		if err != nil || n < 1 || n > 500 {
			return invalid(e.at+".maxMultiplicity", "must be from 1 to 500, not %s", describe(v))
		}
		rel.Max = int(n)
	}
	list, ok := e.m["properties"].([]any)
	if !ok && e.m["properties"] != nil {
		return invalid(e.at+".properties", "must be an array, not %s", describe(e.m["properties"]))
	}
	for i, item := range list {
		p, err := object(fmt.Sprintf("%s.properties[%d]", e.at, i), item)
		if err != nil {
			return err
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		_, semantic, err := p.kinds("Property")
		if err != nil {
			return err
		}
		if rel.Properties == nil {
			rel.Properties = map[string]*Schema{}
		}
		s := &Schema{}
		rel.Properties[name] = s
		if err := r.described(p, semantic, s, "schema", "unit", "writable"); err != nil {
			return err
		}
	}
	return nil
}

func wholeNumber(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, ErrInvalid
	}
	return n.Int64()
}

func (r *interfaceReader) command(e element, semantic, name string) (err error) {
	if err := e.only(semantic, "request", "response", "commandType"); err != nil {
		return err
	}
	c := &Command{}
	r.t.Commands[name] = c
	if c.Description, err = e.words("description"); err != nil {
		return err
	}
	if c.Request, err = r.payload(e, "request"); err != nil {
		return err
	}
	c.Response, err = r.payload(e, "response")
	return err
}

// payload reads what goes with a command.
func (r *interfaceReader) payload(e element, name string) (*Schema, error) {
	v, ok := e.m[name]
	if !ok || v == nil {
		return nil, nil //nolint:nilnil // a command without one
	}
	p, err := object(e.at+"."+name, v)
	if err != nil {
		return nil, err
	}
	if _, err := p.name(); err != nil {
		return nil, err
	}
	s := &Schema{}
	return s, r.described(p, "", s, "schema", "nullable")
}

// primitives are the schemas that are a word.
var primitives = map[string]Schema{
	"boolean": {Type: Boolean}, "date": {Type: Date}, "dateTime": {Type: DateTime}, "duration": {Type: Duration}, "time": {Type: Time},
	"string": {Type: String}, "double": {Type: Number}, "long": {Type: Integer},
	"float":   {Type: Number, Min: new(-math.MaxFloat32), Max: new(math.MaxFloat32)},
	"integer": {Type: Integer, Min: new(float64(math.MinInt32)), Max: new(float64(math.MaxInt32))},
	"point":   {Type: Any}, "multiPoint": {Type: Any}, "lineString": {Type: Any}, "multiLineString": {Type: Any}, "polygon": {Type: Any}, "multiPolygon": {Type: Any},
}

func (r *interfaceReader) schema(at string, v any, depth int) (*Schema, error) {
	if depth > MaxDepth {
		return nil, invalid(at, "schemas nested deeper than %d", MaxDepth)
	}
	if r.in.nodes++; r.in.nodes > maxNodes {
		return nil, invalid(at, "more than %d schemas in one document, those that are shared counted wherever they are used", maxNodes)
	}
	if name, ok := v.(string); ok {
		if p, ok := primitives[name]; ok {
			return &p, nil
		}
		if shared, ok := r.shared[name]; ok {
			return r.schema(at, shared, depth+1)
		}
		return nil, invalid(at, "%q is neither a primitive schema nor the id of one of this interface", brief(name))
	}
	e, err := object(at, v)
	if err != nil {
		return nil, err
	}
	sort, semantic, err := e.kinds("Array", "Enum", "Map", "Object")
	if err != nil {
		return nil, err
	}
	switch sort {
	case "Array":
		if err := e.only(semantic, "elementSchema"); err != nil {
			return nil, err
		}
		s := &Schema{Type: Array}
		s.Element, err = r.schema(at+".elementSchema", e.m["elementSchema"], depth+1)
		return s, err
	case "Map":
		return r.mapSchema(e, semantic, depth)
	case "Object":
		return r.objectSchema(e, semantic, depth)
	}
	return enumSchema(e, semantic)
}

func (r *interfaceReader) mapSchema(e element, semantic string, depth int) (*Schema, error) {
	if err := e.only(semantic, "mapKey", "mapValue"); err != nil {
		return nil, err
	}
	key, err := object(e.at+".mapKey", e.m["mapKey"])
	if err != nil {
		return nil, err
	}
	if key.m["schema"] != "string" {
		return nil, invalid(key.at+".schema", `must be "string", not %s`, describe(key.m["schema"]))
	}
	value, err := object(e.at+".mapValue", e.m["mapValue"])
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: Map}
	s.Element, err = r.schema(value.at+".schema", value.m["schema"], depth+1)
	return s, err
}

func (r *interfaceReader) objectSchema(e element, semantic string, depth int) (*Schema, error) {
	if err := e.only(semantic, "fields"); err != nil {
		return nil, err
	}
	list, ok := e.m["fields"].([]any)
	if !ok {
		if e.m["fields"] == nil {
			return nil, invalid(e.at+".fields", "it is missing")
		}
		list = []any{e.m["fields"]}
	}
	s := &Schema{Type: Object, Fields: map[string]*Schema{}}
	for i, item := range list {
		f, err := object(fmt.Sprintf("%s.fields[%d]", e.at, i), item)
		if err != nil {
			return nil, err
		}
		name, err := f.name()
		if err != nil {
			return nil, err
		}
		if s.Fields[name] != nil {
			return nil, invalid(f.at+".name", "%q occurs twice", name)
		}
		if s.Fields[name], err = r.schema(f.at+".schema", f.m["schema"], depth+1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func enumSchema(e element, semantic string) (*Schema, error) {
	if err := e.only(semantic, "enumValues", "valueSchema"); err != nil {
		return nil, err
	}
	kind, err := e.text("valueSchema")
	if err != nil {
		return nil, err
	}
	if kind != "string" && kind != "integer" {
		return nil, invalid(e.at+".valueSchema", `must be "string" or "integer", not %q`, kind)
	}
	list, ok := e.m["enumValues"].([]any)
	if !ok {
		return nil, invalid(e.at+".enumValues", "must be an array, not %s", describe(e.m["enumValues"]))
	}
	s := &Schema{Type: Enum}
	for i, item := range list {
		v, err := object(fmt.Sprintf("%s.enumValues[%d]", e.at, i), item)
		if err != nil {
			return nil, err
		}
		if _, err := v.name(); err != nil {
			return nil, err
		}
		text, isText := v.m["enumValue"].(string)
		n, nerr := wholeNumber(v.m["enumValue"])
		switch {
		case kind == "string" && isText:
			s.Values = append(s.Values, text)
		case kind == "integer" && nerr == nil:
			s.Values = append(s.Values, n)
		default:
			return nil, invalid(v.at+".enumValue", "must be of type %s, not %s", kind, describe(v.m["enumValue"]))
		}
	}
	return s, nil
}
