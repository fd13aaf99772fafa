package server

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// found returns the ids that a filter finds, in pages.
func (r *running) found(filter, more string) (ids []string) {
	r.t.Helper()
	for cursor := ""; ; {
		var page struct {
			Entities []struct{ ID string }
			Next     string
		}
		r.get("/v1/entities?limit=2&q="+url.QueryEscape(filter)+more+"&cursor="+cursor, &page)
		for _, e := range page.Entities {
			ids = append(ids, e.ID)
		}
		if cursor = page.Next; cursor == "" {
			return ids
		}
	}
}

func TestFiltersFindEntities(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(200, "POST", "/v1/types?format=native", typeJSONHeader, `[{"id":"Device"},{"id":"Meter","extends":["Device"]}]`)
	for i := range 6 {
		id := fmt.Sprintf("m%d", i)
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":%q,"type":"Meter","attributes":{"floor":%d,"name":"meter %c"},"desired":{"on":true},"reported":{"on":%t}}`, id, i%3, 'a'+i, i > 2))
		s.post(id, fmt.Sprintf(`{"ts":%d,"values":{"p":%d}}`, 1000*i, 10*i))
	}
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"f","relations":[{"type":"has","to":"m1"},{"type":"has","to":"m4"}]}`)
	for filter, want := range map[string]string{
		`p > 25`:                          "[m3 m4 m5]",
		`p > 25 and attributes.floor = 0`: "[m3]",
		`type is "Device"`:                "[m0 m1 m2 m3 m4 m5]",
		`type = "Device"`:                 "[]",
		`type is "Device" and type is "Meter" and p=0`:  "[m0]",
		`id in ("m2", "f", "nobody")`:                   "[f m2]",
		`exists delta.on`:                               "[m0 m1 m2]",
		`attributes.name like "meter _" and not p < 40`: "[m4 m5]",
		`related has from "f"`:                          "[m1 m4]",
		`related has to (p = 40)`:                       "[f]",
		`ts(p) >= 1970-01-01T00:00:04Z`:                 "[m4 m5]",
		`false`:                                         "[]",
		``:                                              "[f m0 m1 m2 m3 m4 m5]",
	} {
		same(t, filter, s.found(filter, ""), want)
	}
	same(t, "with a type and a text", s.found("p > 5", "&type=Device&search=5"), "[m5]")
	s.post("m0", `{"p":99}`)
	same(t, "sees its own writes", s.found("p > 90", ""), "[m0]")
	_, body := s.send(200, "POST", "/v1/search", typeJSONHeader, `{"filter":"p >= 20","limit":2,"count":true,"fields":["attributes"]}`)
	if !strings.Contains(body, `"total":5,"next":`) || !strings.Contains(body, `"attributes":{"floor":0,"name":"meter a"}`) || strings.Contains(body, "latest") {
		t.Errorf("search: %s", body)
	}
}

func TestWrongFiltersSayWhere(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, q := range []string{"/v1/entities?q=p+%3E", "/v1/entities?q=%28p%3D1"} {
		if resp, body := s.do("GET", q, ""); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"column":`) || !strings.Contains(body, `"offset":`) {
			t.Errorf("GET %s: %s %s", q, resp.Status, body)
		}
	}
	s.send(400, "POST", "/v1/search", typeJSONHeader, `{"limit":5000}`)
	s.send(400, "POST", "/v1/search", typeJSONHeader, `{"filtre":""}`)
	s.send(400, "POST", "/v1/search", typeJSONHeader, `{"cursor":"!"}`)
	s.send(415, "POST", "/v1/search", "text/plain", `p > 1`)
}

func TestQueryBoxIsOfferedWhatThereIs(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/types/Room", typeJSONHeader, `{"telemetry":{"temperature":{"type":"number"}}}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"room-1","type":"Room","attributes":{"color":"red"}}`)
	s.post("room-1", `{"humidity":40}`)
	type completion struct {
		From, To  int
		Items     []struct{ Text, Kind string }
		Error     *struct{ Line, Column int }
		Canonical *string
	}
	ask := func(q string) (c completion) {
		t.Helper()
		q, kind, _ := strings.Cut(q, "&kind=")
		s.get("/v1/query/complete?q="+url.QueryEscape(q)+"&kind="+cmp.Or(kind, "filter"), &c)
		return c
	}
	for q, want := range map[string]string{"temp": "temperature", "hum": "humidity", "attributes.c": "attributes.color", `attributes.color = "r`: `"red"`, `type is "R`: `"Room"`, `id = "ro`: `"room-1"`} {
		c, texts := ask(q), []string{}
		for _, item := range c.Items {
			texts = append(texts, item.Text)
		}
		if !strings.Contains(strings.Join(texts, " "), want) {
			t.Errorf("for %q there is %v, want %s", q, texts, want)
		}
	}
	if c := ask("humidity >"); c.Error == nil || c.Error.Column == 0 || c.Canonical != nil {
		t.Errorf("half a filter: %+v", c)
	}
	if c := ask("humidity>1 AND  temperature<2"); c.Error != nil || *c.Canonical != "humidity > 1 and temperature < 2" {
		t.Errorf("a whole filter: %+v", c)
	}
	s.send(400, "GET", "/v1/query/complete?q=ab&offset=3", typeJSONHeader, "")
	if c := ask("insert into x select\n 1 + hum&kind=mapping"); len(c.Items) != 1 || c.Items[0].Text != "humidity" || c.Error == nil || c.Error.Line != 2 || c.Error.Column != 9 {
		t.Errorf("half a mapping: %+v", c)
	}
	if c := ask("INSERT into x select `a`.b&kind=mapping"); c.Error != nil || *c.Canonical != "insert into x select a.b as b" {
		t.Errorf("a whole mapping: %+v", c)
	}
	s.send(400, "GET", "/v1/query/complete?q=a&kind=other", typeJSONHeader, "")
}

func TestQueriesAreSaved(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	_, body := s.send(201, "PUT", "/v1/queries/hot", typeJSONHeader, `{"title":"Hot rooms","filter":"t > 30","view":{"columns":["t"]}}`)
	if !strings.Contains(body, `"title":"Hot rooms","filter":"t > 30","view":{"columns":["t"]}`) {
		t.Errorf("saved: %s", body)
	}
	same(t, "read", s.document("/v1/queries/hot"), body)
	same(t, "listed", s.document("/v1/queries"), `{"queries":[`+body+`]}`)
	s.send(428, "PUT", "/v1/queries/hot", typeJSONHeader, `{"filter":"t > 31"}`)
	s.send(400, "PUT", "/v1/queries/hot", typeJSONHeader, `{"filter":"t >"}`, "If-Match", "*")
	s.send(200, "PUT", "/v1/queries/hot", typeJSONHeader, `{"filter":"t > 31"}`, "If-Match", "*")
	s.send(204, "DELETE", "/v1/queries/hot", typeJSONHeader, "")
	s.send(404, "GET", "/v1/queries/hot", typeJSONHeader, "")
}
