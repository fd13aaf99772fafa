package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/swaggest/jsonschema-go"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

var update = flag.Bool("update", false, "rewrite openapi.json and the types of the dashboard")

// generated are the files that are made from the operations.
var generated = map[string]func(*document31) []byte{
	"openapi.json":        (*document31).json,
	"../web/src/types.ts": (*document31).typeScript,
}

// `make generate` rewrites the files.
func TestGeneratedFilesAreFresh(t *testing.T) {
	t.Parallel()
	d := describe(t)
	for name, generate := range generated {
		want := generate(d)
		if *update {
			if err := os.WriteFile(name, want, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the operations describe: run make generate", name)
		}
	}
}

// object is a piece of the document.
type object = map[string]any

// document31 is a description in OpenAPI 3.1 while it is made.
type document31 struct {
	t          *testing.T
	reflector  jsonschema.Reflector
	comments   map[string]string // of package.Type and package.Type.Field
	schemas    object
	closed     map[string]bool // schemas of bodies: other members are refused
	paths      map[string]object
	openapiDoc object
}

// statementBody is a mapping in JSON.
type statementBody struct {
	// The entity to which the values are written.
	Into string `json:"into" example:"room"`
	// The values that are computed.
	Select []statementField `json:"select"`
	// The groups that the expressions name.
	From []statementGroup `json:"from,omitempty"`
}

// statementField is a value that a mapping computes.
type statementField struct {
	// The key that is written.
	As string `json:"as,omitempty" example:"fahrenheit"`
	// The expression.
	Value string `json:"value" example:"sensor.t * 1.8 + 32"`
}

// statementGroup is one or several entities that a mapping reads from: by list, by like,
// or by entity and one of out and in.
type statementGroup struct {
	// The name of the group in expressions.
	As     string   `json:"as" example:"m"`
	Entity string   `json:"entity,omitempty"`
	List   []string `json:"list,omitempty"`
	// A pattern of ids with % for any characters and _ for one.
	Like string `json:"like,omitempty" example:"meter-%"`
	// The type of the relations from the entity.
	Out string `json:"out,omitempty"`
	// The type of the relations to the entity.
	In string `json:"in,omitempty"`
}

// describe makes the description of the operations.
func describe(t *testing.T) *document31 {
	t.Helper()
	d := &document31{t: t, comments: map[string]string{}, schemas: object{}, closed: map[string]bool{}, paths: map[string]object{}}
	for _, dir := range []string{".", "../inspect", "../entity/mapping", "../entity/model", "../entity/retention", "../entity/series", "template"} {
		d.readComments(dir)
	}
	d.setUp()
	for _, event := range []any{changeJSON{}, editEventJSON{}, commandEventJSON{}, presenceEventJSON{}} { // the data of events, which OpenAPI cannot say
		d.schema(event)
	}
	d.schema(problem{})
	for _, o := range listOperations() {
		if d.paths[o.pattern] == nil {
			d.paths[o.pattern] = object{}
		}
		d.paths[o.pattern][strings.ToLower(o.method)] = d.operation(&o)
	}
	d.closeBodies()
	d.openapiDoc = object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Greenroom", "version": "1", "summary": "A digital-twin server: live entities, their history and their changes.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Times are in milliseconds since the epoch; ranges are [from, to). Errors are RFC 9457 problem documents. " +
				"Unknown query parameters and members of bodies are refused. Writes accept If-Match and If-None-Match: *; a PUT that would replace something needs one of them. " +
				"Devices also publish to e/{id}/telemetry and e/{id}/attributes over MQTT 3.1.1 or 5, and subscribe to e/{id}/desired and e/{id}/delta. They receive commands at e/{id}/commands and answer at e/{id}/answers. Changes of the alarms of an entity are published to e/{id}/alarms, and changes of its presence to e/{id}/presence.",
		},
		"servers":    []any{object{"url": "/"}},
		"paths":      d.paths,
		"components": object{"schemas": d.schemas, "responses": d.problems()},
	}
	d.openapiDoc = plain(t, d.openapiDoc).(object)
	d.addExamples(d.openapiDoc["paths"])
	return d
}

// listOperations returns the operations of a server that does not run.
func listOperations() []operation {
	return (&Server{metrics: &metrics{}, find: &entityFinder{}}).resources()
}

// plain is a value as encoding/json decodes it.
func plain(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (d *document31) json() []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(d.openapiDoc); err != nil {
		d.t.Fatal(err)
	}
	return buf.Bytes()
}

// readComments takes in the doc comments of the types of a package and of their fields.
func (d *document31) readComments(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					d.readTypeComments(f.Name.Name+"."+spec.Name.Name, gen, spec)
				}
			}
		}
	}
}

func (d *document31) readTypeComments(name string, gen *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil {
		doc = gen.Doc
	}
	d.comments[name] = sentence(doc.Text(), spec.Name.Name, true)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		for _, ident := range field.Names {
			d.comments[name+"."+ident.Name] = sentence(field.Doc.Text(), ident.Name, false)
		}
	}
}

// sentence is a doc comment without the Go name that it begins with.
func sentence(comment, name string, isType bool) string {
	text := strings.Join(strings.Fields(comment), " ")
	begins := []string{name + " is ", name + " are "}
	if isType {
		begins = append(begins, name+" ")
	}
	for _, begin := range begins {
		if rest, ok := strings.CutPrefix(text, begin); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}

// names are components whose names are not those of their Go types.
var names = map[string]string{
	"mapping.ExplainedField": "MappedField", "mapping.ExplainedSource": "MappedSource",
	"model.Type": "TypeDeclaration", "model.Relation": "RelationDeclaration", "model.Command": "CommandDeclaration", "problem": "Problem",
	"template.Template": "TemplateBody", "template.Command": "TemplateCommand", "template.Answer": "TemplateAnswer",
	"documentJSON": "JsonObject", "resolvedJSON": "ResolvedType", "bulkStatus": "Bulk", "Status": "RetentionStatus",
}

// setUp says how Go types become schemas.
func (d *document31) setUp() {
	anyValue := jsonschema.Schema{}
	anyValue.WithDescription("A number, a bool, a string, or a JSON object or array.")
	for _, simple := range []jsonschema.SimpleType{jsonschema.Number, jsonschema.Boolean, jsonschema.String, jsonschema.Object, jsonschema.Array} {
		anyValue.OneOf = append(anyValue.OneOf, simple.ToSchemaOrBool())
	}
	instantSchema := jsonschema.Schema{}
	instantSchema.WithDescription("Milliseconds since the epoch, or RFC 3339.")
	instantSchema.OneOf = []jsonschema.SchemaOrBool{jsonschema.Integer.ToSchemaOrBool(), (&jsonschema.Schema{Format: new("date-time")}).WithType(jsonschema.String.Type()).ToSchemaOrBool()}
	typeID := jsonschema.Schema{OneOf: []jsonschema.SchemaOrBool{jsonschema.String.ToSchemaOrBool(), jsonschema.Null.ToSchemaOrBool()}}
	wanted := jsonschema.Schema{}
	for _, name := range fieldNames {
		wanted.Enum = append(wanted.Enum, name)
	}
	wanted.WithType(jsonschema.String.Type())
	list := (&jsonschema.Schema{}).WithType(jsonschema.Array.Type()).WithItems(*(&jsonschema.Items{}).WithSchemaOrBool(wanted.ToSchemaOrBool()))
	text := *(&jsonschema.Schema{}).WithType(jsonschema.String.Type())
	exact := map[reflect.Type]jsonschema.Schema{
		reflect.TypeFor[instant](): instantSchema, reflect.TypeFor[typeRef](): typeID, reflect.TypeFor[fieldList](): *list, reflect.TypeFor[entityTags](): text,
		reflect.TypeFor[actor.PID](): text, reflect.TypeFor[series.Span](): text, reflect.TypeFor[json.RawMessage](): {},
	}
	d.reflector.AddTypeMapping(mapping.Statement{}, statementBody{})
	d.reflector.DefaultOptions = append(d.reflector.DefaultOptions,
		jsonschema.DefinitionsPrefix("#/components/schemas/"),
		jsonschema.RootRef,
		jsonschema.CollectDefinitions(func(name string, s jsonschema.Schema) { d.schemas[name] = d.closeTo(s) }),
		jsonschema.InterceptDefName(componentName),
		jsonschema.InterceptNullability(func(p jsonschema.InterceptNullabilityParams) { p.Schema.RemoveType(jsonschema.Null) }),
		jsonschema.InterceptSchema(func(p jsonschema.InterceptSchemaParams) (bool, error) {
			t := p.Value.Type()
			for t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			if s, ok := exact[t]; ok && !p.Processed {
				*p.Schema = s
				return true, nil
			}
			if t == reflect.TypeFor[value.Value]() && p.Processed {
				p.Schema.Type, p.Schema.OneOf, p.Schema.Description = nil, anyValue.OneOf, anyValue.Description
				return true, nil
			}
			if p.Processed {
				return false, d.finish(t, p.Schema)
			}
			return false, nil
		}),
		jsonschema.InterceptProp(d.finishMember),
	)
}

// componentName is the name of a Go type in the document, "" for one that has none.
func componentName(t reflect.Type, _ string) string {
	name := t.Name()
	if strings.Contains(name, "[") || t.PkgPath() == "" || strings.HasSuffix(name, "Request") {
		return ""
	}
	pkg := filepath.Base(t.PkgPath())
	if other := names[pkg+"."+name]; other != "" {
		return other
	}
	if other := names[name]; other != "" {
		return other
	}
	name = strings.TrimSuffix(name, "JSON")
	return strings.ToUpper(name[:1]) + name[1:]
}

// finish adds to the schema of a type what its fields do not say.
func (d *document31) finish(t reflect.Type, s *jsonschema.Schema) error {
	v := reflect.New(t).Elem().Interface()
	if one, ok := v.(interface{ alternatives() []any }); ok {
		s.Type, s.Properties, s.Required = nil, nil, nil
		for _, alternative := range one.alternatives() {
			schema, err := d.reflector.Reflect(alternative)
			if err != nil {
				return err
			}
			s.AnyOf = append(s.AnyOf, schema.ToSchemaOrBool())
		}
	}
	if more, ok := v.(interface{ others() any }); ok {
		if _, number := more.others().(*float64); !number {
			return fmt.Errorf("others of %v", t)
		}
		s.AdditionalProperties = &jsonschema.SchemaOrBool{TypeObject: &jsonschema.Schema{OneOf: []jsonschema.SchemaOrBool{jsonschema.Number.ToSchemaOrBool(), jsonschema.Null.ToSchemaOrBool()}}}
	}
	if text := d.comments[filepath.Base(t.PkgPath())+"."+t.Name()]; text != "" && s.Description == nil {
		s.WithDescription(text)
	}
	if t.Kind() == reflect.Struct {
		d.describeMembers(t, s)
	}
	return nil
}

// describeMembers takes the descriptions of members from the comments of fields.
func (d *document31) describeMembers(t reflect.Type, s *jsonschema.Schema) {
	for f := range t.Fields() {
		if f.Anonymous {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				d.describeMembers(embedded, s)
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for _, in := range paramSources {
			if tag := f.Tag.Get(in); tag != "" {
				name = tag
			}
		}
		member, ok := s.Properties[name]
		if !ok {
			continue
		}
		if text := d.comments[filepath.Base(t.PkgPath())+"."+t.Name()+"."+f.Name]; text != "" {
			member.TypeObject.WithDescription(text)
		} else if strings.HasSuffix(name, "_ms") && strings.HasPrefix(string(ptr(member.TypeObject.Type)), "int") || name == "ts" {
			member.TypeObject.WithDescription("Milliseconds since the epoch.")
		}
	}
}

func ptr(t *jsonschema.Type) jsonschema.SimpleType {
	if t == nil || t.SimpleTypes == nil {
		return ""
	}
	return *t.SimpleTypes
}

// finishMember says which members are required.
func (d *document31) finishMember(p jsonschema.InterceptPropParams) error {
	if !p.Processed {
		return nil
	}
	if kind := p.Field.Tag.Get("type"); kind != "" {
		p.PropertySchema.WithType(jsonschema.SimpleType(kind).Type())
	}
	if p.Field.Tag.Get("path") != "" || p.Field.Tag.Get("json") != "" && !strings.Contains(p.Field.Tag.Get("json"), ",omit") {
		if !slices.Contains(p.ParentSchema.Required, p.Name) {
			p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
		}
	}
	switch p.Field.Type.Kind() {
	case reflect.Int64, reflect.Uint64:
		if ptr(p.PropertySchema.Type) == jsonschema.Integer {
			p.PropertySchema.WithFormat("int64")
		}
	default:
	}
	return nil
}

// closeTo is a schema as a piece of the document.
func (d *document31) closeTo(s jsonschema.Schema) any { return plain(d.t, s) }

// schema is the schema of a value's type, or a reference to it.
func (d *document31) schema(v any) any {
	s, err := d.reflector.Reflect(v)
	if err != nil {
		d.t.Fatalf("%T: %v", v, err)
	}
	return plain(d.t, s)
}

func (d *document31) operation(o *operation) object {
	op := object{"operationId": o.id, "summary": o.summary, "responses": d.responses(o)}
	if params := d.parameters(o); len(params) > 0 {
		op["parameters"] = params
	}
	if o.request.body == nil {
		return op
	}
	bodies := o.bodies
	if bodies == nil {
		bodies = []content{{mediaJSON, reflect.New(o.request.in.FieldByIndex(o.request.body).Type).Elem().Interface()}}
	}
	// All but the properties of a relation must be there.
	op["requestBody"] = object{"required": o.id != "putRelation", "content": d.content(bodies, true)}
	return op
}

func (d *document31) content(list []content, body bool) object {
	out := object{}
	for _, c := range list {
		if c.media == "application/ndjson" || c.media == mediaJSON && c.value == "" || c.media == mediaText && c.value == "" && body {
			continue // other names for NDJSON, which an import takes as well
		}
		schema := d.schema(c.value)
		if body {
			d.markClosed(schema)
		}
		out[c.media] = object{"schema": schema}
	}
	return out
}

// parameters describes the parameters of an operation in the order of their fields.
func (d *document31) parameters(o *operation) (list []any) {
	for _, in := range paramSources {
		s, err := d.reflector.Reflect(reflect.New(o.request.in).Elem().Interface(), jsonschema.PropertyNameTag(in), func(rc *jsonschema.ReflectContext) { rc.RootRef = false })
		if err != nil {
			d.t.Fatalf("%s: %v", o.id, err)
		}
		for _, name := range o.request.names(in) {
			member := s.Properties[name].TypeObject
			field := o.request.in.FieldByIndex(o.request.params[slices.IndexFunc(o.request.params, func(p param) bool { return p.in == in && p.name == name })].index)
			p := object{"name": name, "in": in}
			if member.Description != nil {
				p["description"], member.Description = *member.Description, nil
			}
			if len(member.Examples) > 0 {
				p["example"], member.Examples = member.Examples[0], nil
			}
			if in == "path" || field.Tag.Get("required") != "" {
				p["required"] = true
			}
			switch field.Tag.Get("collectionFormat") {
			case "csv":
				p["style"], p["explode"] = "form", false
			case "multi":
				p["style"], p["explode"] = "form", true
			}
			p["schema"] = plain(d.t, member)
			list = append(list, p)
		}
	}
	return list
}

// successes are what is said about the statuses of a success.
var successes = map[int]string{101: "The connection now speaks WebSocket.", 200: "OK.", 201: "Created.", 202: "Accepted.", 204: "Done."}

func (d *document31) responses(o *operation) object {
	out := object{}
	replies := o.replies
	if replies == nil && o.reply != nil {
		replies = []content{{mediaJSON, reflect.New(o.reply).Elem().Interface()}}
	}
	for _, status := range o.statuses {
		r := object{"description": successes[status]}
		if replies != nil && status != http.StatusNoContent {
			r["content"] = d.content(replies, false)
		}
		out[strconv.Itoa(status)] = r
	}
	if o.method == http.MethodGet && o.request.has("If-None-Match") {
		out["304"] = object{"description": "The client has the current version."}
	}
	for _, status := range o.mayFail() {
		out[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem" + strconv.Itoa(status)}
	}
	return out
}

// failures are what is said about the statuses of problems, with a detail as an example.
var failures = map[int][2]string{
	400: {"The request is invalid.", "limit must be an integer from 1 to 1000, not \"0\""},
	401: {"The request has no valid credentials.", "the credentials are not valid"},
	429: {"There were too many failed logins.", "too many failed logins; try again in 3s"},
	403: {"The caller may not do this, or the request came from a page of another origin or was addressed to another host.", "\"alice\" may not write \"room-1\""},
	404: {"Not found.", "entity \"room-1\": not found"},
	408: {"The body did not arrive in time.", "the body took too long to arrive; send it faster, or in parts"},
	409: {"The request conflicts with what exists.", "entity \"room-1\": conflict: it exists"},
	412: {"The condition of the request is not met.", "entity \"room-1\": conflict: its version is \"3l\""},
	413: {"The body is too large.", "the body has more than 1048576 bytes; send it in parts"},
	415: {"The media type of the body is wrong.", "the body must be application/json in UTF-8, not text/html: with curl, -H 'Content-Type: application/json'"},
	422: {"The request is well formed, but cannot be fulfilled.", "entity \"sensor-9\": not found; a relation leads to an entity that exists"},
	426: {"The path speaks WebSocket.", "this path speaks WebSocket; /v1/stream has the same as server-sent events"},
	428: {"Replacing what exists requires If-Match.", "entity \"room-1\": conflict: it exists; to replace it send If-Match with its version, or If-Match: * to replace whatever there is"},
	503: {"The server cannot answer now; Retry-After says when to try again.", "the server is shutting down; try again in a moment"},
	507: {"The disk of the store is full.", "entity \"room-1\": no room on the disk of the store; make room on it, or move the store; commits go on by themselves when there is room"},
}

// problems describes the answers that are problem documents.
func (d *document31) problems() object {
	out := object{}
	for status, f := range failures {
		out["Problem"+strconv.Itoa(status)] = object{"description": f[0], "content": object{"application/problem+json": object{
			"schema":  d.schema(problem{}),
			"example": object{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": f[1], "instance": "/v1/entities/room-1"},
		}}}
	}
	return out
}

// markClosed notes the objects that a body consists of: they refuse other members.
func (d *document31) markClosed(schema any) {
	switch s := schema.(type) {
	case object:
		if name, ok := componentOf(s); ok && !d.closed[name] {
			d.closed[name] = true
			d.markClosed(d.schemas[name])
		}
		for _, v := range s {
			d.markClosed(v)
		}
	case []any:
		for _, v := range s {
			d.markClosed(v)
		}
	}
}

// componentOf returns the name of the component that a reference leads to.
func componentOf(s object) (string, bool) {
	ref, _ := s["$ref"].(string)
	return strings.CutPrefix(ref, "#/components/schemas/")
}

func (d *document31) closeBodies() {
	for name := range d.closed {
		if s := d.schemas[name].(object); s["properties"] != nil && s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
	}
}

// alternatives are both, for openapi.json.
func (e either[A, B]) alternatives() []any { return []any{*new(A), *new(B)} }

func (telemetryBody) alternatives() []any {
	return []any{valuesBody{}, readingBody{}, []sentReading{}}
}

func (historyJSON) alternatives() []any { return []any{pointPageJSON{}, bucketPageJSON{}} }

func (bucketJSON) others() any { return new(float64) }

// mayFail returns the statuses of problems that the operation may answer with.
func (o *operation) mayFail() []int {
	list := append([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, o.problems...)
	if o.request.body != nil {
		list = append(list, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if o.request.has("If-Match") {
		list = append(list, http.StatusPreconditionFailed)
	}
	if o.method != http.MethodGet {
		list = append(list, http.StatusInsufficientStorage)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// has reports whether there is a parameter of a name.
func (d *decoder) has(name string) bool {
	return slices.ContainsFunc(d.params, func(p param) bool { return p.name == name })
}

func (typesBody) alternatives() []any { return []any{[]typeBody{}, documentJSON{}, []documentJSON{}} }
