package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// finished waits for the end of a bulk update.
func (r *running) finished(location string) (status bulkStatus) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		r.get(location, &status)
		if status.State != bulkRunning {
			return status
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the bulk update is still %+v", status)
		}
	}
}

func TestBulkUpdatePatchesWhatMatches(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 300 {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":"m%03d","attributes":{"n":%d}}`, i, i))
	}
	_, body := s.send(200, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"attributes.n < 100","patch":{"desired":{"on":true}},"dry_run":true}`)
	var dry bulkStatus
	if err := json.Unmarshal([]byte(body), &dry); err != nil || dry.Matched != 100 || dry.Changed != 0 || len(dry.Sample) != 20 || dry.State != bulkDone {
		t.Errorf("dry run: %s", body)
	}
	same(t, "after the dry run", len(s.found("exists desired.on", "")), 0)
	resp, _ := s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"attributes.n < 100","patch":{"desired":{"on":true},"attributes":{"n":null}}}`)
	status := s.finished(resp.Header.Get("Location"))
	if status.State != bulkDone || status.Matched != 100 || status.Changed != 100 || status.Failed != 0 || status.Ended == 0 {
		t.Errorf("the job is %+v", status)
	}
	_, body = s.send(200, "POST", "/v1/search", typeJSONHeader, `{"filter":"desired.on = true and not exists attributes.n","count":true,"limit":1}`)
	if !strings.Contains(body, `"total":100`) {
		t.Errorf("after the job: %s", body)
	}
	resp, _ = s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"attributes.n >= 0","delete":true,"limit":50}`)
	if status := s.finished(resp.Header.Get("Location")); status.State != bulkLimited || status.Changed != 50 {
		t.Errorf("with a limit: %+v", status)
	}
	_, body = s.send(200, "POST", "/v1/search", typeJSONHeader, `{"filter":"","count":true,"limit":1}`)
	if !strings.Contains(body, `"total":250`) {
		t.Errorf("after the deletion: %s", body)
	}
	var list struct{ Jobs []bulkStatus }
	s.get("/v1/bulk", &list)
	same(t, "jobs", fmt.Sprint(len(list.Jobs), list.Jobs[0].ID), "22")
	s.send(204, "DELETE", "/v1/bulk/1", typeJSONHeader, "")
}

func TestBulkUpdateTellsWhatFailed(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/types/T", typeJSONHeader, `{"properties":{"n":{"type":"integer","max":5}}}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"typed","type":"T"}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"open"}`)
	resp, _ := s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"","patch":{"attributes":{"n":9}}}`)
	status := s.finished(resp.Header.Get("Location"))
	if status.Changed != 1 || status.Failed != 1 || len(status.Errors) != 1 || status.Errors[0].Entity != "typed" || !strings.Contains(status.Errors[0].Detail, "5") {
		t.Errorf("the job is %+v", status)
	}
	for body, mentions := range map[string]string{
		`{"patch":{}}`: "filter or type", `{"filter":""}`: "one of patch, delete and command", `{"filter":"","patch":{},"delete":true}`: "one of patch, delete and command",
		`{"filter":"x >","delete":true}`: "column", `{"filter":"","delete":true,"limit":-1}`: "limit", `{"filter":"","patch":{"id":"x"}}`: "unknown member",
	} {
		if _, text := s.send(400, "POST", "/v1/bulk", typeJSONHeader, body); !strings.Contains(text, mentions) {
			t.Errorf("%s: %s, want %q", body, text, mentions)
		}
	}
	s.send(404, "GET", "/v1/bulk/99", typeJSONHeader, "")
}

func TestExportIsImportedByAnotherServer(t *testing.T) {
	t.Parallel()
	from, to := start(t, ""), start(t, "")
	from.send(200, "POST", "/v1/types?format=native", typeJSONHeader, `[{"id":"A","extends":["B"]},{"id":"B"}]`)
	for i := range 30 {
		id := fmt.Sprintf("m, \"%d\"", i)
		text, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		from.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":%s,"type":"A","attributes":{"x":{"y":%d}},"desired":{"s":"a,\"b\"\n"}}`, text, i))
		var readings []string
		for ts := range 50 {
			readings = append(readings, fmt.Sprintf(`{"ts":%d,"values":{"n":%d.5,"s":"a,\"b\""}}`, ts, ts*i))
		}
		from.post(strings.ReplaceAll(strings.ReplaceAll(id, " ", "%20"), `"`, "%22"), "["+strings.Join(readings, ",")+"]")
	}
	from.send(200, "PUT", "/v1/entities/m,%20%220%22/relations/has/m,%20%221%22", typeJSONHeader, `{"p":1}`)
	for _, format := range []string{"ndjson", "csv"} {
		media := map[string]string{"ndjson": mediaNDJSON, "csv": mediaCSV}[format]
		for _, what := range []string{"types", "entities", "history", "relations"} {
			if format == "csv" && (what == "types" || what == "relations") {
				from.send(400, "GET", "/v1/export?format=csv&what="+what, typeJSONHeader, "")
				continue
			}
			path := "what=" + what + "&format=" + format
			_, body := to.send(200, "POST", "/v1/import?"+path, media, from.document("/v1/export?"+path))
			var done importedJSON
			if err := json.Unmarshal([]byte(body), &done); err != nil || done.Failed != 0 || done.Accepted != done.Lines || done.Lines != map[string]int64{"types": 2, "entities": 30, "history": 3000, "relations": 1}[what] {
				t.Errorf("import of %s as %s: %s", what, format, body)
			}
		}
		for _, path := range []string{"what=types", "what=entities", "what=history", "what=latest", "what=relations", "what=history&format=csv", "what=entities&format=csv", "what=history&key=n&from=10&to=20&q=attributes.x.y=7"} {
			if a, b := from.document("/v1/export?"+path), to.document("/v1/export?"+path); a != b || a == "" {
				t.Errorf("export %s differs: %.200s and %.200s", path, a, b)
			}
		}
	}
}

func TestImportPassesWrongLinesOver(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	_, body := s.send(200, "POST", "/v1/import?what=history", mediaNDJSON, `{"entity":"a","ts":1,"values":{"n":1}}

{"entity":"a","values":{"n":1}}
not JSON
{"entity":"a/b","ts":2,"values":{"n":1}}
{"entity":"a","ts":3,"values":{"n":3}}`)
	if !strings.Contains(body, `"lines":5,"accepted":2,"failed":3`) || !strings.Contains(body, `{"line":3,"detail":"a reading must be`) || !strings.Contains(body, `{"line":4,`) {
		t.Errorf("imported: %s", body)
	}
	same(t, "latest", s.latest("a"), "map[n:3]")
	_, body = s.send(200, "POST", "/v1/import?what=history", mediaCSV, "ts,entity,value,key\n1,c,21.5,t\nx,c,1,t\n2,c,\"oops\n")
	if !strings.Contains(body, `"accepted":1`) {
		t.Errorf("imported: %s", body)
	}
	s.send(400, "POST", "/v1/import?what=history", mediaCSV, "a,b\n1,2\n")
	s.send(400, "POST", "/v1/import?what=all", mediaNDJSON, "")
	s.send(400, "POST", "/v1/import?what=history&format=xml", mediaNDJSON, "")
	s.send(413, "POST", "/v1/import?what=history", mediaNDJSON, strings.Repeat("x", maxImportLine+10))
	s.send(400, "GET", "/v1/export?what=all", typeJSONHeader, "")
	s.send(400, "GET", "/v1/export?what=entities&from=1", typeJSONHeader, "")
}
