package wire

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestReaderReadsWhatWasWritten(t *testing.T) {
	data := binary.AppendUvarint([]byte{7}, math.MaxUint64)
	data = binary.AppendVarint(data, math.MinInt64)
	data = binary.LittleEndian.AppendUint64(data, 1<<63+5)
	data = append(binary.AppendUvarint(data, 2), "hé"[:2]...)
	r := Reader{Data: data}
	if b, u, v, w, s := r.Byte(), r.Uvarint(), r.Varint(), r.Uint64(), r.Text(); b != 7 || u != math.MaxUint64 || v != math.MinInt64 || w != 1<<63+5 || s != "hé"[:2] {
		t.Errorf("%d %d %d %d %q", b, u, v, w, s)
	}
	if r.Failed || len(r.Data) != 0 {
		t.Errorf("failed %v, %d bytes are left", r.Failed, len(r.Data))
	}
}

func TestReaderFailsOnceAndStaysSo(t *testing.T) {
	for name, read := range map[string]func(*Reader) bool{
		"byte":    func(r *Reader) bool { return r.Byte() == 0 },
		"uvarint": func(r *Reader) bool { return r.Uvarint() == 0 },
		"varint":  func(r *Reader) bool { return r.Varint() == 0 },
		"uint64":  func(r *Reader) bool { return r.Uint64() == 0 },
		"count":   func(r *Reader) bool { return r.Count() == 0 },
		"text":    func(r *Reader) bool { return r.Text() == "" },
	} {
		r := Reader{}
		if !read(&r) || !r.Failed {
			t.Errorf("%s of nothing: failed %v", name, r.Failed)
		}
	}
	r := Reader{Data: []byte{9, 'a', 'b'}} // nine bytes, of which two are there
	if s := r.Text(); s != "" || !r.Failed || r.Byte() != 0 || r.Data != nil {
		t.Errorf("text %q, %+v", s, r)
	}
	for _, long := range [][]byte{{0x80}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}} { // it ends too early; more than 64 bits
		if r := (Reader{Data: long}); r.Uvarint() != 0 || !r.Failed {
			t.Errorf("% x: %+v", long, r)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, []byte("buvwct"))
	f.Fuzz(func(t *testing.T, data, steps []byte) {
		r := Reader{Data: data}
		for _, step := range steps {
			before := len(r.Data)
			switch step {
			case 'b':
				r.Byte()
			case 'u':
				r.Uvarint()
			case 'v':
				r.Varint()
			case 'w':
				r.Uint64()
			case 'c':
				if n := r.Count(); n > len(r.Data) {
					t.Fatalf("count %d of %d bytes", n, len(r.Data))
				}
			default:
				r.Text()
			}
			if len(r.Data) >= before && !r.Failed || r.Failed && len(r.Data) > 0 {
				t.Fatalf("%c: %d bytes, then %d, failed %v", step, before, len(r.Data), r.Failed)
			}
		}
	})
}
