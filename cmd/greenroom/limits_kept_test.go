package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
)

// mappings puts large mappings until there is no room for what they are compiled to, and then others until there
// is none for what they keep.
func (s *limited) mappings() {
	if !s.long {
		return // compiling 64 MiB takes 18 s of processor time
	}
	sum := "a.v" + strings.Repeat(" + a.v", 150)
	statement := func(into int) string {
		fields := make([]string, 60)
		for i := range fields {
			fields[i] = fmt.Sprintf("%s as k%d", sum, i)
		}
		return fmt.Sprintf("insert into compiled%d select %s", into, strings.Join(fields, ", "))
	}
	n := 0
	for ; n < 1000; n++ {
		if status, text := s.try("PUT", fmt.Sprintf("/v1/mappings/c%d", n), "text/plain", statement(n)); status != http.StatusCreated {
			if status != 422 || !strings.Contains(text, "at most 67108864 are allowed") {
				s.t.Errorf("mapping %d: %d %s", n, status, text)
			}
			break
		}
	}
	if n < 5 || n == 1000 {
		s.t.Errorf("%d large mappings are taken", n)
	}
	s.windows()
}

// windows puts mappings with windows, each of which keeps 10 000 readings.
func (s *limited) windows() {
	s.must(204, "DELETE", "/v1/mappings/c0", "", "")
	readings := make([]string, 10_000)
	for i := range readings {
		readings[i] = fmt.Sprintf(`{"ts":%d,"values":{"x":%d}}`, i+1, i)
	}
	s.must(204, "POST", "/v1/entities/windowed/telemetry", "application/json", "["+strings.Join(readings, ",")+"]")
	const windows, mappings = 40, 8 // of 1.2 MB each: 384 MB
	fields := make([]string, windows)
	for i := range fields {
		fields[i] = fmt.Sprintf("sum(windowed.x) over last 10000 as k%d", i)
	}
	for i := range mappings {
		s.must(201, "PUT", fmt.Sprintf("/v1/mappings/w%d", i), "text/plain", fmt.Sprintf("insert into sums%d select %s", i, strings.Join(fields, ", ")))
	}
	var stats struct {
		Stats struct {
			Kept    int64 `json:"kept_bytes"`
			Dropped int64
		}
	}
	getJSON(s.t, s.http, "/v1/mappings", &stats)
	if kept := stats.Stats.Kept; kept > 256<<20 || kept < 128<<20 || stats.Stats.Dropped == 0 {
		s.t.Errorf("mappings keep %d bytes, and have dropped %d values", kept, stats.Stats.Dropped)
	}
}

// filters subscribes to filters that take much memory until there is no room for more.
func (s *limited) filters() {
	if !s.long {
		return // all may take 256 MiB
	}
	refused := 0
	for session := 0; refused == 0 && session < 300; session++ {
		c, _ := s.connect(fmt.Sprint("filters-", session), 2, "")
		var filters strings.Builder
		for i := range 1000 {
			filters.WriteString(field(fmt.Sprintf("e/%d-%d/%s", session, i, strings.Repeat("level/", 28))) + "\x01")
		}
		c.write(s.t, frame(0x82, number(1), "\x00", filters.String()))
		kind, body := c.read(s.t)
		if kind != 0x90 {
			s.t.Fatalf("the answer to SUBSCRIBE: %x %.100q", kind, body)
		}
		refused += strings.Count(body[3+int(body[2]):], "\x97")
	}
	if refused == 0 {
		s.t.Error("no filter is refused")
	}
}

// births publishes certificates of Sparkplug edge nodes, which are remembered, until there is no room.
func (s *limited) births() {
	if !s.long {
		return // a principal may have 32 MiB of them
	}
	text := func(number byte, value string) string {
		return string(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(value)))) + value
	}
	var metrics strings.Builder
	for i := range 1000 {
		metrics.WriteString(text(2, text(1, fmt.Sprintf("m%d%s", i, strings.Repeat("x", 190)))+"\x20\x03\x38\x01")) // an Int32 that is null
	}
	payload := "\x08\x01" + metrics.String() + "\x18\x00"
	var code byte
	n := 0
	for client := 0; code == 0 && client < 20; client++ {
		c, _ := s.connect(fmt.Sprint("births-", client), 2, "")
		for ; code == 0 && n < 100*(client+1); n++ {
			code = c.publish(s.t, fmt.Sprintf("spBv1.0/group/NBIRTH/edge-%d", n), payload, 0)
		}
	}
	refusals := s.must(200, "GET", "/v1/refusals", "", "")
	if code == 0 || !strings.Contains(refusals, "birth certificates of") {
		s.t.Errorf("after %d births of %d bytes the code is %x, and the refusals: %.500s", n, len(payload), code, refusals)
	}
}

// names uses as many names of keys as one client may, of the length that they may have.
func (s *limited) names() {
	if !s.long {
		return // it is a gigabyte of payloads
	}
	refused := 0
	for entity := 0; refused == 0 && entity < 300; entity++ {
		for part := 0; refused == 0 && part < 4; part++ {
			var b strings.Builder
			for i := range 1000 {
				name := fmt.Sprintf("%d-%d-%d-", entity, part, i)
				fmt.Fprintf(&b, `,"%s%s":1`, name, strings.Repeat("n", 256-len(name)))
			}
			switch status, text := s.try("POST", fmt.Sprintf("/v1/entities/named-%d/telemetry", entity), "application/json", "{"+b.String()[1:]+"}"); {
			case status == http.StatusUnprocessableEntity && strings.Contains(text, "too many keys"):
				refused++
			case status != http.StatusNoContent:
				s.t.Fatalf("entity %d: %d %.300s", entity, status, text)
			}
		}
	}
	if refused == 0 {
		s.t.Error("no name is refused")
	}
}

// descriptions publishes descriptions of Homie devices, more than are kept in memory: others are read again.
func (s *limited) descriptions() {
	devices := 20
	if s.long {
		devices = 1200
	}
	c, _ := s.connect("homie", 2, "")
	var properties strings.Builder
	for i := range 400 {
		fmt.Fprintf(&properties, `,"p%d":{"name":"%s","datatype":"float","settable":true}`, i, strings.Repeat("n", 80))
	}
	description := fmt.Sprintf(`{"homie":"5.0","version":1,"nodes":{"n":{"properties":{%s}}}}`, properties.String()[1:])
	for i := range devices {
		for _, m := range [][2]string{{"$state", "init"}, {"$description", description}, {"$state", "ready"}, {"n/p399", "21.5"}} {
			if code := c.publish(s.t, fmt.Sprintf("homie/5/device-%d/%s", i, m[0]), m[1], 1); code != 0 {
				s.t.Fatalf("device %d, %s: code %x", i, m[0], code)
			}
		}
	}
	for i := range devices {
		if code := c.publish(s.t, fmt.Sprintf("homie/5/device-%d/n/p0", i), "1.5", 1); code != 0 {
			s.t.Fatalf("device %d again: code %x", i, code)
		}
	}
}
