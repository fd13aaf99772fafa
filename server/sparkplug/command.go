package sparkplug

import (
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
)

// A command of an entity is sent to its edge node as NCMD or DCMD: its name is that of a metric,
// and its request is the value. Sparkplug has no answers. A command is therefore delivered when the
// edge node has acknowledged the message, and done when the edge node reports the metric with that
// value, in data or in a birth certificate.

// birth starts the delivery of commands to a client, for the edge node or device that has come
// online.
func (l *Layout) birth(c layout.Client, t *topic) error {
	to := *t
	return l.receivers.Join(c, t.id(), true, func(r *layout.Receiver, command *entity.Command, receipt *layout.Receipt) error {
		return l.send(r, &to, command, receipt)
	})
}

// send sends a command to its edge node.
func (l *Layout) send(r *layout.Receiver, t *topic, command *entity.Command, receipt *layout.Receipt) error {
	text, want, err := encodeCommand(command, l.edges.typeOf(t, command.Name))
	if err != nil { // this command fails, and others proceed
		receipt.Settled(err)
		return nil
	}
	l.receivers.Await(r, command, want)
	to := prefix + t.group + "/" + string(ncmd) + "/" + t.edge
	if t.device != "" {
		to = prefix + t.group + "/" + string(dcmd) + "/" + t.edge + "/" + t.device
	}
	return r.Client.Send(to, text, receipt)
}

// reported completes the commands whose values a message contains. After an error of the runtime,
// the message must come again.
func (l *Layout) reported(t *topic, p *payload) error {
	var byName map[string][]*metric // made where something waits
	return l.receivers.Reported(t.id(), func(name string, want value.Value) (value.Value, bool) {
		if byName == nil {
			byName = make(map[string][]*metric, len(p.metrics))
			for i := range p.metrics {
				m := &p.metrics[i]
				byName[m.name] = append(byName[m.name], m)
			}
		}
		born := name == rebirthName && t.kind == nbirth
		return want, born || slices.ContainsFunc(byName[name], func(m *metric) bool {
			v, has, err := m.value()
			return has && err == nil && value.Compare(v, want) == value.Equal
		})
	})
}

// Types of metrics that are only needed for commands.
const (
	typeUInt8  dataType = 5
	typeUInt16 dataType = 6
	typeUInt32 dataType = 7
	typeUInt64 dataType = 8
	typeFloat  dataType = 9
	typeDouble dataType = 10
	typeString dataType = 12
	typeText   dataType = 14
)

// encodeCommand returns a payload with one metric for a command. The type of the metric is that in
// the birth certificate, or else one for the value. It also returns the resulting value of the
// metric, which is true for a command without a request.
func encodeCommand(command *entity.Command, as dataType) ([]byte, value.Value, error) {
	v := command.Request
	if v.Kind() == 0 {
		v = value.Bool(true)
	}
	if as == 0 {
		as = map[value.Kind]dataType{value.KindBool: typeBool, value.KindInt: typeInt64, value.KindFloat: typeDouble, value.KindString: typeString}[v.Kind()]
	}
	m := metric{name: command.Name, datatype: as}
	fits := false
	switch as {
	case typeBool:
		m.kind, fits = fieldBool, v.Kind() == value.KindBool
		m.bits = protowire.EncodeBool(fits && v.Bool())
	case typeInt8, typeInt16, typeInt32, typeUInt8, typeUInt16, typeUInt32:
		m.kind, fits = fieldInt, v.Kind() == value.KindInt && within(as, v.Int())
		m.bits = uint64(uint32(v.Int())) //nolint:gosec // two's complement is meant
	case typeInt64, typeUInt64, typeDateTime:
		m.kind, fits = fieldLong, v.Kind() == value.KindInt && (as == typeInt64 || v.Int() >= 0)
		m.bits = uint64(v.Int()) //nolint:gosec // as above
	case typeFloat, typeDouble:
		m.kind, fits = fieldDouble, v.Kind() == value.KindInt || v.Kind() == value.KindFloat
		m.setFloat(v)
	case typeString, typeText:
		m.kind, fits = fieldString, v.Kind() == value.KindString
		m.text = []byte(v.Text())
	default:
	}
	if !fits {
		return nil, v, fmt.Errorf("%w: the request must be a value of the metric %.64q, which has the type %d of Sparkplug, not %.64s", entity.ErrInvalid, command.Name, as, v)
	}
	now := uint64(time.Now().UnixMilli()) //nolint:gosec // it is after 1970
	m.timestamp, m.hasTime = now, true
	want, _, err := m.value()
	return appendPayload(nil, now, &m), want, err
}

// within reports whether n is in the range of an integer type of at most 32 bits.
func within(as dataType, n int64) bool {
	switch as {
	case typeInt8:
		return n >= math.MinInt8 && n <= math.MaxInt8
	case typeInt16:
		return n >= math.MinInt16 && n <= math.MaxInt16
	case typeInt32:
		return n >= math.MinInt32 && n <= math.MaxInt32
	case typeUInt8:
		return n >= 0 && n <= math.MaxUint8
	case typeUInt16:
		return n >= 0 && n <= math.MaxUint16
	default:
		return n >= 0 && n <= math.MaxUint32
	}
}

func (m *metric) setFloat(v value.Value) {
	f := v.Float()
	if v.Kind() == value.KindInt {
		f = float64(v.Int())
	}
	m.bits = math.Float64bits(f)
	if m.datatype == typeFloat {
		m.kind, m.bits = fieldFloat, uint64(math.Float32bits(float32(f)))
	}
}

// appendPayload appends a payload with one metric.
func appendPayload(dst []byte, now uint64, m *metric) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldTimestamp, protowire.VarintType), now)
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldMetrics, protowire.BytesType), encodeMetric(m))
}

// encodeMetric returns the encoding of a metric.
func encodeMetric(m *metric) (data []byte) {
	if m.name != "" {
		data = protowire.AppendString(protowire.AppendTag(data, fieldName, protowire.BytesType), m.name)
	}
	if m.hasAlias {
		data = protowire.AppendVarint(protowire.AppendTag(data, fieldAlias, protowire.VarintType), m.alias)
	}
	if m.hasTime {
		data = protowire.AppendVarint(protowire.AppendTag(data, fieldMetricTime, protowire.VarintType), m.timestamp)
	}
	if m.datatype != 0 {
		data = protowire.AppendVarint(protowire.AppendTag(data, fieldDatatype, protowire.VarintType), uint64(m.datatype))
	}
	if m.null {
		data = protowire.AppendVarint(protowire.AppendTag(data, fieldNull, protowire.VarintType), 1)
	}
	switch m.kind {
	case 0:
	case fieldFloat:
		data = protowire.AppendFixed32(protowire.AppendTag(data, m.kind, protowire.Fixed32Type), uint32(m.bits)) //nolint:gosec // it has 32 bits
	case fieldDouble:
		data = protowire.AppendFixed64(protowire.AppendTag(data, m.kind, protowire.Fixed64Type), m.bits)
	case fieldInt, fieldLong, fieldBool:
		data = protowire.AppendVarint(protowire.AppendTag(data, m.kind, protowire.VarintType), m.bits)
	default:
		data = protowire.AppendBytes(protowire.AppendTag(data, m.kind, protowire.BytesType), m.text)
	}
	return data
}
