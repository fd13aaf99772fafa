package sparkplug

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// receiver is the client that receives the commands of an edge node, or of one of its devices.
type receiver struct {
	layout.Receiving
	client  layout.Client
	pending map[string]pending // by name of the metric, guarded by Layout.mu
}

// pending is a command that was sent.
type pending struct {
	command string
	want    value.Value
	until   int64 // when it will have expired or timed out, in milliseconds since the epoch
}

// maxPending bounds the commands of a device that wait for their effect.
const maxPending = 1000

// birth starts the delivery of commands to a client, for the edge node or device that has come
// online.
func (l *Layout) birth(c layout.Client, t *topic) {
	to, id := *t, t.id()
	r := &receiver{client: c, pending: map[string]pending{}}
	l.mu.Lock()
	before := l.receivers[id]
	l.receivers[id] = r
	if before != nil { // commands sent before its birth may still take effect
		r.pending = before.pending
	}
	l.mu.Unlock()
	err := r.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return l.send(r, &to, command, receipt)
	})
	if err != nil {
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "cannot deliver commands to a device", slog.String("entity", id), slog.Any("error", err))
	}
	if before != nil {
		before.End()
		if before.client != c {
			before.client.Parted(id)
		}
	}
	c.Joined(id)
}

// death ends the delivery to c, or with a nil c to any client.
func (l *Layout) death(c layout.Client, id string) {
	l.mu.Lock()
	r := l.receivers[id]
	if r == nil || c != nil && r.client != c {
		l.mu.Unlock()
		return
	}
	delete(l.receivers, id)
	l.mu.Unlock()
	r.End()
	r.client.Parted(id)
}

// stopReceiving ends all deliveries to a client whose connection has ended.
func (l *Layout) stopReceiving(c layout.Client) {
	var ids []string
	l.mu.Lock()
	for id, r := range l.receivers {
		if r.client == c {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	for _, id := range ids {
		l.death(c, id)
	}
}

// send sends a command to its edge node.
func (l *Layout) send(r *receiver, t *topic, command *entity.Command, receipt *layout.Receipt) error {
	text, want, err := encodeCommand(command, l.edges.typeOf(t, command.Name))
	if err != nil { // this command fails, and others proceed
		receipt.Settled(err)
		return nil
	}
	l.await(r, command, want)
	to := prefix + t.group + "/" + string(ncmd) + "/" + t.edge
	if t.device != "" {
		to = prefix + t.group + "/" + string(dcmd) + "/" + t.edge + "/" + t.device
	}
	return r.client.Send(to, text, receipt)
}

// await records the value that the edge node will report when it has carried out a command.
func (l *Layout) await(r *receiver, command *entity.Command, want value.Value) {
	now := time.Now().UnixMilli()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, sent := range r.pending {
		if sent.until < now {
			delete(r.pending, name)
		}
	}
	if len(r.pending) < maxPending { // any beyond that time out
		r.pending[command.Name] = pending{command.ID, want, command.Expires + command.Timeout}
	}
}

// reported completes the commands whose values a message contains. After an error of the runtime,
// the message must come again.
func (l *Layout) reported(t *topic, p *payload) error {
	id := t.id()
	done := map[string]pending{} // by name; want is the reported value
	l.mu.Lock()
	r := l.receivers[id]
	if r != nil && len(r.pending) > 0 {
		for i := range p.metrics {
			m := &p.metrics[i]
			sent, ok := r.pending[m.name]
			v, has, err := m.value()
			if ok && has && err == nil && value.Compare(v, sent.want) == value.Equal {
				done[m.name] = sent
			}
		}
		if sent, ok := r.pending[rebirthName]; ok && t.kind == nbirth {
			done[rebirthName] = sent
		}
	}
	l.mu.Unlock()
	for name, sent := range done {
		err := l.host.Runtime.Done(l.host.Running, id, sent.command, sent.want)
		if err != nil && !errors.Is(err, entity.ErrNotFound) && !errors.Is(err, entity.ErrMismatch) {
			return err
		}
		l.mu.Lock()
		if r.pending[name].command == sent.command {
			delete(r.pending, name)
		}
		l.mu.Unlock()
	}
	return nil
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
