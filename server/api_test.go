package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/inspect"
)

func TestMistakesGetAProblemThatSaysWhatMustBe(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("room", `{"ts":1000,"values":{"t":1}}`)
	jsonType := []string{"Content-Type", "application/json"}
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		detail             string
	}{
		{"GET", "/nothing", "", nil, 404, "/openapi.json"},
		{"GET", "/v1/entities/", "", nil, 404, "/openapi.json"},
		{"GET", "/v1/entities/nobody", "", nil, 404, "nobody"},
		{"GET", "/v1/entities/a%2Fb", "", nil, 400, "'/' is not allowed"},
		{"GET", "/v1/entities/nobody/telemetry/t", "", nil, 404, "nobody"},
		{"GET", "/v1/actors?path=/nobody", "", nil, 404, "begins with /"},
		{"DELETE", "/v1/entities", "", nil, 405, "GET, HEAD or POST"},
		{"PUT", "/v1/entities/room/telemetry", "", nil, 405, "must be POST"},
		{"POST", "/", "", nil, 405, "GET or HEAD"},
		{"GET", "/v1/entities?limit=0", "", nil, 400, "from 1 to 1000"},
		{"GET", "/v1/entities?limit=many", "", nil, 400, "from 1 to 1000"},
		{"GET", "/v1/entities?limit=", "", nil, 400, "from 1 to 1000"},
		{"GET", "/v1/entities?limit=1&limit=2", "", nil, 400, "given once"},
		{"GET", "/v1/entities?serach=x", "", nil, 400, "limit, cursor, search"},
		{"GET", "/v1/entities?search=%zz", "", nil, 400, "%XX"},
		{"GET", "/v1/entities?cursor=!", "", nil, 400, "next"},
		{"GET", "/v1/entities?search=" + strings.Repeat("x", 300), "", nil, 400, "256"},
		{"GET", "/v1/system?verbose=1", "", nil, 400, "takes none"},
		{"GET", "/v1/entities/room/telemetry/t?from=yesterday", "", nil, 400, "RFC 3339"},
		{"GET", "/v1/entities/room/telemetry/t?from=2000&to=1000", "", nil, 400, "before to"},
		{"GET", "/v1/entities/room/telemetry/t?to=0", "", nil, 400, "before to"},
		{"GET", "/v1/entities/room/telemetry/t?order=up", "", nil, 400, "asc"},
		{"GET", "/v1/entities/room/telemetry/t?limit=100001", "", nil, 400, "100000"},
		{"GET", "/v1/entities/room/telemetry/t?cursor=!", "", nil, 400, "next"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&tz=Europe/Berlin", "", nil, 400, "step=day"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&tz=Nowhere&step=day", "", nil, 400, "Europe/Berlin"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&tz=Europe/Berlin&step=1h", "", nil, 400, "unit of the calendar"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&step=1h&fill=some", "", nil, 400, "linear"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&points=5", "", nil, 400, "must not be given with agg"},
		{"GET", "/v1/entities/room/telemetry/t?points=1", "", nil, 400, "from 2 to 10000"},
		{"GET", "/v1/entities/room/telemetry/t?points=5&limit=1", "", nil, 400, "must not be given with points"},
		{"GET", "/v1/entities/room/telemetry/t?step=1h", "", nil, 400, "need agg"},
		{"GET", "/v1/entities/room/telemetry/t?agg=median&step=1h", "", nil, 400, "avg, min, max, sum, count"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&step=soon", "", nil, 400, "15m"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&step=1us", "", nil, 400, "whole milliseconds"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&step=99999999999999w", "", nil, 400, "15m"},
		{"GET", "/v1/entities/room/telemetry/t?agg=avg&step=1h&limit=3", "", nil, 400, "must not be given with agg"},
		{"GET", "/v1/stream?cursor=nonsense", "", nil, 400, "cursor"},
		{"GET", "/v1/stream?entity=a/b", "", nil, 400, "'/' is not allowed"},
		{"POST", "/v1/entities/room/telemetry", `t=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type: application/json"},
		{"POST", "/v1/entities/room/telemetry", `{}`, []string{"Content-Type", "application/json; charset=latin1"}, 415, "UTF-8"},
		{"POST", "/v1/entities/room/telemetry", `{}`, []string{"Content-Encoding", "gzip"}, 415, "gzip"},
		{"POST", "/v1/entities/room/telemetry", `{"t":`, jsonType, 400, "at byte 5"},
		{"POST", "/v1/entities/room/telemetry", ``, jsonType, 400, "empty"},
		{"POST", "/v1/entities/a+b/telemetry", `{"t":1}`, jsonType, 400, "'+' is not allowed"},
		{"POST", "/v1/entities/room/telemetry?ts=1", `{"t":1}`, jsonType, 400, "takes none"},
		{"POST", "/v1/entities/room/telemetry", strings.Repeat(" ", entity.MaxPayloadBytes+1), jsonType, 413, "1048576"},
		{"GET", "/v1/entities", "", []string{"Host", "rebound.example:8080"}, 403, "127.0.0.1"},
		{"GET", "/", "", []string{"Host", "192.0.2.7"}, 403, "127.0.0.1"},
		{"POST", "/v1/entities/room/telemetry", `{"t":1}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "another origin"},
		{"POST", "/v1/entities/room/telemetry", `{"t":1}`, []string{"Origin", "https://elsewhere.example"}, 403, "another origin"},
	} {
		resp, body := s.do(tt.method, tt.path, tt.body, tt.header...)
		var p problem
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s %.80s: %v in %s", tt.method, tt.path, err, body)
			continue
		}
		path, _, _ := strings.Cut(tt.path, "?")
		switch {
		case resp.StatusCode != tt.status || p.Status != tt.status:
			t.Errorf("%s %.80s: %s %s, want %d", tt.method, tt.path, resp.Status, body, tt.status)
		case resp.Header.Get("Content-Type") != "application/problem+json" || p.Title != http.StatusText(tt.status) || p.Type != "about:blank" || p.Instance != path:
			t.Errorf("%s %.80s: %s %s is not a complete problem document", tt.method, tt.path, resp.Header.Get("Content-Type"), body)
		case !strings.Contains(p.Detail, tt.detail):
			t.Errorf("%s %.80s: detail %q does not contain %q", tt.method, tt.path, p.Detail, tt.detail)
		case tt.status == 405 && resp.Header.Get("Allow") == "":
			t.Errorf("%s %.80s: no Allow", tt.method, tt.path)
		}
	}
	same(t, "latest after all of this", s.latest("room"), map[string]string{"t": "1"})
	same(t, "refused over the syntax", s.metric(`greenroom_refused_total{cause="syntax",source="http"}`), "1")
}

func TestLocalNamesAndPagesOfTheServerItselfMayAsk(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, host := range []string{"localhost", "LOCALHOST:1234", "127.0.0.1:9", "127.9.9.9", "[::1]", "[::1]:80"} {
		if resp, body := s.do("GET", "/healthz", "", "Host", host); resp.StatusCode != http.StatusOK {
			t.Errorf("Host %s: %s %s", host, resp.Status, body)
		}
	}
	resp, body := s.do("POST", "/v1/entities/room/telemetry", `{"t":1}`, "Host", "localhost:8080", "Origin", "http://localhost:8080")
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("POST of the own origin: %s %s", resp.Status, body)
	}
}

func TestEntitiesComeInPages(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	want := []string{"Büro 1", "hall", "office-1", "office-2", "office-3"}
	for i, id := range []string{"office-2", "hall", "office-3", "Büro 1", "office-1"} {
		s.post(url.PathEscape(id), fmt.Sprintf(`{"ts":%d,"values":{"t":%d.5}}`, 1000+i, i))
	}
	type page struct {
		Entities []entityListed
		Next     string
	}
	list := func(query string) (ids []string) {
		for cursor := ""; ; {
			var p page
			s.get("/v1/entities?limit=2"+query+"&cursor="+url.QueryEscape(cursor), &p)
			if len(p.Entities) > 2 {
				t.Fatalf("%d entities in a page of 2", len(p.Entities))
			}
			for _, e := range p.Entities {
				ids = append(ids, e.ID)
			}
			if cursor = p.Next; cursor == "" {
				return ids
			}
		}
	}
	same(t, "all", list(""), want)
	same(t, "search", list("&search=OFFICE"), want[2:])
	same(t, "search without a match", list("&search=cellar"), []string(nil))
	_, raw := s.do("GET", "/v1/entities?search=hall", "")
	var p page
	s.get("/v1/entities?search=hall", &p)
	e := p.Entities[0]
	if e.Updated != 1001 || e.Created == 0 || e.Latest["t"].TS != 1001 || e.Latest["t"].Seq != 1 || string(e.Latest["t"].Value) != "1.5" || !strings.Contains(e.Actor, "hall") {
		t.Errorf("the entity is %s", raw)
	}
	if strings.Contains(raw, `"next"`) {
		t.Errorf("the last page has a next: %s", raw)
	}
}

type entityListed struct {
	ID      string
	Created int64 `json:"created_ms"`
	Updated int64 `json:"updated_ms"`
	Latest  map[string]struct {
		Value json.RawMessage
		TS    int64
		Seq   uint64
	}
	Actor string
}

func TestHistoryHasRangeOrderLimitAndPages(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	var readings []string
	for i := range 10 {
		readings = append(readings, fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, 1_000_000+i*1000, i))
	}
	s.post("room", "["+strings.Join(readings, ",")+"]")
	read := func(query string) (values []int) {
		t.Helper()
		for cursor := ""; ; {
			var page struct {
				Entity, Key, Next string
				Points            []struct{ TS, Value int }
			}
			s.get("/v1/entities/room/telemetry/n?"+query+cursor, &page)
			if page.Entity != "room" || page.Key != "n" {
				t.Fatalf("a page of %s %s", page.Entity, page.Key)
			}
			for _, p := range page.Points {
				if p.TS != 1_000_000+p.Value*1000 {
					t.Errorf("the value %d is at %d", p.Value, p.TS)
				}
				values = append(values, p.Value)
			}
			if page.Next == "" {
				return values
			}
			cursor = "&cursor=" + url.QueryEscape(page.Next)
		}
	}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	down := slices.Clone(all)
	slices.Reverse(down)
	same(t, "all", read(""), all)
	same(t, "in pages", read("limit=3"), all)
	same(t, "descending in pages", read("limit=3&order=desc"), down)
	same(t, "from", read("from=1003000"), all[3:])
	same(t, "to is not included", read("to=1003000"), all[:3])
	same(t, "range of RFC 3339", read("from=1970-01-01T00:16:42Z&to=1970-01-01T01:16:44.5%2B01:00"), all[2:5])
	same(t, "plus sign unescaped", read("from=1970-01-01T01:16:42+01:00&limit=4"), all[2:])
	same(t, "empty range", read("from=5000000"), []int(nil))
	same(t, "far range", read("from=-5&to=999999999999999999"), all)
	if _, body := s.do("GET", "/v1/entities/room/telemetry/n?from=5000000", ""); strings.TrimSpace(body) != `{"entity":"room","key":"n","points":[]}` {
		t.Errorf("an empty history is %s", body)
	}
}

func TestAggregatesAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("room", `[{"ts":0,"values":{"n":1}},{"ts":1000,"values":{"n":2.5}},{"ts":3599999,"values":{"n":"off"}},{"ts":7200000,"values":{"n":-4}}]`)
	for query, want := range map[string]string{
		"agg=avg,min,max,sum,count&step=1h": `{"entity":"room","key":"n","step_ms":3600000,"buckets":[{"ts":0,"avg":1.75,"min":1,"max":2.5,"sum":3.5,"count":2},{"ts":7200000,"avg":-4,"min":-4,"max":-4,"sum":-4,"count":1}]}`,
		"agg=count&step=1d":                 `{"entity":"room","key":"n","step_ms":86400000,"buckets":[{"ts":0,"count":3}]}`,
		"agg=max,%20max&step=1000":          `{"entity":"room","key":"n","step_ms":1000,"buckets":[{"ts":0,"max":1},{"ts":1000,"max":2.5},{"ts":7200000,"max":-4}]}`,
		"agg=sum&step=1w&from=1000&to=2000": `{"entity":"room","key":"n","step_ms":604800000,"buckets":[{"ts":0,"sum":2.5}]}`,
	} {
		_, body := s.do("GET", "/v1/entities/room/telemetry/n?"+query, "")
		same(t, query, strings.TrimSpace(body), want)
	}
}

func TestKeysMayHaveAnyCharacters(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const key = `a/b "c" ü?`
	s.post("room", `{"ts":1,"values":{"a/b \"c\" ü?":1}}`)
	var page struct{ Points []any }
	s.get("/v1/entities/room/telemetry/"+url.PathEscape(key), &page)
	if len(page.Points) != 1 {
		t.Errorf("%d points", len(page.Points))
	}
}

func TestAnswersOfTheAPIAreNotStored(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	resp, _ := s.do("GET", "/v1/entities", "")
	same(t, "Cache-Control", resp.Header.Get("Cache-Control"), "no-store")
	same(t, "X-Content-Type-Options", resp.Header.Get("X-Content-Type-Options"), "nosniff")
	resp, body := s.do("HEAD", "/v1/entities", "")
	if resp.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: %s %q", resp.Status, body)
	}
}

func TestSystemAndActorsAreThoseThatRun(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("room", `{"t":1,"h":2}`)
	var system systemJSON
	s.get("/v1/system", &system)
	if system.Name != "greenroom" || system.Version != "v0.0.0-test" || system.Actors < 2 || system.Handled == 0 || system.Ingest.Readings != 1 ||
		system.Ingest.Values != 2 || system.Ingest.Live != 1 || system.Ingest.Registered != 1 || system.Ingest.WindowMax == 0 || system.Ingest.CommitP99 <= 0 {
		t.Errorf("the system is %+v", system)
	}
	if a := system.Addresses; net.JoinHostPort(a.MQTT.Host, strconv.Itoa(a.MQTT.Port)) != s.MQTTAddr() || net.JoinHostPort(a.HTTP.Host, strconv.Itoa(a.HTTP.Port)) != s.HTTPAddr() || a.HTTP.TLS || a.MQTT.TLS {
		t.Errorf("the addresses are %+v", a)
	}
	if _, body := s.do("GET", "/v1/system", ""); !strings.Contains(body, `"recent":[]`) || !strings.Contains(body, `"by_reason":{}`) {
		t.Errorf("without dead letters: %s", body)
	}
	var root, manager, room inspect.ActorTree
	s.get("/v1/actors", &root)
	if root.Actor.Path != "/" || len(root.Children) == 0 || root.Now == 0 {
		t.Fatalf("the root is %+v", root)
	}
	s.get("/v1/actors?limit=1&path="+url.QueryEscape(root.Children[0].Path), &manager)
	if len(manager.Children) != 1 || manager.More {
		t.Fatalf("the Entity Manager is %+v", manager)
	}
	s.get("/v1/actors?path="+url.QueryEscape(manager.Children[0].Path), &room)
	if room.Actor.State != "running" || room.Actor.Handled == 0 || room.Actor.PID == "" {
		t.Errorf("the room's actor is %+v", room)
	}
}

func TestMetricsHaveNoUnboundedLabels(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 20 {
		s.post(fmt.Sprintf("room-%d", i), fmt.Sprintf(`{"key_%d":1}`, i))
		s.do("GET", fmt.Sprintf("/v1/entities/room-%d", i), "")
		s.do("GET", fmt.Sprintf("/nothing-%d", i), "")
	}
	_, body := s.do("GET", "/metrics", "")
	for _, name := range []string{
		"greenroom_readings_total 20", "greenroom_values_total 20", "greenroom_entities_live 20", "greenroom_entities_registered 20",
		"greenroom_mqtt_connections 0", "greenroom_commit_seconds_count 20", `greenroom_commit_seconds_bucket{le="+Inf"} 20`,
		`greenroom_http_requests_total{method="GET",route="/v1/entities/{id}",status="200"} 20`,
		`version="v0.0.0-test"`, "go_goroutines", "greenroom_actor_messages_total", "greenroom_window_bytes ", "greenroom_devices_went_online_total ",
	} {
		if !strings.Contains(body, name) {
			t.Errorf("the metrics have no %s", name)
		}
	}
	for _, leak := range []string{"room-", "key_1", "nothing-"} {
		if strings.Contains(body, leak) {
			t.Errorf("a name from outside is in the metrics: %s", leak)
		}
	}
}

// parameter is one of the description, or what leads to one.
type parameter struct {
	Name, In string
	Ref      string `json:"$ref"`
}

func TestOpenAPIDescribesTheRoutesAndNothingElse(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	type operation struct {
		OperationID string `json:"operationId"`
		Parameters  []parameter
		Responses   map[string]any
	}
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]operation
		Components struct{ Parameters map[string]parameter }
	}
	s.get("/openapi.json", &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("the version is %q", doc.OpenAPI)
	}
	described, ids := map[string][]string{}, map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			query := []string{}
			for _, p := range op.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					p = doc.Components.Parameters[name]
				}
				switch p.In {
				case "query":
					query = append(query, p.Name)
				case "path":
					if !strings.Contains(path, "{"+p.Name+"}") {
						t.Errorf("%s has no {%s}", path, p.Name)
					}
				}
			}
			if op.OperationID == "" || ids[op.OperationID] || len(op.Responses) == 0 {
				t.Errorf("%s %s has no id of its own or no responses", method, path)
			}
			ids[op.OperationID] = true
			described[strings.ToUpper(method)+" "+path] = query
		}
	}
	for _, rt := range s.operations {
		name := rt.method + " " + rt.pattern
		query, ok := described[name]
		if !ok {
			t.Errorf("%s is not described", name)
		}
		known := rt.request.names("query")
		slices.Sort(known)
		slices.Sort(query)
		if !slices.Equal(known, query) {
			t.Errorf("%s takes %v, described are %v", name, known, query)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("%s is described and does not exist", name)
	}
}

func TestOpenAPIReferencesResolve(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	there, used := map[string]bool{}, map[string]bool{}
	for kind, components := range doc["components"].(map[string]any) {
		for name := range components.(map[string]any) {
			there["#/components/"+kind+"/"+name] = true
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				if used[ref] = true; !there[ref] {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, item := range v {
				walk(item)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(doc)
	for ref := range there {
		event := strings.HasSuffix(ref, "/Change") || strings.HasSuffix(ref, "/EditEvent") || strings.HasSuffix(ref, "/CommandEvent") || strings.HasSuffix(ref, "/PresenceEvent") // the data of events, which OpenAPI cannot say
		if !used[ref] && !event {
			t.Errorf("%s is not used", ref)
		}
	}
}
