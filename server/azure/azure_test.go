package azure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func TestUserNamesOfTheSDKsNameADevice(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"hub.example/pump-1/?api-version=2021-04-12&DeviceClientType=x": "pump-1",
		"hub.example/pump-1/api-version=2016-11-14":                     "pump-1",
		"hub.example:8883/pump 1/?api-version=2021-04-12":               "pump 1",
		"pump-1":                              "",
		"hub.example/pump-1":                  "",
		"hub.example//?api-version=1":         "",
		"hub.example/d/module/?api-version=1": "",
	} {
		id, ok := Device(user)
		if ok != (want != "") || ok && id != want {
			t.Errorf("%q: %q %v, want %q", user, id, ok, want)
		}
	}
}

func TestASignatureIsRead(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s, err := ParseSignature("SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=YStiPQ%3D%3D&se=1800000001", now)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "device", s.Device, "pump-1")
	same(t, "expiry", s.Expires.Unix(), 1800000001)
	same(t, "text", s.Signed.Text, "hub%2Fdevices%2Fpump-1\n1800000001")
	same(t, "sum", string(s.Signed.MAC), "a+b=")
	for _, wrong := range []string{
		"", "Bearer x",
		"SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=a%2Bb&se=1800000001",                        // no Base64
		"SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=YStiPQ%3D%3D&se=1800000000",                 // expired
		"SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=YStiPQ%3D%3D&se=soon",                       //
		"SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=YStiPQ%3D%3D&se=9999999999999",              // beyond any clock
		"SharedAccessSignature sr=hub%2Fdevices%2Fpump-1&sig=YStiPQ%3D%3D&se=1800000001&skn=iothubowner", //
		"SharedAccessSignature sr=hub&sig=YStiPQ%3D%3D&se=1800000001",
		"SharedAccessSignature sr=hub%2Fdevices%2F&sig=YStiPQ%3D%3D&se=1800000001",
		"SharedAccessSignature sr=hub%2Fdevices%2Fa%zz&sig=YStiPQ%3D%3D&se=1800000001",
		"SharedAccessSignature " + strings.Repeat("x", maxSignatureBytes+1),
	} {
		if _, err := ParseSignature(wrong, now); !errors.Is(err, access.ErrCredentials) {
			t.Errorf("%.120q: %v", wrong, err)
		}
	}
}

func TestWhoSignsForAnotherDeviceIsNobody(t *testing.T) {
	t.Parallel()
	l := &Layout{}
	own := fmt.Sprintf("SharedAccessSignature sr=hub%%2Fdevices%%2Fpump-1&sig=YQ%%3D%%3D&se=%d", time.Now().Add(time.Hour).Unix())
	id, ok := l.Identify("hub/pump-1/?api-version=1", own)
	if !ok || id.Name != "pump-1" || string(id.Signature.MAC) != "a" || id.Until.IsZero() {
		t.Errorf("its own: %+v %v", id, ok)
	}
	id, ok = l.Identify("hub/pump-2/?api-version=1", own)
	if !ok || id.Name != "pump-2" || len(id.Signature.MAC) != 0 || id.Signature.Text != "" {
		t.Errorf("for another: %+v %v", id, ok)
	}
	if id, ok = l.Identify("hub/pump-1/?api-version=1", "gr_pump-1_x"); !ok || id.Name != "pump-1" || id.Signature != nil {
		t.Errorf("with a token: %+v %v", id, ok)
	}
	if _, ok = l.Identify("pump-1", own); ok {
		t.Error("a plain user name is taken")
	}
}

func TestAMessageIsReadings(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(5000)
	for _, tt := range []struct{ body, bag, want string }{
		{`{"t":1}`, "", `[{"t":1}]`},
		{`{"t":1}`, "alert=true&t=9", `[{"t":1,"alert":"true"}]`},
		{`{"t":1}`, "?a%20b=c%2Fd&%24.ct=application%2Fjson%3Bcharset%3Dutf-8&%24.ce=UTF-8&%24.mid=7/", `[{"t":1,"a b":"c/d"}]`},
		{`{"t":1}`, "%24.ctime=1970-01-01T00:00:01Z", `[{"ts":1000,"values":{"t":1}}]`},
		{`[{"ts":2000,"values":{"t":1}},{"t":2}]`, "%24.ctime=1970-01-01T00:00:01Z&x=y", `[{"ts":2000,"values":{"t":1,"x":"y"}},{"ts":1000,"values":{"t":2,"x":"y"}}]`},
	} {
		properties, err := ParseProperties(tt.bag)
		if err != nil {
			t.Fatal(err)
		}
		readings, payload, err := Readings([]byte(tt.body), properties, now)
		if err != nil {
			t.Fatalf("%s with %s: %v", tt.body, tt.bag, err)
		}
		same(t, tt.body+" with "+tt.bag, string(encodeReadings(readings)), tt.want)
		if again, err := entity.ParseReadings(payload, now); err != nil || string(encodeReadings(again)) != tt.want {
			t.Errorf("what others are told is %s, which is %v %v", payload, again, err)
		}
	}
	for _, tt := range []struct{ body, bag string }{
		{``, ""}, {`21.5`, ""}, {`{"t":null}`, ""}, {`{"t":1}`, "%24.ct=text%2Fplain"}, {`{"t":1}`, "%24.ce=utf-16"}, {`{"t":1}`, "%24.ctime=today"}, {strings.Repeat(" ", MaxMessageBytes+1), ""},
	} {
		properties, err := ParseProperties(tt.bag)
		if err == nil {
			_, _, err = Readings([]byte(tt.body), properties, now)
		}
		if !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%.40s with %s: %v", tt.body, tt.bag, err)
		}
	}
	for _, bag := range []string{"a=%zz", "=x", strings.Repeat("a=b&", maxProperties+1)} {
		if _, err := ParseProperties(bag); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%.40s: %v", bag, err)
		}
	}
}

func TestABatchIsSeveralMessages(t *testing.T) {
	t.Parallel()
	batch, err := ParseBatch([]byte(`[{"body":"eyJ0IjoxfQ==","properties":{"iothub-app-room":"a","iothub-messageid":"7"}},{"body":"{\"t\":2}","base64Encoded":false}]`))
	if err != nil {
		t.Fatal(err)
	}
	_, payload, err := BatchReadings(batch, time.UnixMilli(5000))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the readings", string(payload), `[{"t":1,"room":"a"},{"t":2}]`)
	for _, wrong := range []string{``, `{}`, `[{}]`, `[{"body":"{}"}]`, `[{"body":1}]`} {
		if _, err := ParseBatch([]byte(wrong)); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestPropertiesThatAzureWouldNotTakeAreRefused(t *testing.T) {
	t.Parallel()
	for patch, ok := range map[string]bool{
		`{"fw":"1","a":{"b":null},"c":[1,{"x.y":1}]}`: true,
		`{}`:               true,
		``:                 false,
		`[]`:               false,
		`null`:             false,
		`{"a.b":1}`:        false,
		`{"$version":1}`:   false,
		`{"a":{"b c":1}}`:  false,
		`{"":1}`:           false,
		"{\"a\\u0001\":1}": false,
		strings.Repeat(`{"a":`, 11) + `1` + strings.Repeat(`}`, 11): false,
		strings.Repeat(`{"a":`, 10) + `1` + strings.Repeat(`}`, 10): true,
		`{"a":"` + strings.Repeat("x", maxPatchBytes) + `"}`:        false,
	} {
		if err := checkPatch([]byte(patch)); (err == nil) != ok || err != nil && !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%.60s: %v", patch, err)
		}
	}
}

func TestWhatIsDesiredIsToldAsAPatch(t *testing.T) {
	t.Parallel()
	set := func(section entity.Section, path string, v value.Value) entity.AttributeEdit {
		return entity.AttributeEdit{Section: section, Attribute: entity.Attribute{Path: path, Value: v}}
	}
	var gone value.Value
	for _, tt := range []struct {
		edits []entity.AttributeEdit
		want  string
	}{
		{nil, ""},
		{[]entity.AttributeEdit{set(entity.Reported, "/a", value.Int(1))}, ""},
		{[]entity.AttributeEdit{set(entity.Desired, "/a/b", value.Int(1)), set(entity.Desired, "/a/c", gone), set(entity.Reported, "/x", value.Int(1))}, `{"a":{"b":1,"c":null},"$version":7}`},
		{[]entity.AttributeEdit{set(entity.Desired, "/a", gone), set(entity.Desired, "/a/b", value.Int(1))}, `{"a":{"b":1},"$version":7}`},
		{[]entity.AttributeEdit{set(entity.Desired, "/a", value.Int(1)), set(entity.Desired, "/a/b", gone)}, `{"a":1,"$version":7}`},
	} {
		same(t, tt.want, string(desiredChanges(&entity.Edit{Revision: 7, Attributes: tt.edits})), tt.want)
	}
}

func TestTopicsOfMessagesAreTaken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"devices/d/messages/events/": true, "devices/d/messages/events/a=b": true, "devices/d/messages/events": true, "devices/d/messages/devicebound/#": true,
		"devices/d/state": false, "devices/": false, "devices//messages/events/": false, "device/d/messages/events/": false,
	} {
		same(t, name, (&Layout{}).Takes(name), want)
	}
}
