package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/entity"
)

// A row of the change log holds the changes of one commit:
//
//	version   byte, 1
//	ids       uvarint count, each: uvarint length, bytes
//	keys      the same
//	changes   each: uvarint index of the id, varint ts minus the ts before,
//	          uvarint count of values, each: uvarint index of the key, byte kind,
//	          8 bytes (float), varint (int), byte (bool) or uvarint length and
//	          bytes (string, JSON)
//
// It names ids and keys itself, once each, so that reading it needs no other
// table, and a commit of one entity is not full of its name.
const changeFormat = 1

var errDamaged = errors.New("change log row is damaged")

func appendChanges(dst []byte, b *entity.Batch) []byte {
	dst = append(dst, changeFormat)
	dst = binary.AppendUvarint(dst, uint64(len(b.Entities)))
	for i := range b.Entities {
		dst = appendText(dst, b.Entities[i].ID)
	}
	index := make(map[string]uint64)
	var keys []string
	for i := range b.Records {
		for j := range b.Records[i].Values {
			key := b.Records[i].Values[j].Key
			if _, ok := index[key]; !ok {
				index[key] = uint64(len(keys))
				keys = append(keys, key)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, key := range keys {
		dst = appendText(dst, key)
	}
	var before int64
	for i := range b.Records {
		r := &b.Records[i]
		dst = binary.AppendUvarint(dst, uint64(r.Entity))
		dst = binary.AppendVarint(dst, r.TS-before)
		before = r.TS
		dst = binary.AppendUvarint(dst, uint64(len(r.Values)))
		for j := range r.Values {
			dst = binary.AppendUvarint(dst, index[r.Values[j].Key])
			dst = appendValue(dst, r.Values[j].Value)
		}
	}
	return dst
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
	default:
		return appendText(dst, v.Text())
	}
}

// decodeChanges calls yield for each change of a row until it returns false.
func decodeChanges(data []byte, first uint64, n, committed int64, yield func(entity.LoggedChange) bool) error {
	d := decoder{data: data}
	if format := d.byte(); format != changeFormat {
		return fmt.Errorf("%w: format %d", errDamaged, format)
	}
	ids, keys := d.texts(), d.texts()
	var before int64
	for i := range uint64(n) {
		c := entity.LoggedChange{Seq: first + i, Entity: d.pick(ids), Committed: committed}
		c.TS = before + d.varint()
		before = c.TS
		c.Values = make([]entity.Sample, d.count())
		for j := range c.Values {
			c.Values[j] = entity.Sample{Key: d.pick(keys), Value: d.value()}
		}
		if d.failed {
			return errDamaged
		}
		if !yield(c) {
			return nil
		}
	}
	if len(d.data) > 0 {
		return errDamaged
	}
	return nil
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
