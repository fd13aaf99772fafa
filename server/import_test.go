package server

import (
	"encoding/json"
	"testing"
)

// TestALineIsTakenApartAsJSON compares cutReading, which knows one form of a line, with the decoder
// for all.
func TestALineIsTakenApartAsJSON(t *testing.T) {
	forms := map[string]bool{ // whether cutReading knows it
		`{"entity":"room-1","ts":1451649600512,"values":{"temperature":21.5,"on":true,"a":{"b":[1]}}}`: true,
		`{"entity":"room 1/x","ts":0,"values":{}}`:                                                     true,
		`{"entity":"a","ts":999999999999999999,"values":[1]}`:                                          true,
		`{"entity":"a","ts":1,"values": {"t":1} }`:                                                     true,
		`{"entity":"a","ts":1,"values":"x"}`:                                                           true,
		`{"entity":"a","ts":1,"values":null}`:                                                          false,
		`{"entity":"","ts":1,"values":{"t":1}}`:                                                        false,
		`{"entity":"a\"b","ts":1,"values":{"t":1}}`:                                                    false,
		`{"entity":"a\u0041","ts":1,"values":{"t":1}}`:                                                 false,
		`{"entity":"ä","ts":1,"values":{"t":1}}`:                                                       false,
		"{\"entity\":\"a\xff\",\"ts\":1,\"values\":{\"t\":1}}":                                         false,
		"{\"entity\":\"a\tb\",\"ts\":1,\"values\":{\"t\":1}}":                                          false,
		`{"entity":"a","ts":01,"values":{"t":1}}`:                                                      false,
		`{"entity":"a","ts":-1,"values":{"t":1}}`:                                                      false,
		`{"entity":"a","ts":1.5,"values":{"t":1}}`:                                                     false,
		`{"entity":"a","ts":1e3,"values":{"t":1}}`:                                                     false,
		`{"entity":"a","ts":"1","values":{"t":1}}`:                                                     false,
		`{"entity":"a","ts":,"values":{"t":1}}`:                                                        false,
		`{"entity":"a","ts":12345678901234567890,"values":{"t":1}}`:                                    false,
		`{"entity":"a","ts":1,"values":{"t":1},"more":2}`:                                              false,
		`{"entity":"a","ts":1,"values":{"t":1},"values":{"t":2}}`:                                      false,
		`{"entity":"a","ts":1,"values":{"t":1}}}`:                                                      false,
		`{"entity":"a","ts":1,"values":{"t":1}} {}`:                                                    false,
		`{"entity":"a","ts":1,"values":{"t":1}`:                                                        false,
		`{"entity":"a","ts":1,"values":}`:                                                              false,
		`{"entity":"a","ts":1,"values":{"t":NaN}}`:                                                     false,
		`{"ts":1,"entity":"a","values":{"t":1}}`:                                                       false,
		`{ "entity":"a","ts":1,"values":{"t":1}}`:                                                      false,
		`{"entity":"a","ts":1}`:                                                                        false,
		``:                                                                                             false,
	}
	for text, want := range forms {
		id, ts, values, ok := cutReading([]byte(text))
		if ok != want {
			t.Errorf("%s: known %v, want %v", text, ok, want)
		}
		if !ok {
			continue
		}
		var l readingLine
		if err := decodeJSON([]byte(text), &l); err != nil || l.TS == nil {
			t.Errorf("%s: taken apart, but %v", text, err)
			continue
		}
		var mine, its any
		err := json.Unmarshal(values, &mine)
		if l.Entity != id || *l.TS != ts || err != nil || json.Unmarshal(l.Values, &its) != nil {
			t.Errorf("%s: %q %d %s, want %q %d %s", text, id, ts, values, l.Entity, *l.TS, l.Values)
		}
	}
}
