package server

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// abuses are what stands in the place of a name, in a path or in a parameter.
var abuses = []string{
	"%00", "a%00b", "%ff", "%c3%28", "%F0%9F%A6%86", "%2e%2e%2fx", "%20", "%0a", "%22%27%3B--", "%25s%25n", "x%2By%23z",
	"9223372036854775808", "-1", "NaN", "null", strings.Repeat("y", 3000), strings.Repeat("%E2%82%AC", 300),
}

// abusiveBodies are bodies that are wrong for all operations.
var abusiveBodies = []string{
	"", "null", "[]", "[null]", "{}", "0", `""`, `"\u0000"`, "{", "\xff\xfe", `{"a\u0000b":"\u0000"}`, `{"\ud800":1}`, `{"a":1e999}`,
	`{"type":"\u0000","attributes":{"\u0000":"\u0000"},"relations":[{"type":"\u0000","to":"b"}]}`,
	`{"filter":"id = \"\\u0000\"","limit":1,"keys":["\u0000"],"agg":["avg"],"delete":true,"cursor":"AA","type":"\u0000","search":"\u0000"}`,
	`{"filter":"type = \"\\u0000\" or power like \"%\\u0000\"","keys":["a"],"entities":["\u0000"],"agg":["avg"]}`,
	`{"match":"related \u0000 to any","types":["\u0000"],"edge":"relation.a = \"\\u0000\"","depth":2}`,
	`{"filter":"id = \"\\u0000\""}`, `{"filter":"id in (\"a\", \"\\u0000\")"}`, `{"type":"\u0000"}`, `{"search":"\u0000"}`, `{"cursor":"AA"}`, `{"cursor":"_w"}`,
	`{"from":-9e18,"to":9e18}`, `{"from":"now","to":null}`,
	`insert into "\u0000" select a.x as y`, "insert into \x00 select a.x as y", `insert into a select "` + "\x00" + `".x as y`,
	`[{"op":"add","path":"/attributes/\u0000","value":"\u0000"}]`, `[{"op":"move","from":"","path":"/attributes"}]`,
	"entity,ts,key,value\na,1,\x00,\x00\n", "id,type,attributes,desired,reported\n\x00,\x00,{},{},{}\n",
	strings.Repeat("[", 200_000), strings.Repeat(`{"a":`, 100_000), "{" + strings.Repeat(`"a":1,`, 20_000) + `"a":1}`,
}

// request sends a request as it is, whatever the body says that it is.
func (r *running) request(method, path, media, body string) (status int, text string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Errorf("%s %.200s with %.60q: %v", method, path, body, err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		r.t.Errorf("%s %.200s with %.60q: %v", method, path, body, err)
	}
	return resp.StatusCode, string(b)
}

// Whatever is asked, the answer is not that we have failed.
func TestNoRequestIsOurFailure(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `{"x":1}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"b","attributes":{"n":1}}`)
	names := regexp.MustCompile(`\{[a-z]+\}`)
	bad := func(method, path, media, body string) {
		status, text := s.request(method, path, media, body)
		for try := 0; try < 5 && status == http.StatusServiceUnavailable && strings.Contains(text, "too busy to answer in time"); try++ { // beside other tests
			status, text = s.request(method, path, media, body)
		}
		if status == 0 || status >= 500 {
			t.Errorf("%s %.200s with %.100q: %d %.300s", method, path, body, status, text)
		}
	}
	for _, rt := range s.operations {
		if strings.HasPrefix(rt.pattern, "/v1/stream") || rt.pattern == "/v1/ws" {
			continue // an answer without an end
		}
		fine := strings.NewReplacer("{id}", "a", "{key}", "x", "{section}", "attributes", "{to}", "b", "{job}", "1").Replace(rt.pattern)
		fine = names.ReplaceAllString(fine, "n")
		for _, abuse := range abuses {
			for _, name := range names.FindAllString(rt.pattern, -1) {
				path := strings.Replace(rt.pattern, name, abuse, 1)
				path = strings.NewReplacer("{id}", "a", "{key}", "x", "{section}", "attributes", "{to}", "b").Replace(path)
				if slices.Contains(rt.request.names("query"), "timeout") {
					path += "?timeout=1" // what is waited for does not come
				}
				bad(rt.method, names.ReplaceAllString(path, "n"), "", "{}")
			}
			for _, param := range rt.request.names("query") {
				bad(rt.method, fmt.Sprintf("%s?%s=%s", fine, param, abuse), "", "{}")
			}
		}
		if rt.method == http.MethodGet || rt.method == http.MethodDelete {
			continue
		}
		for _, body := range abusiveBodies {
			for _, media := range []string{"", mediaJSON, mediaMergePatch, mediaJSONPatch, mediaNDJSON, mediaCSV, mediaText} {
				if len(body) > 1000 && media != "" && media != mediaJSONPatch {
					continue // one that fits is enough
				}
				path := fine
				if rt.pattern == "/v1/import" {
					for _, what := range []string{whatEntities, whatRelations, whatTypes, whatMappings, whatQueries, whatRetention, whatAlarms} {
						bad(rt.method, path+"?what="+what, media, body)
					}
					path += "?what=history"
				}
				bad(rt.method, path, media, body)
			}
		}
	}
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("logged: %.600s", line)
		}
	}
}
