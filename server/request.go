package server

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decoder decodes a request into a struct. The tags path, query and header name the parameter of a
// field; minimum, maximum, enum and default restrict it. The field Body is the body: the JSON of
// its type, or a payload. openapi.json is generated from the same fields and tags.
type decoder struct {
	in     reflect.Type
	params []param
	body   []int // the index of the field; nil for no body
}

// param is one parameter of a request.
type param struct {
	in, name string
	index    []int
	set      func(field reflect.Value, texts []string) error
	initial  string // the default as text
	required bool
}

// payload is an undecoded body, see accepts.
type payload struct {
	text  []byte
	media string
}

// textParser is a parameter type that parses itself. Its error continues the name: "must be …".
type textParser interface{ parse(text string) error }

// newDecoder returns the decoder for a struct. It panics on an unsupported struct, which is a
// mistake in the table of operations.
func newDecoder(in reflect.Type) *decoder {
	d := &decoder{in: in}
	d.add(in, nil)
	return d
}

func (d *decoder) add(t reflect.Type, path []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(path), i)
		if f.Name == "Body" {
			d.body = index
			continue
		}
		where := slices.IndexFunc(paramSources, func(in string) bool { return f.Tag.Get(in) != "" })
		switch {
		case where >= 0:
			in := paramSources[where]
			p := param{in: in, name: f.Tag.Get(in), index: index, set: setter(f), required: f.Tag.Get("required") == "true"}
			if f.Type.Kind() != reflect.Pointer { // a pointer is nil if the parameter is missing
				p.initial = f.Tag.Get("default")
			}
			d.params = append(d.params, p)
		case f.Anonymous:
			d.add(f.Type, index)
		}
	}
}

var paramSources = []string{"path", "query", "header"}

// names returns the names of the parameters in path, query or header.
func (d *decoder) names(in string) (list []string) {
	for i := range d.params {
		if d.params[i].in == in {
			list = append(list, d.params[i].name)
		}
	}
	return list
}

// decode returns a pointer to the decoded struct.
func (d *decoder) decode(w http.ResponseWriter, r *http.Request, o *operation) (reflect.Value, error) {
	in := reflect.New(d.in)
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return in, problemf(http.StatusBadRequest, "the query cannot be parsed: %v; special characters must be escaped as %%XX", err)
		}
		if err := d.checkNames(query); err != nil {
			return in, err
		}
	}
	for i := range d.params {
		if err := d.params[i].read(in.Elem(), r, query); err != nil {
			return in, err
		}
	}
	if c, ok := reflect.TypeAssert[interface{ check() error }](in); ok {
		if err := c.check(); err != nil {
			return in, err
		}
	}
	if d.body == nil {
		return in, nil
	}
	return in, d.decodeBody(w, r, o, in.Elem().FieldByIndex(d.body).Addr().Interface())
}

// decodeBody decodes the request's body into body.
func (d *decoder) decodeBody(w http.ResponseWriter, r *http.Request, o *operation, body any) (err error) {
	if later, ok := body.(*stream); ok {
		later.media, err = mediaOf(r.Header, o.medias()...)
		return err
	}
	text, media, err := readBody(w, r, o.limit, o.medias()...)
	if err != nil {
		return err
	}
	if raw, ok := body.(*payload); ok {
		*raw = payload{text, media}
		return nil
	}
	return decodeJSON(text, body)
}

// checkNames refuses unknown query parameters: if a typo were ignored, the response would be to
// another request.
func (d *decoder) checkNames(query url.Values) error {
	for name, texts := range query {
		i := slices.IndexFunc(d.params, func(p param) bool { return p.in == "query" && p.name == name })
		switch {
		case i >= 0 && (len(texts) == 1 || d.in.FieldByIndex(d.params[i].index).Tag.Get("collectionFormat") == "multi"):
		case i >= 0:
			return problemf(http.StatusBadRequest, "query parameter %q must be given once, not %d times", name, len(texts))
		case len(d.names("query")) == 0:
			return problemf(http.StatusBadRequest, "unknown query parameter %q; this path takes none", shorten(name, 64))
		default:
			return problemf(http.StatusBadRequest, "unknown query parameter %q; the parameters are %s", shorten(name, 64), strings.Join(d.names("query"), ", "))
		}
	}
	return nil
}

// read sets the field of a parameter.
func (p *param) read(in reflect.Value, r *http.Request, query url.Values) error {
	var texts []string
	switch p.in {
	case "path":
		texts = []string{r.PathValue(p.name)}
	case "query":
		texts = query[p.name]
	default:
		texts = r.Header.Values(p.name)
	}
	if texts == nil && p.initial != "" {
		texts = []string{p.initial}
	}
	if texts == nil && p.required {
		return problemf(http.StatusBadRequest, "the query must have %s", p.name)
	}
	if texts == nil {
		return nil
	}
	if err := p.set(in.FieldByIndex(p.index), texts); err != nil {
		return problemf(http.StatusBadRequest, "%s %v", p.name, err)
	}
	return nil
}

// setter returns a function that sets a field of a request.
func setter(f reflect.StructField) func(field reflect.Value, texts []string) error {
	t := f.Type
	if reflect.PointerTo(t).Implements(reflect.TypeFor[textParser]()) {
		return func(field reflect.Value, texts []string) error {
			return field.Addr().Interface().(textParser).parse(texts[0])
		}
	}
	switch {
	case t.Kind() == reflect.String, t == reflect.TypeFor[*string]():
		return textSetter(f)
	case t.Kind() == reflect.Int, t == reflect.TypeFor[*int]():
		return intSetter(f)
	case t.Kind() == reflect.Bool:
		return setBool
	case t.ConvertibleTo(reflect.TypeFor[[]string]()):
		return func(field reflect.Value, texts []string) error {
			field.Set(reflect.ValueOf(texts).Convert(t))
			return nil
		}
	default:
		panic(fmt.Sprintf("server: no parameter can be a %v", t))
	}
}

func textSetter(f reflect.StructField) func(field reflect.Value, texts []string) error {
	var allowed []string
	if list := f.Tag.Get("enum"); list != "" && f.Tag.Get("path") == "" { // an unknown path is a 404
		allowed = strings.Split(list, ",")
	}
	return func(field reflect.Value, texts []string) error {
		text := texts[0]
		if allowed != nil && text == "" {
			text = f.Tag.Get("default")
		}
		if allowed != nil && text != "" && !slices.Contains(allowed, text) {
			return fmt.Errorf("must be %s, not %q", oneOf(allowed), shorten(text, 32))
		}
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.ValueOf(&text))
			return nil
		}
		field.SetString(text)
		return nil
	}
}

func setBool(field reflect.Value, texts []string) error {
	switch texts[0] {
	case "true", "false", "":
		field.SetBool(texts[0] == "true")
		return nil
	default:
		return fmt.Errorf("must be true or false, not %q", shorten(texts[0], 32))
	}
}

func intSetter(f reflect.StructField) func(field reflect.Value, texts []string) error {
	least, err := strconv.Atoi(f.Tag.Get("minimum"))
	most, err2 := strconv.Atoi(f.Tag.Get("maximum"))
	if err != nil || err2 != nil {
		panic(fmt.Sprintf("server: parameter %s needs a minimum and a maximum", f.Name))
	}
	return func(field reflect.Value, texts []string) error {
		n, err := strconv.Atoi(texts[0])
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be an integer from %d to %d, not %q", least, most, shorten(texts[0], 32))
		}
		if field.Kind() == reflect.Pointer {
			field.Set(reflect.ValueOf(&n))
			return nil
		}
		field.SetInt(int64(n))
		return nil
	}
}

// oneOf joins words as in a sentence: a, b or c.
func oneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
