// Package changelog is the form of the change log that the stores share: what they
// keep of one commit, from which streams resume.
package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/entity"
)

// A row holds the changes of one commit:
//
//	version   byte, 2
//	ids       uvarint count, each: uvarint length, bytes
//	names     the same: of keys, paths, types and sources
//	changes   each: byte what, uvarint index of the id, varint ts minus the ts
//	          before, and
//	  reading   (0) uvarint count of values, each: uvarint index of the key, value
//	  computed  (1) uvarint index of the source, uvarint its sequence, as 0
//	  edit      (2) uvarint revision, byte of flags, uvarint index of the type if
//	            set, uvarint count of attributes, each: byte section, uvarint index
//	            of the path, varint ts, value; uvarint count of relations, each:
//	            byte 1 for removed, uvarint index of the type, uvarint length and
//	            bytes of the target, value
//
// A value is a byte for its kind and 8 bytes (float), varint (int), byte (bool),
// uvarint length and bytes (string, JSON), or nothing (none). In version 1 all
// changes were readings, and the byte what was missing.
//
// A row names ids and names itself, once each, so that reading it needs no other
// table, and a commit of one entity is not full of its name.
const format = 2

// What a change is.
const (
	aReading byte = iota
	aComputed
	anEdit
)

// Flags of an edit.
const (
	flagCreated = 1 << iota
	flagDeleted
	flagTyped
)

// ErrDamaged says that a row was not written by Append.
var ErrDamaged = errors.New("change log row is damaged")

// logWriter writes a row.
type logWriter struct {
	names map[string]uint64
	list  []string
	body  []byte
}

// Append appends the row of a batch to dst. It keeps nothing of the batch.
func Append(dst []byte, b *entity.Batch) []byte {
	w := logWriter{names: make(map[string]uint64)}
	var before int64
	for i := range b.Records {
		r := &b.Records[i]
		what := aReading
		switch {
		case r.Edit != nil:
			what = anEdit
		case !r.Origin.IsZero():
			what = aComputed
		}
		w.body = append(w.body, what)
		w.uvarint(uint64(r.Entity))
		w.body = binary.AppendVarint(w.body, r.TS-before)
		before = r.TS
		if what == anEdit {
			w.edit(r.Edit)
			continue
		}
		if what == aComputed {
			w.name(r.Origin.Source)
			w.uvarint(r.Origin.Seq)
		}
		w.uvarint(uint64(len(r.Values)))
		for j := range r.Values {
			w.name(r.Values[j].Key)
			w.body = appendValue(w.body, r.Values[j].Value)
		}
	}
	dst = append(dst, format)
	dst = binary.AppendUvarint(dst, uint64(len(b.Entities)))
	for i := range b.Entities {
		dst = appendText(dst, b.Entities[i].ID)
	}
	dst = binary.AppendUvarint(dst, uint64(len(w.list)))
	for _, name := range w.list {
		dst = appendText(dst, name)
	}
	return append(dst, w.body...)
}

func (w *logWriter) uvarint(n uint64) { w.body = binary.AppendUvarint(w.body, n) }

func (w *logWriter) name(s string) {
	n, ok := w.names[s]
	if !ok {
		n = uint64(len(w.list))
		w.names[s] = n
		w.list = append(w.list, s)
	}
	w.uvarint(n)
}

func (w *logWriter) edit(e *entity.Edit) {
	var flags byte
	for flag, set := range map[byte]bool{flagCreated: e.Created, flagDeleted: e.Deleted, flagTyped: e.Typed} {
		if set {
			flags |= flag
		}
	}
	w.uvarint(e.Revision)
	w.body = append(w.body, flags)
	if e.Typed {
		w.name(e.Type)
	}
	w.uvarint(uint64(len(e.Attributes)))
	for i := range e.Attributes {
		a := &e.Attributes[i]
		w.body = append(w.body, byte(a.Section))
		w.name(a.Path)
		w.body = binary.AppendVarint(w.body, a.TS)
		w.body = appendValue(w.body, a.Value)
	}
	w.uvarint(uint64(len(e.Relations)))
	for i := range e.Relations {
		r := &e.Relations[i]
		removed := byte(0)
		if r.Removed {
			removed = 1
		}
		w.body = append(w.body, removed)
		w.name(r.Type)
		w.body = appendText(w.body, r.To)
		w.body = appendValue(w.body, r.Properties)
	}
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendValue(dst []byte, v entity.Value) []byte {
	dst = append(dst, byte(v.Kind()))
	switch v.Kind() {
	case entity.KindFloat:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case entity.KindInt:
		return binary.AppendVarint(dst, v.Int())
	case entity.KindBool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case 0:
		return dst
	default:
		return appendText(dst, v.Text())
	}
}

// Decode calls yield for each of the n changes of a row, the first of which has
// the sequence first, until it returns false. It returns ErrDamaged for anything
// else than what Append has written, and keeps nothing of data.
func Decode(data []byte, first uint64, n, committed int64, yield func(entity.LoggedChange) bool) error {
	d := decoder{data: data}
	version := d.byte()
	if version < 1 || version > format {
		return fmt.Errorf("%w: format %d", ErrDamaged, version)
	}
	ids, names := d.texts(), d.texts()
	var before int64
	for i := range uint64(max(0, n)) {
		what := aReading
		if version > 1 {
			what = d.byte()
		}
		c := entity.LoggedChange{Seq: first + i, Entity: d.pick(ids), Committed: committed}
		c.TS = before + d.varint()
		before = c.TS
		switch what {
		case anEdit:
			c.Edit = d.edit(c.Entity, names)
		case aComputed:
			c.Origin = entity.Origin{Source: d.pick(names), Seq: d.uvarint()}
			c.Values = d.samples(names)
		case aReading:
			c.Values = d.samples(names)
		default:
			d.fail()
		}
		if d.failed {
			return ErrDamaged
		}
		if !yield(c) {
			return nil
		}
	}
	if len(d.data) > 0 {
		return ErrDamaged
	}
	return nil
}

func (d *decoder) samples(names []string) []entity.Sample {
	values := make([]entity.Sample, d.count())
	for j := range values {
		values[j] = entity.Sample{Key: d.pick(names), Value: d.value()}
		if values[j].Value.Kind() == 0 {
			d.fail()
		}
	}
	return values
}

func (d *decoder) edit(id string, names []string) *entity.Edit {
	e := &entity.Edit{Revision: d.uvarint()}
	flags := d.byte()
	e.Created, e.Deleted, e.Typed = flags&flagCreated != 0, flags&flagDeleted != 0, flags&flagTyped != 0
	if e.Typed {
		e.Type = d.pick(names)
	}
	if n := d.count(); n > 0 {
		e.Attributes = make([]entity.AttributeEdit, n)
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		a.Section, a.Path, a.TS, a.Value = entity.Section(d.byte()), d.pick(names), d.varint(), d.value()
	}
	if n := d.count(); n > 0 {
		e.Relations = make([]entity.RelationEdit, n)
	}
	for i := range e.Relations {
		r := &e.Relations[i]
		r.Removed = d.byte() != 0
		r.Relation = entity.Relation{From: id, Type: d.pick(names), To: d.text(), Properties: d.value()}
	}
	return e
}

// decoder reads a row; after a mistake it has failed and returns zeros.
type decoder struct {
	data   []byte
	failed bool
}

func (d *decoder) fail() { d.data, d.failed = nil, true }

func (d *decoder) byte() byte {
	if len(d.data) == 0 {
		d.fail()
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.data = d.data[n:]
	return v
}

// count reads how many things follow, of at least a byte each.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.data)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.data[:n])
	d.data = d.data[n:]
	return s
}

func (d *decoder) texts() []string {
	list := make([]string, d.count())
	for i := range list {
		list[i] = d.text()
	}
	return list
}

func (d *decoder) pick(list []string) string {
	i := d.uvarint()
	if i >= uint64(len(list)) {
		d.fail()
		return ""
	}
	return list[i]
}

func (d *decoder) value() entity.Value {
	switch entity.Kind(d.byte()) {
	case 0:
		return entity.Value{}
	case entity.KindFloat:
		if len(d.data) < 8 {
			d.fail()
			return entity.Value{}
		}
		bits := binary.LittleEndian.Uint64(d.data)
		d.data = d.data[8:]
		return entity.Float(math.Float64frombits(bits))
	case entity.KindInt:
		return entity.Int(d.varint())
	case entity.KindBool:
		return entity.Bool(d.byte() != 0)
	case entity.KindString:
		return entity.String(d.text())
	case entity.KindJSON:
		return entity.JSON([]byte(d.text()))
	default:
		d.fail()
		return entity.Value{}
	}
}
