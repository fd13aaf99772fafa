package server

import (
	"bufio"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestMappingsAreInstalledExplainedAndRemoved(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `{"ts":1000,"values":{"x":1,"y":2}}`)
	_, body := s.send(201, "PUT", "/v1/mappings/heat", "text/plain", "insert into b select a.x + a.y as heat")
	if !strings.Contains(body, `"text":"insert into b select a.x + a.y as heat"`) || !strings.Contains(body, `"into":"b"`) {
		t.Errorf("installed: %s", body)
	}
	s.post("a", `{"ts":2000,"values":{"x":5}}`)
	if err := s.mappings.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "mapped", s.latest("b"), "map[heat:7]")
	var explained struct {
		TS                    int64
		Computed, SameVersion bool
		Source                string
		SourceSeq             uint64 `json:"source_seq"`
		Mapping               struct {
			Name   string
			State  string
			Fields []struct {
				As      string
				Sources []struct {
					Source string
					Value  int
				}
			}
		}
	}
	for _, ts := range []string{"", "?ts=2000"} {
		s.get("/v1/entities/b/telemetry/heat/explain"+ts, &explained)
		if explained.TS != 2000 || !explained.Computed || explained.SourceSeq == 0 || !strings.HasPrefix(explained.Source, "mapping:heat@") ||
			explained.Mapping.State != "active" || len(explained.Mapping.Fields[0].Sources) != 2 {
			t.Errorf("explained%s: %+v", ts, explained)
		}
	}
	if text := s.document("/v1/entities/b"); !strings.Contains(text, `"mapping":"heat","source":"mapping:heat@`) {
		t.Errorf("the entity is %s", text)
	}
	if text := s.document("/v1/entities/a/telemetry/x/explain"); !strings.Contains(text, `"value":5,"computed":false}`) {
		t.Errorf("a device's value: %s", text)
	}
	s.send(404, "GET", "/v1/entities/b/telemetry/heat/explain?ts=5", typeJSONHeader, "")
	if text := s.document("/v1/mappings"); !strings.Contains(text, `"mappings":[{"name":"heat"`) || !strings.Contains(text, `"stats":{"mappings":1,`) || strings.Contains(text, `"fields"`) {
		t.Errorf("listed: %s", text)
	}
	s.send(428, "PUT", "/v1/mappings/heat", "text/plain", "insert into b select a.x as heat")
	s.send(200, "PUT", "/v1/mappings/heat", typeJSONHeader, `{"into":"b","select":[{"as":"heat","value":"a.x * 2"}]}`, "If-Match", "*")
	if _, body := s.send(200, "POST", "/v1/mappings/heat/recompute", typeJSONHeader, `{"from":0,"to":"1970-01-01T00:00:10Z"}`); !strings.HasPrefix(body, `{"written":`) {
		t.Errorf("recomputed: %s", body)
	}
	same(t, "after it", s.document("/v1/entities/b/telemetry/heat"), `{"entity":"b","key":"heat","points":[{"ts":1000,"value":2},{"ts":2000,"value":10}]}`)
	s.send(204, "DELETE", "/v1/mappings/heat", typeJSONHeader, "")
	s.send(404, "GET", "/v1/mappings/heat", typeJSONHeader, "")
}

// What a mapping has written belongs to its target: it stays when the mapping is replaced or deleted,
// over a restart and when the target is written to by others.
func TestWhatAMappingHasWrittenStaysWithoutIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	read := func() string { return s.document("/v1/entities/b/telemetry/heat") }
	explained := func(ts string) string { return s.document("/v1/entities/b/telemetry/heat/explain?ts=" + ts) }
	s.send(201, "PUT", "/v1/mappings/one", "text/plain", "insert into b select a.x as heat")
	s.post("a", `{"ts":1000,"values":{"x":1}}`)
	if err := s.mappings.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.send(200, "PUT", "/v1/mappings/one", "text/plain", "insert into c select a.x * 10 as heat", "If-Match", "*")
	s.post("a", `{"ts":2000,"values":{"x":2}}`)
	if err := s.mappings.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.send(204, "DELETE", "/v1/mappings/one", typeJSONHeader, "")
	s.post("a", `{"ts":3000,"values":{"x":3}}`)
	const first = `{"entity":"b","key":"heat","points":[{"ts":1000,"value":1}]}`
	for _, restarted := range []bool{false, true} {
		if restarted {
			if err := s.stopped(t); err != nil {
				t.Fatal(err)
			}
			s = start(t, dir)
		}
		same(t, "the first target", read(), first)
		same(t, "the second target", s.document("/v1/entities/c/telemetry/heat"), `{"entity":"c","key":"heat","points":[{"ts":1000,"value":10},{"ts":2000,"value":20}]}`)
		if text := explained("1000"); !strings.Contains(text, `"source":"mapping:one@`) || strings.Contains(text, `"state"`) {
			t.Errorf("explained: %s", text)
		}
	}
	// The key is free for another mapping, and for a device.
	s.send(201, "PUT", "/v1/mappings/two", "text/plain", "insert into b select a.x * 100 as heat")
	s.post("a", `{"ts":4000,"values":{"x":4}}`)
	if err := s.mappings.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.send(204, "DELETE", "/v1/mappings/two", typeJSONHeader, "")
	s.post("b", `{"ts":5000,"values":{"heat":5}}`)
	same(t, "all of them", read(), `{"entity":"b","key":"heat","points":[{"ts":1000,"value":1},{"ts":3000,"value":300},{"ts":4000,"value":400},{"ts":5000,"value":5}]}`)
	// It goes with its entity.
	s.send(204, "DELETE", "/v1/entities/b", typeJSONHeader, "")
	s.post("b", `{"ts":6000,"values":{"heat":6}}`)
	same(t, "a new entity", read(), `{"entity":"b","key":"heat","points":[{"ts":6000,"value":6}]}`)
}

func TestWrongMappingsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/mappings/one", "text/plain", "insert into b select a.x as y")
	for _, tt := range []struct {
		status              int
		path, media, body   string
		mentions, mentions2 string
	}{
		{400, "two", "text/plain", "insert into b select a.x +", `"line":1`, `"column":`},
		{400, "two", typeJSONHeader, `{"into":"b","select":[{"as":"z","value":"a.x +"}]}`, `"in":"select[0].value"`, `"column":`},
		{400, "two", typeJSONHeader, `{"into":"b","set":1}`, "set", ""},
		{409, "two", "text/plain", "insert into a select b.y as x", `"cycle":["`, `"mappings":["`},
		{409, "two?check=true", "text/plain", "insert into a select b.y as x", `"cycle":["`, ""},
		{409, "two", "text/plain", "insert into b select c.x as y", "one", ""},
		{415, "two", "application/xml", "<a/>", "text/plain", ""},
		{400, "t%20o", "text/plain", "insert into c select a.x as y", "name", ""},
	} {
		resp, body := s.do("PUT", "/v1/mappings/"+tt.path, tt.body, "Content-Type", tt.media)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.mentions) || !strings.Contains(body, tt.mentions2) {
			t.Errorf("PUT %s %s: %s %s, want %d with %s %s", tt.path, tt.body, resp.Status, body, tt.status, tt.mentions, tt.mentions2)
		}
	}
	s.send(204, "PUT", "/v1/mappings/two?check=true", "text/plain", "insert into c select a.x as y")
	s.send(404, "GET", "/v1/mappings/two", typeJSONHeader, "")
}

// Lists and exports of them ended in a panic.
func TestAMappingThatCannotBeReadIsShownAndExported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	if _, err := s.runtime.PutDoc(t.Context(), "mapping", "bad", []byte(`{"statement":"insert into"}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	var list struct {
		Mappings []struct{ Name, State, Problem, Text string }
	}
	s.get("/v1/mappings", &list)
	if len(list.Mappings) != 1 || list.Mappings[0].State != "refused" || list.Mappings[0].Problem == "" {
		t.Errorf("listed: %+v", list)
	}
	if _, body := s.send(200, "GET", "/v1/mappings/bad", "", ""); !strings.Contains(body, `"text":"insert into"`) {
		t.Errorf("shown: %s", body)
	}
	if _, body := s.send(200, "GET", "/v1/export?what=mappings", "", ""); !strings.Contains(body, `"insert into"`) {
		t.Errorf("exported: %s", body)
	}
	// One that is deleted while the first line is written is left out.
	var text strings.Builder
	once := sync.OnceFunc(func() {
		if err := s.mappings.Delete(t.Context(), "bad", ""); err != nil {
			t.Error(err)
		}
	})
	s.send(201, "PUT", "/v1/mappings/aaa", "text/plain", "insert into e select a.x as y", "If-None-Match", "*")
	s.send(201, "PUT", "/v1/mappings/zzz", "text/plain", "insert into e select a.x as z", "If-None-Match", "*")
	x := &exporter{transferAPI: &transferAPI{mappings: s.mappings}, ctx: t.Context(), out: bufio.NewWriterSize(writerFunc(func(p []byte) (int, error) {
		once()
		return text.Write(p)
	}), 16)}
	if err := errors.Join(x.eachMapping(), x.out.Flush()); err != nil || strings.Count(text.String(), "\n") != 2 || strings.Contains(text.String(), "bad") {
		t.Errorf("exported: %q, %v", text.String(), err)
	}
}

// writerFunc writes by a function.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
