package server

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSetupOfAServerIsImportedByAnother(t *testing.T) {
	t.Parallel()
	from, to := start(t, ""), start(t, "")
	lines := map[string]string{
		whatMappings: `{"name":"double","text":"insert into b select a.n * 2 as twice"}
{"name":"total","text":"insert into ` + "`c µ`" + ` select sum(m.twice) as sum from like \"b%\" as m"}
`,
		whatQueries: `{"id":"hungry","filter":"power > 10"}
{"id":"old ones","title":"Those of \"before\"","filter":"not exists reported","type":"Meter","view":{"columns":["a",1]}}
`,
		whatRetention: `{"id":"all","raw":"365d"}
{"id":"meters","type":"Meter","key":"power","raw":"30d","grace":"1m","tiers":[{"step":"5m","keep":"90d","percentiles":true},{"step":"1h"}]}
`,
	}
	for what, text := range lines {
		_, body := from.send(200, "POST", "/v1/import?what="+what, mediaNDJSON, text)
		if !strings.HasPrefix(body, `{"lines":2,"accepted":2,"failed":0`) {
			t.Fatalf("import of %s: %s", what, body)
		}
		exported := from.document("/v1/export?what=" + what)
		same(t, what+" as exported", exported+"\n", text)
		for range 2 { // a second time it changes nothing
			if _, body = to.send(200, "POST", "/v1/import?what="+what, mediaNDJSON, exported); !strings.Contains(body, `"accepted":2,"failed":0`) {
				t.Fatalf("import of %s into another: %s", what, body)
			}
			same(t, what+" of the other", to.document("/v1/export?what="+what), exported)
		}
		from.send(400, "GET", "/v1/export?format=csv&what="+what, "", "")
		from.send(400, "GET", "/v1/export?entity=a&what="+what, "", "")
		to.send(400, "POST", "/v1/import?format=csv&what="+what, mediaCSV, "name,text\n")
	}
	to.post("a", `{"ts":7,"values":{"n":21}}`) // they are in force, not only noted
	await := to.open("/v1/stream?entity=c+%C2%B5")
	to.post("a", `{"ts":8,"values":{"n":4}}`)
	await.mustBe("change", `"entity":"c µ"`)
	var rules retentionJSON
	to.get("/v1/retention", &rules)
	if len(rules.Rules) != 2 || len(rules.Rules[1].Tiers) != 2 {
		t.Errorf("rules of the other: %+v", rules)
	}
}

func TestImportedSetupIsCheckedLikeAnyOther(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for what, lines := range map[string][]struct{ line, wrong string }{
		whatMappings: {
			{`{"name":"first","text":"insert into b select a.x + 1 as x"}`, ""},
			{`{"name":"second","text":"insert into a select b.x + 1 as x"}`, "cycle: second -> first -> second"},
			{`{"name":"third","text":"insert into b select"}`, "expected"},
			{`{"text":"insert into c select a.x as x"}`, "a mapping must be like"},
			{`{"name":"fourth","text":"insert into b select a.y as x"}`, "first"},
			{`{"name":"first","text":"insert into b select a.x + 2 as x","more":1}`, "more"},
			{`{"name":"first","text":"insert into b select a.x + 2 as x"}`, ""},
		},
		whatQueries: {
			{`{"id":"a","filter":"t >"}`, "expected a value"},
			{`{"filter":"t > 1"}`, "a saved query must be like"},
			{`{"id":"a","filter":"t > 1"}`, ""},
			{`{"id":"a","filter":"t > 2"}`, ""},
		},
		whatRetention: {
			{`{"id":"a","key":"p","raw":"1d"}`, ""},
			{`{"id":"b","key":"p","raw":"2d"}`, "the rule \"a\" is about the same"},
			{`{"id":"c","raw":"5m","tiers":[{"step":"1h"}]}`, "tier"},
			{`{"key":"q","raw":"1d"}`, "a rule of retention must be like"},
			{`{"id":"a","key":"p","raw":"3d"}`, ""},
		},
	} {
		var text strings.Builder
		accepted := int64(0)
		for _, l := range lines {
			text.WriteString(l.line + "\n")
			if l.wrong == "" {
				accepted++
			}
		}
		var done importedJSON
		_, body := s.send(200, "POST", "/v1/import?what="+what, mediaNDJSON, text.String())
		if err := json.Unmarshal([]byte(body), &done); err != nil || done.Accepted != accepted || done.Accepted+done.Failed != int64(len(lines)) {
			t.Errorf("import of %s: %s", what, body)
		}
		for _, e := range done.Errors {
			if want := lines[e.Line-1]; want.wrong == "" || !strings.Contains(e.Detail, want.wrong) {
				t.Errorf("%s: %s, want %q", want.line, e.Detail, want.wrong)
			}
		}
	}
	if last := s.document("/v1/export?what=mappings") + s.document("/v1/export?what=queries") + s.document("/v1/export?what=retention"); last !=
		`{"name":"first","text":"insert into b select a.x + 2 as x"}{"id":"a","filter":"t > 2"}{"id":"a","key":"p","raw":"3d"}` {
		t.Errorf("in force are %s", last)
	}
}
