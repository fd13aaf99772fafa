package sparkplug

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/greenroom-go/greenroom/entity/value"
)

// encode makes a payload of metrics, as an edge node does.
func encode(timestamp, seq uint64, metrics ...metric) []byte {
	data := protowire.AppendVarint(protowire.AppendTag(nil, fieldTimestamp, protowire.VarintType), timestamp)
	for i := range metrics {
		data = protowire.AppendBytes(protowire.AppendTag(data, fieldMetrics, protowire.BytesType), encodeMetric(&metrics[i]))
	}
	return protowire.AppendVarint(protowire.AppendTag(data, fieldSeq, protowire.VarintType), seq)
}

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
		data = protowire.AppendFixed32(protowire.AppendTag(data, m.kind, protowire.Fixed32Type), uint32(m.bits)) //nolint:gosec // a test
	case fieldDouble:
		data = protowire.AppendFixed64(protowire.AppendTag(data, m.kind, protowire.Fixed64Type), m.bits)
	case fieldInt, fieldLong, fieldBool:
		data = protowire.AppendVarint(protowire.AppendTag(data, m.kind, protowire.VarintType), m.bits)
	default:
		data = protowire.AppendBytes(protowire.AppendTag(data, m.kind, protowire.BytesType), m.text)
	}
	return data
}

func TestValuesOfEachType(t *testing.T) {
	t.Parallel()
	minusFive := uint64(math.MaxUint32 - 4)
	for _, tt := range []struct {
		m    metric
		want string
	}{
		{metric{kind: fieldInt, datatype: typeInt8, bits: minusFive}, "-5"},
		{metric{kind: fieldInt, datatype: typeInt16, bits: minusFive}, "-5"},
		{metric{kind: fieldInt, datatype: typeInt32, bits: minusFive}, "-5"},
		{metric{kind: fieldInt, datatype: 7, bits: minusFive}, "4294967291"}, // UInt32
		{metric{kind: fieldInt, datatype: 5, bits: 200}, "200"},              // UInt8
		{metric{kind: fieldLong, datatype: typeInt64, bits: math.MaxUint64}, "-1"},
		{metric{kind: fieldLong, datatype: 8, bits: math.MaxUint64}, "18446744073709552000"}, // UInt64
		{metric{kind: fieldLong, datatype: 8, bits: 7}, "7"},
		{metric{kind: fieldLong, datatype: typeDateTime, bits: 1451649600512}, "1451649600512"},
		{metric{kind: fieldFloat, datatype: 9, bits: uint64(math.Float32bits(1.5))}, "1.5"},
		{metric{kind: fieldDouble, datatype: 10, bits: math.Float64bits(21.25)}, "21.25"},
		{metric{kind: fieldDouble, datatype: 10, bits: math.Float64bits(math.NaN())}, ""},
		{metric{kind: fieldBool, datatype: typeBool, bits: 1}, "true"},
		{metric{kind: fieldString, datatype: 12, text: []byte("so")}, `"so"`},
		{metric{kind: fieldBytes, datatype: 17, text: []byte{1, 2, 255}}, `"AQL/"`},
		{metric{kind: fieldInt, datatype: typeInt32, bits: 5, null: true}, ""},
		{metric{datatype: typeInt32}, ""},
		{metric{kind: fieldDataSet, datatype: 16, text: []byte{}}, "data sets and templates are not supported"},
	} {
		tt.m.name = "m"
		p, err := decode(encode(1, 2, tt.m))
		if err != nil || len(p.metrics) != 1 || p.timestamp != 1 || p.seq != 2 || !p.hasSeq {
			t.Fatalf("%+v: decoded to %+v, %v", tt.m, p, err)
		}
		got, ok, err := p.metrics[0].value()
		text := ""
		switch {
		case err != nil:
			text = err.Error()
		case ok:
			text = string(got.AppendJSON(nil))
		}
		if !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
			t.Errorf("%+v: %s, want %s", tt.m, text, tt.want)
		}
	}
}

// The bytes are what the npm package sparkplug-payload 1.0.3 makes of two metrics.
func TestPayloadOfAnotherEncoder(t *testing.T) {
	t.Parallel()
	data, err := hex.DecodeString("0801120d0a01611003200350fbffffff0f120c0a0164200d588098bce89f2a1800")
	if err != nil {
		t.Fatal(err)
	}
	p, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	readings, err := p.readings(5)
	if got, want := fmt.Sprint(readings, err), "[{1 [{a -5} {d 1451649600512}] 0 false}] <nil>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p.metrics[0].alias != 3 || !p.metrics[0].hasAlias || p.metrics[1].hasAlias {
		t.Errorf("aliases: %+v", p.metrics)
	}
}

func TestWhatIsNoPayloadIsRefused(t *testing.T) {
	t.Parallel()
	good := encode(1, 2, metric{name: "m", kind: fieldInt, bits: 1})
	for n := range len(good) {
		if _, err := decode(good[:n]); err != nil && !strings.Contains(err.Error(), "not a payload of Sparkplug B") {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
	for _, text := range []string{"{}", "\xff", "\x12\x7f", strings.Repeat("\x0b", 100)} {
		if _, err := decode([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	many := make([]metric, maxMetrics+1)
	if _, err := decode(encode(1, 1, many...)); err == nil {
		t.Error("any number of metrics was read")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(1, 2, metric{name: "m", alias: 7, hasAlias: true, kind: fieldString, text: []byte("x")}))
	f.Add([]byte{0x12, 0x02, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decode(data)
		if err != nil {
			return
		}
		if readings, _ := p.readings(1); len(readings) > len(p.metrics) {
			t.Errorf("%d readings of %d metrics", len(readings), len(p.metrics))
		}
		for i := range p.metrics {
			if v, ok, err := p.metrics[i].value(); ok && (err != nil || v.Kind() == (value.Value{}).Kind()) {
				t.Errorf("metric %+v has the value %v, %v", p.metrics[i], v, err)
			}
		}
	})
}
