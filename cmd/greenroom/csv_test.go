package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// readTable renders all rows of a CSV, and the complaints.
func readTable(text, timeColumn string, zone *time.Location) (string, error) {
	t, err := openTable(strings.NewReader(text), timeColumn, zone)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for {
		r, err := t.next()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%d", r.ts)
		for _, s := range r.samples {
			fmt.Fprintf(&b, " %s=%v", s.Key, s.Value)
		}
		b.WriteByte('\n')
	}
}

func TestTableReadsWhatPeopleHave(t *testing.T) {
	t.Parallel()
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		t.Skipf("NOT TESTED with a time zone: %v", err)
	}
	for _, tt := range []struct {
		name, text, column string
		zone               *time.Location
		want               string
	}{
		{"quoted header, numbers", "\"Date\",\"CO2\",\"HumidityRatio\"\n\"2015-02-04 17:51:00\",426,0.0047\n", "", time.UTC, "1423072260000 co2=426 humidity_ratio=0.0047\n"},
		{"byte order mark, CRLF", "\ufefftime,a\r\n1970-01-01T00:00:01Z,1\r\n", "", time.UTC, "1000 a=1\n"},
		{"zone", "Date,a\n2015-07-01 12:00:00,1\n", "", brussels, "1435744800000 a=1\n"},
		{"zone of its own", "Date,a\n2015-07-01T12:00:00+02:00,1\n", "", time.UTC, "1435744800000 a=1\n"},
		{"seconds and milliseconds", "ts,a\n1435744800,1\n1435744800123,2\n", "", time.UTC, "1435744800000 a=1\n1435744800123 a=2\n"},
		{"named time column", "a,when,b\n1,1970-01-01,x\n", "when", time.UTC, "0 a=1 b=\"x\"\n"},
		{"bools and text", "ts,door,room\n1,TRUE,101\n2,false,foyer\n3,true,hall\n", "", time.UTC, "1000 door=true room=\"101\"\n2000 door=false room=\"foyer\"\n3000 door=true room=\"hall\"\n"},
		{"empty cells", "ts,a,b\n1,,2\n2,1,\n3,,\n", "", time.UTC, "1000 b=2\n2000 a=1\nline 4: at least one cell must have a value\n"},
		{"large integers", "ts,a\n1,9007199254740993\n", "", time.UTC, "1000 a=9007199254740993\n"},
		{"bad among numbers", "ts,a\n1,1\n2,NaN\n3,off\n4,4\n", "", time.UTC, "1000 a=1\nline 3: column a must be a finite number as in most rows, or empty without a measurement, not \"NaN\"\nline 4: column a must be a finite number as in most rows, or empty without a measurement, not \"off\"\n4000 a=4\n"},
		{"bad quotes", "ts,a\n1,\"x\"y\n2,z\n", "", time.UTC, "line 2: extraneous or missing \" in quoted-field\n2000 a=\"z\"\n"},
		{"time out of range", "ts,a\n-5,1\n", "", time.UTC, "line 2: column ts must be a time from 1970 to 9999, not \"-5\"\n"},
	} {
		got, err := readTable(tt.text, tt.column, tt.zone)
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %s (%v)\nwant %s", tt.name, got, err, tt.want)
		}
	}
}

func TestTableRefusesAHeaderItCannotUse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                "empty",
		"a,b\n1,2\n":      "--time-column",
		"ts\n1\n":         "besides the time",
		"ts,aB,a_b\n":     `"aB" and "a_b"`,
		"ts,a,???\n":      "column 3",
		"ts,\"a\n1,2\n":   "header",
		"time,a,\n1,2,\n": "column 3",
	} {
		if _, err := readTable(text, "", time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := readTable("ts,a\n", "when", time.UTC); err == nil || !strings.Contains(err.Error(), "ts, a") {
		t.Errorf("a time column that is not there: %v", err)
	}
}

func TestKeysAreInSnakeCase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Temperature": "temperature", "HumidityRatio": "humidity_ratio", "CO2": "co2", "HTTPServer": "http_server", "roomID": "room_id",
		"\u00a0air quality (ppm)": "air_quality_ppm", "already_snake": "already_snake", "Größe": "größe", "PM2.5": "pm2_5", "__x": "x", "": "",
	} {
		if got := keyOf(name); got != want {
			t.Errorf("keyOf(%q) = %q, want %q", name, got, want)
		}
	}
}
