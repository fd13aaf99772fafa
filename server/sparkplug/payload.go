package sparkplug

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// dataType is the type of a metric.
type dataType uint32

// Types whose values need a conversion from their field in the payload.
const (
	typeInt8     dataType = 1
	typeInt16    dataType = 2
	typeInt32    dataType = 3
	typeInt64    dataType = 4
	typeBool     dataType = 11
	typeDateTime dataType = 13
)

// metric is one value of a payload.
type metric struct {
	name      string
	alias     uint64
	hasAlias  bool
	timestamp uint64
	hasTime   bool
	datatype  dataType
	null      bool
	kind      protowire.Number // of the field with the value; 0 if there is none
	bits      uint64           // of a number or a bool
	text      []byte           // of a string or bytes
}

// payload is a decoded Sparkplug payload.
type payload struct {
	timestamp uint64
	seq       uint64
	hasSeq    bool
	metrics   []metric
	uuid      string
	body      []byte
}

// compressed is the uuid of a payload whose body is another payload, compressed with DEFLATE or
// with the algorithm named by its metric algorithm.
const compressed = "SPBV1.0_COMPRESSED"

// maxMetrics bounds the metrics of one message.
const maxMetrics = 10_000

// Fields of a payload.
const (
	fieldTimestamp protowire.Number = 1
	fieldMetrics   protowire.Number = 2
	fieldSeq       protowire.Number = 3
	fieldUUID      protowire.Number = 4
	fieldBody      protowire.Number = 5
)

// Fields of a metric.
const (
	fieldName       protowire.Number = 1
	fieldAlias      protowire.Number = 2
	fieldMetricTime protowire.Number = 3
	fieldDatatype   protowire.Number = 4
	fieldNull       protowire.Number = 7
	fieldInt        protowire.Number = 10
	fieldLong       protowire.Number = 11
	fieldFloat      protowire.Number = 12
	fieldDouble     protowire.Number = 13
	fieldBool       protowire.Number = 14
	fieldString     protowire.Number = 15
	fieldBytes      protowire.Number = 16
	fieldDataSet    protowire.Number = 17
	fieldTemplate   protowire.Number = 18
	fieldExtension  protowire.Number = 19
)

// decode decodes a payload, which may be compressed. The result may alias data.
func decode(data []byte) (payload, error) {
	p, err := decodePlain(data)
	if err != nil || p.uuid != compressed {
		return p, err
	}
	if data, err = p.inflate(); err != nil {
		return p, err
	}
	return decodePlain(data)
}

// inflate decompresses the body.
func (p *payload) inflate() ([]byte, error) {
	algorithm := "DEFLATE"
	for i := range p.metrics {
		if p.metrics[i].name == "algorithm" {
			algorithm = strings.ToUpper(string(p.metrics[i].text))
		}
	}
	var r io.Reader
	var err error
	switch algorithm {
	case "DEFLATE":
		r, err = zlib.NewReader(bytes.NewReader(p.body))
	case "GZIP":
		r, err = gzip.NewReader(bytes.NewReader(p.body))
	default:
		return nil, fmt.Errorf("%w: algorithm must be DEFLATE or GZIP, not %.32q", entity.ErrInvalid, algorithm)
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(r, entity.MaxPayloadBytes+1))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the body is not compressed with %s: %w", entity.ErrInvalid, algorithm, err)
	case len(data) > entity.MaxPayloadBytes:
		return nil, fmt.Errorf("%w: more than %d bytes when it is uncompressed", entity.ErrInvalid, entity.MaxPayloadBytes)
	}
	return data, nil
}

// decodePlain decodes a payload without decompression.
func decodePlain(data []byte) (p payload, err error) {
	err = eachField(data, func(number protowire.Number, bits uint64, text []byte) error {
		switch number {
		case fieldTimestamp:
			p.timestamp = bits
		case fieldSeq:
			p.seq, p.hasSeq = bits, true
		case fieldUUID:
			p.uuid = string(text)
		case fieldBody:
			p.body = text
		case fieldMetrics:
			if len(p.metrics) == maxMetrics {
				return fmt.Errorf("%w: more than %d metrics in one payload", entity.ErrInvalid, maxMetrics)
			}
			m, err := decodeMetric(text)
			if err != nil {
				return err
			}
			p.metrics = append(p.metrics, m)
		default: // a field of a later version
		}
		return nil
	})
	return p, err
}

func decodeMetric(data []byte) (m metric, err error) {
	err = eachField(data, func(number protowire.Number, bits uint64, text []byte) error {
		switch number {
		case fieldName:
			m.name = string(text)
		case fieldAlias:
			m.alias, m.hasAlias = bits, true
		case fieldMetricTime:
			m.timestamp, m.hasTime = bits, true
		case fieldDatatype:
			m.datatype = dataType(bits) //nolint:gosec // what is not a type is none of those above either
		case fieldNull:
			m.null = bits != 0
		case fieldInt, fieldLong, fieldFloat, fieldDouble, fieldBool, fieldString, fieldBytes, fieldDataSet, fieldTemplate, fieldExtension:
			m.kind, m.bits, m.text = number, bits, text
		default: // properties, metadata, or a field of a later version
		}
		return nil
	})
	return m, err
}

// eachField calls f for each field of a Protobuf message: with the bits of a number, or with the
// bytes of anything else.
func eachField(data []byte, f func(number protowire.Number, bits uint64, text []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return malformed(n)
		}
		data = data[n:]
		var bits uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(data)
			bits = uint64(short)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(data)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return malformed(n)
		}
		if err := f(number, bits, text); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func malformed(n int) error {
	return fmt.Errorf("%w: not a payload of Sparkplug B: %w", entity.ErrInvalid, protowire.ParseError(n))
}

// value returns the value of a metric, and whether it has one. The error says why a value cannot be
// kept.
func (m *metric) value() (v value.Value, ok bool, err error) {
	if m.null || m.kind == 0 {
		return v, false, nil
	}
	switch m.kind {
	case fieldInt:
		return value.Int(m.small()), true, nil
	case fieldLong:
		return m.long(), true, nil
	case fieldFloat:
		return number(float64(math.Float32frombits(uint32(m.bits)))) //nolint:gosec // it has 32 bits
	case fieldDouble:
		return number(math.Float64frombits(m.bits))
	case fieldBool:
		return value.Bool(m.bits != 0), true, nil
	case fieldString:
		return value.String(string(m.text)), true, nil
	case fieldBytes:
		return value.String(base64.StdEncoding.EncodeToString(m.text)), true, nil
	default:
		return v, false, fmt.Errorf("%w: metric %.64q: data sets and templates are not supported", entity.ErrInvalid, m.name)
	}
}

// small returns an integer of at most 32 bits, which the payload encodes as unsigned.
func (m *metric) small() int64 {
	switch m.datatype {
	case typeInt8:
		return int64(int8(m.bits)) //nolint:gosec // two's complement is meant
	case typeInt16:
		return int64(int16(m.bits)) //nolint:gosec // as above
	case typeInt32:
		return int64(int32(m.bits)) //nolint:gosec // as above
	default:
		return int64(uint32(m.bits)) //nolint:gosec // as above
	}
}

// long returns an integer of 64 bits. An unsigned integer beyond int64 becomes a float.
func (m *metric) long() value.Value {
	if m.datatype != typeInt64 && m.datatype != typeDateTime && m.bits > math.MaxInt64 {
		return value.Float(float64(m.bits))
	}
	return value.Int(int64(m.bits)) //nolint:gosec // two's complement is meant
}

func number(f float64) (value.Value, bool, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) { // not a measurement
		return value.Value{}, false, nil
	}
	return value.Float(f), true, nil
}
