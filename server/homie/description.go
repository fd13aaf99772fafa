package homie

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
)

const (
	// MaxDescriptions bounds the descriptions of devices in memory. Others are read from their
	// entities when needed.
	MaxDescriptions = 10_000
	// MaxDescriptionBytes bounds the total size of the descriptions in memory.
	MaxDescriptionBytes = 32 << 20
	// propertyBytes is the approximate size of a property without its name.
	propertyBytes = 96
)

// Datatypes of properties.
const (
	typeInteger = "integer"
	typeFloat   = "float"
	typeBoolean = "boolean"
	typeJSON    = "json"
)

// otherTypes are the types whose values are strings.
var otherTypes = map[string]bool{"string": true, "enum": true, "color": true, "datetime": true, "duration": true}

// description contains what a device says about its properties.
type description struct {
	text       string // the message; "" if it was read from the entity
	properties map[string]property
	bytes      int
}

// property describes a property.
type property struct {
	datatype string
	fleeting bool // its values are events, which are not retained
}

// descriptionJSON is the payload of a description.
type descriptionJSON struct {
	Homie string
	Nodes map[string]struct {
		Properties map[string]struct {
			Datatype string
			Retained *bool
		}
	}
}

// describe parses a description.
func describe(payload []byte) (*description, error) {
	var in descriptionJSON
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, fmt.Errorf("%w: $description: %w", entity.ErrInvalid, err)
	}
	if major, _, _ := strings.Cut(in.Homie, "."); major != "5" {
		return nil, fmt.Errorf(`%w: $description: homie must be "5.0", not %.16q`, entity.ErrInvalid, in.Homie)
	}
	d := newDescription(string(payload))
	for node, n := range in.Nodes {
		for name, p := range n.Properties {
			if err := d.put(node, name, property{datatype: p.Datatype, fleeting: p.Retained != nil && !*p.Retained}); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

func newDescription(text string) *description {
	return &description{text: text, properties: map[string]property{}, bytes: propertyBytes + len(text)}
}

func (d *description) put(node, name string, p property) error {
	if !isID(node) || !isID(name) {
		return fmt.Errorf("%w: $description: the ids of nodes and properties must have the letters a to z, digits and - only, not %.64q and %.64q", entity.ErrInvalid, node, name)
	}
	switch {
	case otherTypes[p.datatype]:
		p.datatype = "string"
	case p.datatype != typeInteger && p.datatype != typeFloat && p.datatype != typeBoolean && p.datatype != typeJSON:
		return fmt.Errorf("%w: $description: the datatype of %s/%s must be one of integer, float, boolean, string, enum, color, datetime, duration, json, not %.64q", entity.ErrInvalid, node, name, p.datatype)
	}
	key := node + "." + name
	d.properties[key] = p
	d.bytes += len(key) + propertyBytes
	return nil
}

// zero is the payload of an empty string: an empty payload would clear the retained message.
const zero = "\x00"

var errValue = errors.New("must be a value of its datatype")

// literal returns a value as JSON. Without a description, the payload decides: a number, true or
// false, or a string.
func (p *property) literal(payload string) ([]byte, error) {
	var v value.Value
	switch p.datatype {
	case typeInteger:
		n, err := strconv.ParseInt(payload, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w, an integer, not %.64q", errValue, payload)
		}
		v = value.Int(n)
	case typeFloat:
		n, err := strconv.ParseFloat(payload, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return nil, fmt.Errorf("%w, a number, not %.64q", errValue, payload)
		}
		v = value.Float(n)
	case typeBoolean:
		if payload != "true" && payload != "false" {
			return nil, fmt.Errorf("%w, true or false, not %.64q", errValue, payload)
		}
		v = value.Bool(payload == "true")
	case typeJSON:
		if !isDocument(payload) {
			return nil, fmt.Errorf("%w, a JSON object or array, not %.64q", errValue, payload)
		}
		return []byte(payload), nil
	case "":
		guess, ok := value.FromJSON(payload)
		if v = guess; !ok || !v.IsNumber() && v.Kind() != value.KindBool || !json.Valid([]byte(payload)) {
			v = text(payload)
		}
	default:
		v = text(payload)
	}
	return v.AppendJSON(nil), nil
}

func text(payload string) value.Value {
	if payload == zero {
		payload = ""
	}
	return value.String(payload)
}

func isDocument(doc string) bool {
	doc = strings.TrimLeft(doc, " \t\r\n")
	return doc != "" && (doc[0] == '{' || doc[0] == '[') && json.Valid([]byte(doc))
}

// descriptions holds the descriptions in memory. The zero value is ready to use.
type descriptions struct {
	mu    sync.Mutex
	of    map[string]*description // guarded by mu; by device
	bytes int                     // guarded by mu; the total size
}

// put stores a description.
func (d *descriptions) put(id string, x *description) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(id)
	if len(d.of) >= MaxDescriptions || d.bytes+x.bytes > MaxDescriptionBytes { // they are read again when needed
		d.of, d.bytes = nil, 0
	}
	if d.of == nil {
		d.of = map[string]*description{}
	}
	if x.bytes <= MaxDescriptionBytes {
		d.of[id] = x
		d.bytes += x.bytes
	}
}

// drop removes the description of a device.
func (d *descriptions) drop(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(id)
}

// remove is like drop. The caller holds mu.
func (d *descriptions) remove(id string) {
	if was := d.of[id]; was != nil {
		delete(d.of, id)
		d.bytes -= was.bytes
	}
}

func (d *descriptions) find(id string) *description {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[id]
}

// propertyOf returns what a device has said about a property; its datatype is "" if it has said
// nothing.
func (l *Layout) propertyOf(id, name string) (property, error) {
	d := l.descriptions.find(id)
	if d == nil {
		d = newDescription("")
		err := l.host.Runtime.View(l.host.Running, id, func(v entity.View) error {
			for a := range v.EachAttribute(entity.Reported) {
				d.note(a)
			}
			return nil
		})
		if err != nil && !errors.Is(err, entity.ErrNotFound) {
			return property{}, err
		}
		l.descriptions.put(id, d)
	}
	return d.properties[name], nil
}

// note adds a leaf of the section reported.
func (d *description) note(a entity.Attribute) {
	rest, ok := strings.CutPrefix(a.Path, "/homie/description/nodes/")
	if !ok {
		return
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 4 || parts[1] != "properties" {
		return
	}
	p := d.properties[parts[0]+"."+parts[2]]
	switch parts[3] {
	case "datatype":
		p.datatype = a.Value.Text()
	case "retained":
		p.fleeting = a.Value.Kind() == value.KindBool && !a.Value.Bool()
	default:
		return
	}
	if p.datatype == "" { // the leaf with the datatype follows
		d.properties[parts[0]+"."+parts[2]] = p
		return
	}
	_ = d.put(parts[0], parts[2], p) // it was checked on arrival
}

var _ layout.Layout = (*Layout)(nil)
