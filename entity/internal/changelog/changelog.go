// Package changelog defines the form of the change log that the stores share: the record of one
// commit, from which streams resume.
package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/value"
)

// A row holds the changes of one commit:
//
//	version   byte, 7
//	ids       uvarint count, each: uvarint length, bytes
//	names     the same: of keys, paths, types and sources
//	changes   each: byte what and flags, uvarint index of the id, varint ts minus the
//	          ts before, with the flags 16 (it arrived without a time), 32 uvarint the
//	          device's number, 64 eight bytes token of its delivery, 128 (it made the entity), and
//	  reading   (0) uvarint sequence of the reading, uvarint count of values, each:
//	            uvarint index of the key, value
//	  computed  (1) uvarint index of the source, uvarint its sequence, as 0
//	  edit      (2) uvarint revision, byte of flags, uvarint index of the source and
//	            uvarint its sequence if computed, uvarint index of the type if set, uvarint count of attributes, each: byte section, uvarint index
//	            of the path, varint ts, value; uvarint count of relations, each:
//	            byte 1 for removed, uvarint index of the type, uvarint length and
//	            bytes of the target, value
//	  command   (3) the command, see AppendCommand
//	  presence  (4) uvarint bits of the state, varint since, varint last seen
//
// A value is a byte for its kind and 8 bytes (float), varint (int), byte (bool), uvarint length and
// bytes (string, JSON), or nothing (none). In version 6 edits had no source, and no reading said
// that it made the entity. Version 5 had no presences, version 4 no commands, and version 3 no
// flags; in version 2 the sequence of the reading was missing; in version 1 all changes were
// readings, and the byte what was missing as well.
//
// A row contains each id and name once, so that reading it needs no other table, and a commit of
// one entity does not repeat its name.
const format = 7

// What a change is.
const (
	aReading byte = iota
	aComputed
	anEdit
	aCommand
	aPresence
)

// Flags of what a change is.
const (
	flagArrived = 16 << iota
	flagNumber
	flagOnce
	flagMade    // since version 7
	flagsOfWhat = flagArrived | flagNumber | flagOnce | flagMade
)

// Flags of an edit.
const (
	flagCreated = 1 << iota
	flagDeleted
	flagTyped
	flagComputed // since version 7
)

// ErrDamaged says that a row is not as Append wrote it.
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
		case r.Command != nil:
			what = aCommand
		case r.Presence != nil:
			what = aPresence
		case !r.Origin.IsZero():
			what = aComputed
		}
		w.body = append(w.body, what|flagsOf(r))
		w.uvarint(uint64(r.Entity))
		w.body = binary.AppendVarint(w.body, r.TS-before)
		before = r.TS
		if r.Number != 0 {
			w.uvarint(r.Number)
		}
		if r.Once != 0 {
			w.body = binary.LittleEndian.AppendUint64(w.body, r.Once)
		}
		if what == anEdit {
			w.edit(r.Edit, r.Origin)
			continue
		}
		if what == aCommand {
			w.body = AppendCommand(w.body, r.Command)
			continue
		}
		if what == aPresence {
			w.presence(r.Presence)
			continue
		}
		if what == aComputed {
			w.name(r.Origin.Source)
			w.uvarint(r.Origin.Seq)
		}
		w.uvarint(r.Seq)
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

func flagsOf(r *entity.Record) (flags byte) {
	if r.Arrived {
		flags |= flagArrived
	}
	if r.Number != 0 {
		flags |= flagNumber
	}
	if r.Once != 0 {
		flags |= flagOnce
	}
	if r.Created {
		flags |= flagMade
	}
	return flags
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

func (w *logWriter) edit(e *entity.Edit, from entity.Origin) {
	var flags byte
	for flag, set := range map[byte]bool{flagCreated: e.Created, flagDeleted: e.Deleted, flagTyped: e.Typed, flagComputed: !from.IsZero()} {
		if set {
			flags |= flag
		}
	}
	w.uvarint(e.Revision)
	w.body = append(w.body, flags)
	if !from.IsZero() {
		w.name(from.Source)
		w.uvarint(from.Seq)
	}
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

func (w *logWriter) presence(p *entity.Presence) {
	w.uvarint(uint64(p.Bits())) //nolint:gosec // three bits
	w.body = binary.AppendVarint(binary.AppendVarint(w.body, p.Since), p.Seen)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendValue(dst []byte, v value.Value) []byte {
	dst = append(dst, byte(v.Kind()))
	switch v.Kind() {
	case value.KindFloat:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case value.KindInt:
		return binary.AppendVarint(dst, v.Int())
	case value.KindBool:
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

// Decode calls yield for each of the n changes of a row, the first of which has the sequence first,
// until it returns false. seq is the entity's own sequence of a reading, 0 where the row is of an
// older version. It returns ErrDamaged for anything that Append has not written, and does not
// retain data.
func Decode(data []byte, first uint64, n, committed int64, yield func(c entity.LoggedChange, seq uint64) bool) error {
	d := decoder{Reader: wire.Reader{Data: data}}
	if d.version = d.Byte(); d.version < 1 || d.version > format {
		return fmt.Errorf("%w: format %d", ErrDamaged, d.version)
	}
	d.ids, d.names = d.texts(), d.texts()
	for i := range uint64(max(0, n)) {
		c := entity.LoggedChange{Seq: first + i, Committed: committed}
		seq := d.change(&c)
		if d.Failed {
			return ErrDamaged
		}
		if !yield(c, seq) {
			return nil
		}
	}
	if len(d.Data) > 0 {
		return ErrDamaged
	}
	return nil
}

// pageBytes is the size at which a page ends: each stream that resumes has one.
const pageBytes = 512 << 10

// Page returns changes after a sequence, up to limit or pageBytes: the part of Changes that the
// stores share. read calls row with the rows of the log in order, beginning with the one that has
// the next change, and starts over if it has to read again; an error of row ends it.
func Page(info entity.StoreInfo, after uint64, limit int, read func(row func(data []byte, first uint64, n, committed int64) error) error) (list []entity.LoggedChange, err error) {
	if after > info.LastChange || after+1 < info.FirstChange {
		return nil, fmt.Errorf("changes after %d, with %d to %d in the log: %w", after, info.FirstChange, info.LastChange, entity.ErrCursorExpired)
	}
	if after == info.LastChange {
		return nil, nil
	}
	bytes := 0
	full := func() bool { return len(list) == limit || bytes >= pageBytes }
	err = read(func(data []byte, first uint64, n, committed int64) error {
		if full() {
			return errFull
		}
		return Decode(data, first, n, committed, func(c entity.LoggedChange, _ uint64) bool {
			if c.Seq == after+1 {
				list, bytes = nil, 0 // read again
			}
			if c.Seq > after {
				list = append(list, c)
				bytes += c.Bytes()
			}
			return !full()
		})
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	if err == nil && (len(list) == 0 || list[0].Seq != after+1) { // the log was shortened meanwhile
		err = entity.ErrCursorExpired
	}
	if err != nil {
		return nil, fmt.Errorf("changes after %d: %w", after, err)
	}
	return list, nil
}

// errFull ends the reading of a page.
var errFull = errors.New("page is full")

// change reads the next change and returns the sequence of a reading.
func (d *decoder) change(c *entity.LoggedChange) (seq uint64) {
	what := aReading
	if d.version > 1 {
		what = d.Byte()
	}
	c.Entity = d.pick(d.ids)
	d.ts += d.Varint()
	c.TS = d.ts
	if d.version > 3 {
		c.Arrived, c.Created = what&flagArrived != 0, what&flagMade != 0
		if what&flagNumber != 0 {
			c.Number = d.Uvarint()
		}
		if what&flagOnce != 0 {
			c.Once = d.Uint64()
		}
		what &^= flagsOfWhat
	}
	switch what {
	case anEdit:
		c.Edit, c.Origin = d.edit(c.Entity, d.names)
		return 0
	case aCommand:
		if d.version < 5 {
			d.Fail()
		}
		c.Command = d.command(c.Entity)
		return 0
	case aPresence:
		if d.version < 6 {
			d.Fail()
		}
		c.Presence = d.presence()
		return 0
	case aComputed:
		c.Origin = entity.Origin{Source: d.pick(d.names), Seq: d.Uvarint()}
	case aReading:
	default:
		d.Fail()
	}
	if d.version > 2 {
		seq = d.Uvarint()
	}
	c.Values = d.samples(d.names)
	return seq
}

func (d *decoder) samples(names []string) []entity.Sample {
	values := make([]entity.Sample, d.Count())
	for j := range values {
		values[j] = entity.Sample{Key: d.pick(names), Value: d.value()}
		if values[j].Value.Kind() == 0 {
			d.Fail()
		}
	}
	return values
}

func (d *decoder) edit(id string, names []string) (*entity.Edit, entity.Origin) {
	e := &entity.Edit{Revision: d.Uvarint()}
	flags := d.Byte()
	e.Created, e.Deleted, e.Typed = flags&flagCreated != 0, flags&flagDeleted != 0, flags&flagTyped != 0
	var from entity.Origin
	if d.version > 6 && flags&flagComputed != 0 {
		from = entity.Origin{Source: d.pick(names), Seq: d.Uvarint()}
	}
	if e.Typed {
		e.Type = d.pick(names)
	}
	if n := d.Count(); n > 0 {
		e.Attributes = make([]entity.AttributeEdit, n)
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		a.Section, a.Path, a.TS, a.Value = entity.Section(d.Byte()), d.pick(names), d.Varint(), d.value()
	}
	if n := d.Count(); n > 0 {
		e.Relations = make([]entity.RelationEdit, n)
	}
	for i := range e.Relations {
		r := &e.Relations[i]
		r.Removed = d.Byte() != 0
		r.Relation = entity.Relation{From: id, Type: d.pick(names), To: d.Text(), Properties: d.value()}
	}
	return e, from
}

func (d *decoder) presence() *entity.Presence {
	bits := d.Uvarint()
	if bits > 7 || bits&3 > uint64(entity.PresenceOffline) {
		d.Fail()
	}
	p := entity.PresenceOfBits(int64(bits&7), d.Varint(), d.Varint())
	return &p
}

// decoder reads a row; after a mistake it has failed and returns zeros.
type decoder struct {
	wire.Reader
	version    byte
	ids, names []string
	ts         int64 // of the change before
}

func (d *decoder) texts() []string {
	list := make([]string, d.Count())
	for i := range list {
		list[i] = d.Text()
	}
	return list
}

func (d *decoder) pick(list []string) string {
	i := d.Uvarint()
	if i >= uint64(len(list)) {
		d.Fail()
		return ""
	}
	return list[i]
}

func (d *decoder) value() value.Value {
	switch value.Kind(d.Byte()) {
	case 0:
		return value.Value{}
	case value.KindFloat:
		return value.Float(math.Float64frombits(d.Uint64()))
	case value.KindInt:
		return value.Int(d.Varint())
	case value.KindBool:
		return value.Bool(d.Byte() != 0)
	case value.KindString:
		return value.String(d.Text())
	case value.KindJSON:
		return entity.ParseJSON([]byte(d.Text()))
	default:
		d.Fail()
		return value.Value{}
	}
}
