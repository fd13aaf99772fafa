package sparkplug

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/greenroom-go/greenroom/entity"
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

func TestCommandsHaveTheTypeOfTheirMetric(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		request value.Value
		as      dataType
		want    string // "" for a refusal
	}{
		{value.Int(-5), typeInt8, "-5"},
		{value.Int(-129), typeInt8, ""},
		{value.Int(-5), typeUInt32, ""},
		{value.Int(1 << 31), typeUInt32, "2147483648"},
		{value.Int(-5), typeInt64, "-5"},
		{value.Int(-5), typeUInt64, ""},
		{value.Int(3), typeFloat, "3"},
		{value.Float(1.5), typeDouble, "1.5"},
		{value.Float(1.5), typeInt32, ""},
		{value.String("x"), typeText, `"x"`},
		{value.Bool(true), typeBool, "true"},
		{value.Int(1), typeBool, ""},
		{value.Value{}, 0, "true"},
		{value.Int(7), 0, "7"},
		{value.Float(0.5), 0, "0.5"},
		{value.String("y"), 0, `"y"`},
		{value.JSON(`{}`), 0, ""},
		{value.Int(1), 16, ""},
	} {
		text, want, err := encodeCommand(&entity.Command{Name: "m", Request: tt.request}, tt.as)
		got := ""
		if err == nil {
			p, err := decode(text)
			if err != nil || len(p.metrics) != 1 || p.metrics[0].name != "m" {
				t.Fatalf("%v as %d: %+v, %v", tt.request, tt.as, p, err)
			}
			v, _, _ := p.metrics[0].value()
			got = v.String()
			if want.String() != got {
				t.Errorf("%v as %d: waits for %v, is %s", tt.request, tt.as, want, got)
			}
		}
		if got != tt.want {
			t.Errorf("%v as %d: %s (%v), want %s", tt.request, tt.as, got, err, tt.want)
		}
	}
}

func TestOneMessageIsRefusedInAFewWords(t *testing.T) {
	t.Parallel()
	p := payload{metrics: []metric{{name: "ok", kind: fieldInt, bits: 1}, {name: "set", kind: fieldDataSet}}}
	for alias := range uint64(10_000) {
		p.metrics = append(p.metrics, metric{alias: alias, hasAlias: true, kind: fieldInt})
	}
	readings, err := p.readings(1)
	if len(readings) != 1 || err == nil {
		t.Fatalf("read %v, %v; want the one metric that has a name, and an error", readings, err)
	}
	if text := err.Error(); len(text) > 200 || !strings.Contains(text, "data sets") || !strings.HasSuffix(text, ", and 10000 other metrics") {
		t.Errorf("the error is %.300q", text)
	}
}
