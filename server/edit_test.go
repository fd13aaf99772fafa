package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	typeJSONHeader  = "application/json"
	typeMergeHeader = "application/merge-patch+json"
	typePatchHeader = "application/json-patch+json"
)

// send sends a body of a media type and returns the answer, which must have the
// status.
func (r *running) send(status int, method, path, media, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	resp, text := r.do(method, path, body, append([]string{"Content-Type", media}, header...)...)
	if resp.StatusCode != status {
		r.t.Fatalf("%s %s %s: %s %s, want %d", method, path, body, resp.Status, text, status)
	}
	return resp, strings.TrimSpace(text)
}

// document returns the body of a GET.
func (r *running) document(path string) string {
	r.t.Helper()
	resp, text := r.do("GET", path, "")
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s: %s %s", path, resp.Status, text)
	}
	return strings.TrimSpace(text)
}

func TestEntityIsMadeReadReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"building"}`)
	resp, _ := s.send(201, "POST", "/v1/entities", typeJSONHeader,
		`{"id":"room-1","attributes":{"floor":3,"tags":["a","b"]},"desired":{"setpoint":21},"reported":{"setpoint":19},"relations":[{"type":"isIn","to":"building","properties":{"since":2020}}]}`)
	same(t, "location", resp.Header.Get("Location"), "/v1/entities/room-1")
	s.post("room-1", `{"ts":1000,"values":{"t":21.5}}`)
	var e struct {
		ID, ETag                             string
		Attributes, Desired, Reported, Delta json.RawMessage
		Metadata                             map[string]map[string]struct{ Timestamp int64 }
		Relations                            struct{ Out, In map[string]int }
		Latest                               map[string]struct{ TS int64 }
	}
	s.get("/v1/entities/room-1", &e)
	same(t, "attributes", string(e.Attributes), `{"floor":3,"tags":["a","b"]}`)
	same(t, "delta", string(e.Delta), `{"setpoint":21}`)
	same(t, "relations", e.Relations, "{map[isIn:1] map[]}")
	if e.Latest["t"].TS != 1000 || e.Metadata["delta"]["setpoint"].Timestamp == 0 || e.ETag == "" {
		t.Errorf("the entity is %+v", e)
	}
	s.send(409, "POST", "/v1/entities", typeJSONHeader, `{"id":"room-1"}`)
	s.send(428, "PUT", "/v1/entities/room-1", typeJSONHeader, `{"attributes":{"floor":4}}`)
	s.send(412, "PUT", "/v1/entities/room-1", typeJSONHeader, `{}`, "If-Match", `"nonsense"`)
	s.send(412, "PUT", "/v1/entities/room-1", typeJSONHeader, `{}`, "If-None-Match", `*`)
	s.send(412, "PUT", "/v1/entities/nobody", typeJSONHeader, `{}`, "If-Match", `*`)
	resp, _ = s.send(200, "PUT", "/v1/entities/room-1", typeJSONHeader, `{"attributes":{"floor":4},"relations":[]}`, "If-Match", `"`+e.ETag+`"`)
	s.get("/v1/entities/room-1", &e)
	same(t, "attributes", string(e.Attributes)+string(e.Desired), `{"floor":4}{}`)
	if strings.Contains(s.document("/v1/entities/room-1?fields=relations"), "isIn") {
		t.Error("the relation is still there")
	}
	s.send(412, "DELETE", "/v1/entities/room-1", typeJSONHeader, "", "If-Match", `"old"`)
	s.send(204, "DELETE", "/v1/entities/room-1", typeJSONHeader, "", "If-Match", resp.Header.Get("ETag"))
	s.send(404, "DELETE", "/v1/entities/room-1", typeJSONHeader, "")
	s.send(404, "GET", "/v1/entities/room-1/telemetry/t", typeJSONHeader, "")
}

func TestEntityWithoutIDGetsOne(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	resp, _ := s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"attributes":{"a":1}}`)
	same(t, "attributes", s.document(resp.Header.Get("Location")+"/attributes/attributes"), `{"a":1}`)
}

func TestSectionsArePatched(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const path = "/v1/entities/room/attributes"
	s.send(201, "PATCH", path+"/desired", typeMergeHeader, `{"a":{"b":1,"c":2},"d":[1]}`)
	_, body := s.send(200, "PATCH", path+"/desired", typeMergeHeader, `{"a":{"b":null},"e":true}`)
	if !strings.Contains(body, `{"section":"desired","path":"/a/b","removed":true}`) || !strings.Contains(body, `{"section":"desired","path":"/e"}`) {
		t.Errorf("what changed: %s", body)
	}
	same(t, "desired", s.document(path+"/desired"), `{"a":{"c":2},"d":[1],"e":true}`)
	s.send(200, "PATCH", path+"/desired", typePatchHeader, `[{"op":"test","path":"/e","value":true},{"op":"add","path":"/d/-","value":2},{"op":"move","from":"/e","path":"/a/e"}]`)
	same(t, "desired", s.document(path+"/desired"), `{"a":{"c":2,"e":true},"d":[1,2]}`)
	s.send(200, "PATCH", path, typePatchHeader, `[{"op":"add","path":"/reported/x","value":1},{"op":"remove","path":"/desired/a"},{"op":"add","path":"/reported/y","value":2}]`)
	same(t, "reported and desired", s.document(path+"/reported")+s.document(path+"/desired"), `{"x":1,"y":2}{"d":[1,2]}`)
	s.send(200, "PATCH", path, typeMergeHeader, `{"desired":{"d":null,"x":1,"z":3},"reported":null,"attributes":{"n":1}}`)
	same(t, "all sections", s.document(path+"/desired")+s.document(path+"/reported")+s.document(path+"/attributes")+s.document(path+"/delta"), `{"x":1,"z":3}{}{"n":1}{"x":1,"z":3}`)
	s.send(428, "PUT", path+"/attributes", typeJSONHeader, `{"m":1}`)
	s.send(200, "PUT", path+"/attributes", typeJSONHeader, `{"m":1}`, "If-Match", "*")
	s.send(200, "PUT", path, typeJSONHeader, `{"reported":{"x":1}}`, "If-Match", "*")
	same(t, "after the replacement", s.document(path+"/attributes")+s.document(path+"/reported")+s.document(path+"/desired"), `{}{"x":1}{}`)
}

func TestWrongPatchesAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const path = "/v1/entities/room/attributes"
	s.send(201, "PATCH", path+"/desired", typeMergeHeader, `{"a":1}`)
	for _, tt := range []struct {
		status                     int
		method, path, media, body  string
		condition, value, mentions string
	}{
		{409, "PATCH", "/desired", typePatchHeader, `[{"op":"test","path":"/a","value":2}]`, "", "", "operation 0 (test /a): test of the patch failed: conflict: there is 1, not 2"},
		{409, "PATCH", "/desired", typePatchHeader, `[{"op":"test","path":"/a","value":2}]`, "If-Match", "*", "there is 1, not 2"},
		{409, "PATCH", "/desired", typePatchHeader, `[{"op":"test","path":"/b","value":2}]`, "If-Match", "*", "there is nothing at \\\"/b\\\""},
		{409, "PATCH", "", typePatchHeader, `[{"op":"test","path":"/desired/a","value":"1"}]`, "", "", "patch of desired: operation 0 (test /a)"},
		{412, "PATCH", "/desired", typePatchHeader, `[{"op":"test","path":"/a","value":1}]`, "If-Match", `"x"`, "read it again"},
		{400, "PATCH", "/desired", typePatchHeader, `{"a":1}`, "", "", "JSON patch"},
		{400, "PATCH", "/desired", typeMergeHeader, `[1]`, "", "", "JSON object"},
		{415, "PATCH", "/desired", typeJSONHeader, `{"a":1}`, "", "", "merge-patch+json"},
		{404, "PATCH", "/wanted", typeMergeHeader, `{"a":1}`, "", "", "desired"},
		{422, "PATCH", "/delta", typeMergeHeader, `{"a":1}`, "", "", "desired and reported"},
		{400, "PATCH", "", typePatchHeader, `[{"op":"add","path":"/a","value":1}]`, "", "", "/reported"},
		{400, "PATCH", "", typePatchHeader, `[{"op":"move","from":"/desired/a","path":"/reported/a"}]`, "", "", "in the same section"},
		{400, "PATCH", "", typePatchHeader, `[{"op":"add","value":1}]`, "", "", "path must be a string"},
		{400, "PATCH", "", typeMergeHeader, `{"wanted":{}}`, "", "", "wanted"},
		{400, "PATCH", "", typeMergeHeader, `{"id":"x"}`, "", "", "unknown member \\\"id\\\""},
		{400, "PATCH", "/desired", typeMergeHeader, `{}`, "If-Match", `a`, "quotes"},
		{400, "PATCH", "/desired", typeMergeHeader, `{}`, "If-None-Match", `"a"`, "If-None-Match must be *"},
	} {
		header := []string{}
		if tt.condition != "" {
			header = append(header, tt.condition, tt.value)
		}
		resp, body := s.do(tt.method, path+tt.path, tt.body, append(header, "Content-Type", tt.media)...)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.mentions) {
			t.Errorf("%s %s %s: %s %s, want %d and %q", tt.method, tt.path, tt.body, resp.Status, body, tt.status, tt.mentions)
		}
	}
	same(t, "desired after all of this", s.document(path+"/desired"), `{"a":1}`)
}

// The problem of a failed test is its own, whatever the version has become since.
func TestFailedTestOfAPatchIsNotTakenForTheCondition(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PATCH", "/v1/entities/room/attributes/desired", typeMergeHeader, `{"a":1}`)
	failed := fmt.Errorf("entity \"room\": patch of desired: %w: there is 1, not 2", entity.ErrTestFailed)
	for _, condition := range []string{"", "a version that is no more", entity.IfAny} {
		p := problemOf((&editor{s.runtime}).problem(t.Context(), "room", &entity.Edits{If: condition}, condition != "", failed))
		if p.Status != http.StatusConflict || !strings.Contains(p.Detail, "there is 1, not 2") {
			t.Errorf("with the condition %q: %v", condition, p)
		}
	}
}

func TestUnchangedIsSaidSo(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PATCH", "/v1/entities/room/attributes/desired", typeMergeHeader, `{"a":1}`)
	for _, path := range []string{"/v1/entities/room", "/v1/entities/room/attributes", "/v1/entities/room/attributes/delta"} {
		resp, _ := s.do("GET", path, "")
		tag := resp.Header.Get("ETag")
		if resp, body := s.do("GET", path, "", "If-None-Match", tag); resp.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("GET %s with its version %s: %s %s", path, tag, resp.Status, body)
		}
		s.send(200, "PATCH", "/v1/entities/room/attributes/desired", typeMergeHeader, fmt.Sprintf(`{"a":%q}`, path), "If-Match", tag)
		if resp, _ := s.do("GET", path, "", "If-None-Match", tag); resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s with an old version: %s", path, resp.Status)
		}
	}
	resp, _ := s.do("GET", "/v1/entities/room", "")
	s.post("room", `{"t":1}`)
	if resp, _ := s.do("GET", "/v1/entities/room", "", "If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusOK {
		t.Errorf("GET after a reading with the version before: %s", resp.Status)
	}
	s.send(200, "PATCH", "/v1/entities/room/attributes/desired", typeMergeHeader, `{"a":2}`, "If-Match", resp.Header.Get("ETag"))
}

func TestEdgesArePutReadAndWalked(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, id := range []string{"b", "f1", "f2", "m1", "m2", "m3"} {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":%q,"attributes":{"n":%d}}`, id, len(id)))
	}
	for i, edge := range []string{"b/relations/has/f1", "b/relations/has/f2", "f1/relations/has/m1", "f1/relations/has/m2", "f2/relations/has/m3"} {
		s.send(200, "PUT", "/v1/entities/"+edge, typeJSONHeader, fmt.Sprintf(`{"since":%d}`, 2020+i))
	}
	s.post("m1", `{"p":1}`)
	s.post("m2", `{"p":5}`)
	s.post("m3", `{"p":9}`)
	same(t, "edge", s.document("/v1/entities/b/relations/has/f1"), `{"from":"b","type":"has","to":"f1","properties":{"since":2020}}`)
	same(t, "both directions", s.document("/v1/entities/f1/relations"),
		`{"relations":[{"from":"f1","type":"has","to":"m1","properties":{"since":2022}},{"from":"f1","type":"has","to":"m2","properties":{"since":2023}},{"from":"b","type":"has","to":"f1","properties":{"since":2020}}]}`)
	var page struct {
		Relations []struct{ To string }
		Next      string
	}
	s.get("/v1/entities/f1/relations?direction=out&limit=1&type=has", &page)
	first := page.Relations[0].To
	s.get("/v1/entities/f1/relations?direction=out&limit=1&type=has&cursor="+page.Next, &page)
	same(t, "two pages", first+page.Relations[0].To, "m1m2")

	reached := func(body string) (ids []string) {
		t.Helper()
		_, text := s.send(200, "POST", "/v1/entities/b/traverse", typeJSONHeader, body)
		var answer struct {
			Reached []struct {
				ID     string
				Depth  int
				Entity json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		for _, x := range answer.Reached {
			ids = append(ids, fmt.Sprint(x.ID, x.Depth, string(x.Entity)))
		}
		return ids
	}
	same(t, "all", reached(`{}`), "[b0 f11 f21 m12 m22 m32]")
	same(t, "one step", reached(`{"depth":1,"types":["has"],"direction":"out"}`), "[b0 f11 f21]")
	same(t, "match", reached(`{"match":"p > 3"}`), "[m22 m32]")
	same(t, "through", reached(`{"through":"id != \"f1\""}`), "[b0 f11 f21 m32]")
	same(t, "edge", reached(`{"edge":"relation.since >= 2021 and relation.since != 2024"}`), "[b0 f21]")
	if ids := reached(`{"match":"p = 9","fields":["latest"]}`); len(ids) != 1 || !strings.Contains(ids[0], `"latest":{"p":{"value":9,`) {
		t.Errorf("with fields: %v", ids)
	}
	s.send(204, "DELETE", "/v1/entities/b/relations/has/f1", typeJSONHeader, "")
	s.send(404, "DELETE", "/v1/entities/b/relations/has/f1", typeJSONHeader, "")
	same(t, "after the removal", reached(`{}`), "[b0 f21 m32]")
}

func TestWrongRelationsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"a"}`)
	for _, tt := range []struct {
		status                       int
		method, path, body, mentions string
	}{
		{404, "PUT", "/v1/entities/nobody/relations/has/a", "", "nobody"},
		{422, "PUT", "/v1/entities/a/relations/has/nobody", "", "nobody"},
		{400, "PUT", "/v1/entities/a/relations/has/a", "[1]", "JSON object"},
		{422, "POST", "/v1/entities", `{"id":"b","relations":[{"type":"has","to":"nobody"}]}`, "nobody"},
		{404, "GET", "/v1/entities/nobody/relations", "", "nobody"},
		{404, "GET", "/v1/entities/a/relations/has/b", "", "not found"},
		{400, "GET", "/v1/entities/a/relations?direction=up", "", "out, in or both"},
		{404, "POST", "/v1/entities/nobody/traverse", "{}", "nobody"},
		{400, "POST", "/v1/entities/a/traverse", `{"match":"p >"}`, `"column":4`},
		{400, "POST", "/v1/entities/a/traverse", `{"edge":"relation.a > )"}`, `"column":14`},
		{400, "POST", "/v1/entities/a/traverse", `{"edge":"p > 3"}`, "properties of the relation"},
		{400, "POST", "/v1/entities/a/traverse", `{"depth":100}`, "64"},
		{400, "POST", "/v1/entities/a/traverse", `{"deep":1}`, "deep"},
		{400, "POST", "/v1/entities/a/traverse", `{"fields":["all"]}`, "latest"},
	} {
		resp, body := s.do(tt.method, tt.path, tt.body, "Content-Type", typeJSONHeader)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.mentions) {
			t.Errorf("%s %s %s: %s %s, want %d and %q", tt.method, tt.path, tt.body, resp.Status, body, tt.status, tt.mentions)
		}
	}
}

func TestTypesAreKeptResolvedAndEnforced(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(422, "PUT", "/v1/types/Room", typeJSONHeader, `{"extends":["Space"]}`)
	s.send(201, "PUT", "/v1/types/Space", typeJSONHeader, `{"properties":{"area":{"type":"number","min":0}}}`)
	resp, body := s.send(201, "PUT", "/v1/types/Room", typeJSONHeader, `{"id":"Room","extends":["Space"],"telemetry":{"t":{"type":"number","max":100}}}`)
	s.send(428, "PUT", "/v1/types/Room", typeJSONHeader, body)
	s.send(200, "PUT", "/v1/types/Room", typeJSONHeader, body, "If-Match", resp.Header.Get("ETag"))
	s.send(412, "PUT", "/v1/types/Room", typeJSONHeader, body, "If-Match", resp.Header.Get("ETag"))
	var resolved struct {
		IsA        []string
		Properties map[string]any
	}
	s.get("/v1/types/Room?resolved=true", &resolved)
	same(t, "resolved", fmt.Sprint(resolved.IsA, len(resolved.Properties)), "[Room Space] 1")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"r","type":"Room"}`)
	s.send(422, "PATCH", "/v1/entities/r/attributes/attributes", typeMergeHeader, `{"area":-1}`)
	s.send(422, "POST", "/v1/entities/r/telemetry", typeJSONHeader, `{"t":101}`)
	s.send(200, "PATCH", "/v1/entities/r", typeMergeHeader, `{"attributes":{"area":12}}`)
	s.send(409, "DELETE", "/v1/types/Room", typeJSONHeader, "")
	s.send(409, "DELETE", "/v1/types/Space", typeJSONHeader, "")
	if list := s.document("/v1/entities?type=Space"); !strings.Contains(list, `"id":"r","type":"Room"`) {
		t.Errorf("entities of Space: %s", list)
	}
	s.send(200, "PATCH", "/v1/entities/r", typeMergeHeader, `{"type":null}`)
	s.send(204, "DELETE", "/v1/types/Room", typeJSONHeader, "")
	if list := s.document("/v1/types"); !strings.HasPrefix(list, `{"types":[{"id":"Space"`) {
		t.Errorf("types: %s", list)
	}
}

func TestDTDLIsImported(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	_, body := s.send(200, "POST", "/v1/types", typeJSONHeader, `[{"@context":"dtmi:dtdl:context;3","@id":"dtmi:com:example:Room;1","@type":"Interface","contents":[
		{"@type":"Telemetry","name":"temp","schema":"double"},{"@type":"Property","name":"floor","schema":"integer","writable":true}]}]`)
	if !strings.Contains(body, `"id":"dtmi:com:example:Room;1"`) {
		t.Errorf("imported: %s", body)
	}
	if text := s.document("/v1/types/dtmi:com:example:Room;1?resolved=true"); !strings.Contains(text, `"floor":{"type":"integer"`) {
		t.Errorf("the type is %s", text)
	}
	if _, body := s.send(400, "POST", "/v1/types", typeJSONHeader, `{"@context":"dtmi:dtdl:context;3","@id":"dtmi:a;1","@type":"Interface","contents":[{"@type":"Telemetry","name":"x","schema":"nope"}]}`); !strings.Contains(body, "contents[0]") {
		t.Errorf("a wrong schema: %s", body)
	}
	s.send(200, "POST", "/v1/types?format=native", typeJSONHeader, `[{"id":"A","extends":["B"]},{"id":"B"}]`)
	s.send(409, "POST", "/v1/types?format=native", typeJSONHeader, `[{"id":"A","extends":["B"]},{"id":"B","extends":["A"]}]`)
	s.send(400, "POST", "/v1/types?format=xml", typeJSONHeader, `[]`)
	s.send(400, "POST", "/v1/types?format=native", typeJSONHeader, `[]`)
}
