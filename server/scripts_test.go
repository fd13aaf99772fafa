package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/server/script"
)

// asJSON is a text as JSON.
func asJSON(text string) string {
	return `"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(text) + `"`
}

func (r *running) putScript(status int, name, source string) string {
	r.t.Helper()
	_, body := r.send(status, "PUT", "/v1/scripts/"+name, mediaJSON, `{"source":`+asJSON(source)+`,"keys":["x"]}`)
	return body
}

// scripted is what the tests look at of a script.
type scripted struct {
	Version  int64
	Owner    string
	State    string
	Problem  string
	Source   string
	Runs     uint64
	Failures uint64
	Failed   []struct {
		Entity, Text string
		Line         int
	}
}

func (r *running) syncScript(name string) {
	r.t.Helper()
	if err := r.scripts.Sync(r.t.Context(), name); err != nil {
		r.t.Fatal(err)
	}
}

func TestScriptsArePutRunAndRolledBack(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.putScript(201, "double", "function on_reading(e, r)\n  self.n = (self.n or 0) + 1\n  e:set { double = 2 * r.x }\nend")
	s.post("a", `{"ts":1000,"values":{"x":4}}`)
	s.syncScript("double")
	same(t, "latest", s.latest("a"), "map[double:8 x:4]")
	var first, got scripted
	s.get("/v1/scripts/double", &first)
	if first.State != "on" || first.Runs != 1 || first.Problem != "" {
		t.Errorf("%+v", first)
	}
	var state struct{ State map[string]int }
	s.get("/v1/scripts/double/states/a", &state)
	same(t, "state", state.State, "map[n:1]")
	var origin struct{ Source string }
	s.get("/v1/entities/a/telemetry/double/explain", &origin)
	same(t, "source", origin.Source, fmt.Sprint("script:double@", first.Version))

	s.send(428, "PUT", "/v1/scripts/double", mediaJSON, `{"source":"function on_reading() end"}`)
	resp, text := s.do("PUT", "/v1/scripts/double", `{"source":"function on_reading(e) e:set { broken = nil + 1 } end","keys":["x"]}`, "Content-Type", mediaJSON, "If-Match", "*")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	s.post("a", `{"ts":2000,"values":{"x":5}}`)
	s.syncScript("double")
	s.get("/v1/scripts/double", &got)
	if got.Failures != 1 || len(got.Failed) != 1 || got.Failed[0].Line != 1 || got.Failed[0].Entity != "a" || !strings.Contains(got.Failed[0].Text, "stack traceback") {
		t.Errorf("%+v", got)
	}
	s.send(200, "POST", "/v1/scripts/double/rollback", mediaJSON, fmt.Sprintf(`{"version":%d}`, first.Version))
	s.post("a", `{"ts":3000,"values":{"x":6}}`)
	s.syncScript("double")
	same(t, "latest", s.latest("a"), "map[double:12 x:6]")
	var versions struct {
		Versions []struct {
			Version int64
			Note    string
		}
	}
	s.get("/v1/scripts/double/versions", &versions)
	if v := versions.Versions; len(v) != 3 || v[2].Version != first.Version || v[0].Note != fmt.Sprint("back to version ", first.Version) {
		t.Errorf("%+v", versions)
	}

	s.send(200, "POST", "/v1/scripts/double/switch", mediaJSON, `{"on":false}`)
	s.post("a", `{"ts":4000,"values":{"x":7}}`)
	s.send(200, "POST", "/v1/scripts/double/switch", mediaJSON, `{"on":true}`)
	s.post("a", `{"ts":5000,"values":{"y":1}}`)
	s.syncScript("double")
	same(t, "latest", s.latest("a"), "map[double:12 x:7 y:1]")
	s.send(204, "DELETE", "/v1/scripts/double", "", "")
	s.send(404, "GET", "/v1/scripts/double", "", "")
}

func TestAMistakeInAScriptIsAProblemWithALine(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, path := range []string{"/v1/scripts/bad", "/v1/scripts/bad?check"} {
		_, body := s.send(400, "PUT", path, mediaJSON, `{"source":"function on_reading(e, r)\n  if then\nend"}`)
		if !strings.Contains(body, `"in":"source"`) || !strings.Contains(body, `"line":2`) {
			t.Error(body)
		}
	}
	s.send(204, "PUT", "/v1/scripts/good?check", mediaJSON, `{"source":"function on_reading(e, r) end"}`)
	s.send(404, "GET", "/v1/scripts/good", "", "")
}

func TestAScriptIsTriedOverTheHistory(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `[{"ts":1000,"values":{"x":1}},{"ts":2000,"values":{"x":2}},{"ts":3000,"values":{"x":3}}]`)
	_, body := s.send(200, "POST", "/v1/scripts/new/try", mediaJSON,
		`{"entity":"a","last":2,"script":{"source":"function on_reading(e, r)\n  print(r.x)\n  self.n = r.x\n  if r.x == 3 then error('three') end\n  e:set { y = r.x } e:command('go') e:set_attributes { z = 1 }\nend"}}`)
	for _, want := range []string{
		`"reading":{"ts":2000,"values":{"x":2}},"readings":[{"ts":2000,"values":{"y":2}}],"patches":[{"section":"attributes","patch":{"z":1}}],"commands":[{"name":"go"}],"state":{"n":2},"printed":["2"]}`,
		`"line":4`, `three`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
	same(t, "latest", s.latest("a"), "map[x:3]")
	s.send(404, "POST", "/v1/scripts/new/try", mediaJSON, `{"entity":"none","script":{"source":"function on_reading() end"}}`)
	s.send(404, "POST", "/v1/scripts/new/try", mediaJSON, `{"entity":"a"}`)
}

// The keeper may write the rooms only: a script of the keeper's does nothing to others, and nobody who may not write
// all entities sees it or replaces it.
func TestAScriptDoesOnlyWhatItsOwnerMay(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	keeper, elsewhere, operator, admin := s.as(tokens["keeper"]), s.as(tokens["elsewhere"]), s.as(tokens["operator"]), s.as(tokens["admin"])
	keeper.putScript(201, "mine", "function on_reading(e) e:set { by = 'keeper' } e:command('go') end")
	for _, id := range []string{"room-1", "other", "elsewhere"} {
		admin.post(id, `{"ts":2000,"values":{"x":1}}`)
	}
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-1"), `map[by:"keeper" t:1 x:1]`)
	same(t, "another", admin.latest("other"), "map[t:1 x:1]")
	same(t, "elsewhere", admin.latest("elsewhere"), "map[x:1]")

	elsewhere.send(404, "GET", "/v1/scripts/mine", "", "")
	elsewhere.send(404, "DELETE", "/v1/scripts/mine", "", "")
	elsewhere.send(404, "POST", "/v1/scripts/mine/switch", mediaJSON, `{"on":false}`)
	elsewhere.putScript(409, "mine", "function on_reading() end")
	var list struct{ Scripts []scripted }
	elsewhere.get("/v1/scripts", &list)
	if len(list.Scripts) != 0 {
		t.Errorf("%+v", list)
	}
	keeper.send(403, "POST", "/v1/scripts/x/try", mediaJSON, `{"entity":"other","script":{"source":"function on_reading() end"}}`)

	// Whoever replaces it is its owner; a version comes back with the one who has written it.
	var got scripted
	operator.get("/v1/scripts/mine", &got)
	if resp, text := operator.do("PUT", "/v1/scripts/mine", `{"source":"function on_reading(e) e:set { by = 'operator' } end","keys":["x"]}`, "Content-Type", mediaJSON, "If-Match", "*"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	admin.post("other", `{"ts":3000,"values":{"x":1}}`)
	s.syncScript("mine")
	same(t, "another", admin.latest("other"), `map[by:"operator" t:1 x:1]`)
	keeper.send(404, "GET", "/v1/scripts/mine", "", "")
	if resp, text := operator.do("PUT", "/v1/scripts/mine", `{"source":"function on_reading(e) error('secret') end","keys":["x"]}`, "Content-Type", mediaJSON, "If-Match", "*"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	admin.post("other", `{"ts":3500,"values":{"x":1}}`)
	admin.post("room-1", `{"ts":3500,"values":{"x":1}}`)
	s.syncScript("mine")
	admin.send(200, "POST", "/v1/scripts/mine/rollback", mediaJSON, fmt.Sprintf(`{"version":%d}`, got.Version))
	admin.post("other", `{"ts":4000,"values":{"x":2}}`)
	admin.post("room-2", `{"ts":4000,"values":{"x":2}}`)
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-2"), `map[by:"keeper" t:1 x:2]`)
	same(t, "another", admin.latest("other"), `map[by:"operator" t:1 x:2]`)

	// The keeper sees the failures that were about rooms.
	var failures scripted
	keeper.get("/v1/scripts/mine", &failures)
	if len(failures.Failed) != 1 || failures.Failed[0].Entity != "room-1" {
		t.Errorf("the keeper sees %+v", failures.Failed)
	}
	admin.get("/v1/scripts/mine", &failures)
	if len(failures.Failed) != 2 {
		t.Errorf("the admin sees %+v", failures.Failed)
	}

	// When the keeper is no more, neither is what the script may do.
	admin.send(204, "DELETE", "/v1/principals/keeper", "", "")
	admin.post("room-2", `{"ts":5000,"values":{"x":3}}`)
	s.syncScript("mine")
	var source struct{ TS int64 }
	admin.get("/v1/entities/room-2/telemetry/by/explain", &source)
	if source.TS != 4000 {
		t.Errorf("the script of one who is no more has written at %d", source.TS)
	}
	admin.get("/v1/scripts/mine", &got)
	if got.State != "refused" || !strings.Contains(got.Problem, "keeper") {
		t.Errorf("%+v", got)
	}
}

// When its owner has expired, a script stops and says so, in the list as well, until somebody stores it again.
func TestAScriptOfAnExpiredOwnerStops(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	admin := s.as(tokens["admin"])
	expires := time.Now().Add(4 * time.Second)
	brief := s.as(admin.principal(fmt.Sprintf(`{"name":"brief","grants":[{"role":"operator"}],"expires_ms":%d}`, expires.UnixMilli())))
	const source = "function on_reading(e) e:set { by = 'brief' } end"
	brief.putScript(201, "mine", source)
	var got scripted
	admin.get("/v1/scripts/mine", &got)
	if got.State != "on" || got.Problem != "" {
		t.Errorf("before: %+v", got)
	}
	eventually(t, "the end of the owner", func() bool { return time.Now().After(expires) })
	admin.post("room-1", `{"ts":2000,"values":{"x":1}}`)
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-1"), `map[t:1 x:1]`)
	var list struct{ Scripts []scripted }
	admin.get("/v1/scripts", &list)
	admin.get("/v1/scripts/mine", &got)
	for _, sc := range append(list.Scripts, got) {
		if sc.State != "refused" || !strings.Contains(sc.Problem, `"brief"`) || !strings.Contains(sc.Problem, "has expired") {
			t.Errorf("after: %+v", sc)
		}
	}
	if resp, text := admin.do("PUT", "/v1/scripts/mine", `{"source":"`+source+`","keys":["x"]}`, "Content-Type", mediaJSON, "If-Match", "*"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	admin.post("room-1", `{"ts":3000,"values":{"x":2}}`)
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-1"), `map[by:"brief" t:1 x:2]`)
	var again scripted
	if admin.get("/v1/scripts/mine", &again); again.State != "on" || again.Owner != "admin" || again.Problem != "" {
		t.Errorf("stored again: %+v", again)
	}
}

// Who is made anew under the name of a principal who was deleted has nothing of that one's scripts.
func TestAScriptIsNotThatOfAnotherPrincipalOfTheName(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	keeper, admin := s.as(tokens["keeper"]), s.as(tokens["admin"])
	keeper.putScript(201, "mine", "function on_reading(e) e:set { by = 'the first' } end")
	admin.send(204, "DELETE", "/v1/principals/keeper", "", "")
	_, text := admin.send(201, "POST", "/v1/principals", mediaJSON, `{"name":"keeper","grants":[{"role":"operator"}]}`)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	admin.post("room-1", `{"ts":2000,"values":{"x":1}}`)
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-1"), `map[t:1 x:1]`)
	var got scripted
	admin.get("/v1/scripts/mine", &got)
	if got.State != "refused" || !strings.Contains(got.Problem, "no principal \"keeper\" any more") {
		t.Errorf("%+v", got)
	}

	// Nor has one who may write some entities only, and a version of the first does not become the second's.
	admin.send(204, "DELETE", "/v1/principals/keeper", "", "")
	_, text = admin.send(201, "POST", "/v1/principals", mediaJSON, `{"name":"keeper","grants":[{"role":"operator","filter":"id like \"room-%\""}]}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	keeper = s.as(made.Token)
	keeper.send(404, "GET", "/v1/scripts/mine", "", "")
	keeper.send(404, "POST", "/v1/scripts/mine/rollback", mediaJSON, fmt.Sprintf(`{"version":%d}`, got.Version))
	keeper.putScript(409, "mine", "function on_reading(e) end")
	if resp, text := admin.do("PUT", "/v1/scripts/mine", `{"source":"function on_reading(e) e:set { by = 'admin' } end","keys":["x"]}`, "Content-Type", mediaJSON, "If-Match", "*"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	admin.send(200, "POST", "/v1/scripts/mine/rollback", mediaJSON, fmt.Sprintf(`{"version":%d}`, got.Version))
	admin.post("room-1", `{"ts":3000,"values":{"x":1}}`)
	s.syncScript("mine")
	same(t, "a room", admin.latest("room-1"), `map[t:1 x:1]`)
}

// Earlier versions have stored principals and scripts without identities.
func TestScriptsOfEarlierVersionsAreThoseOfTheirPrincipals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	token := s.token
	keeper := s.as(s.principal(`{"name":"keeper","grants":[{"role":"operator","filter":"id like \"room-%\""}]}`))
	later := s.as(s.principal(`{"name":"later","grants":[{"role":"operator"}]}`))
	keeper.putScript(201, "mine", "function on_reading(e, r) e:set { first = r.x } end")
	if resp, text := keeper.do("PUT", "/v1/scripts/mine", `{"source":"function on_reading(e, r) e:set { second = r.x } end"}`, "Content-Type", mediaJSON, "If-Match", "*"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, text)
	}
	later.putScript(201, "before", "function on_reading(e, r) e:set { before = r.x } end")

	old := func(body []byte, created int64) []byte {
		var members map[string]any
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatal(err)
		}
		if members["identity"] == nil {
			t.Fatalf("%s has no identity", body)
		}
		delete(members, "identity")
		if created != 0 {
			members["created_ms"] = created
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, kind := range []string{"principal", "script"} {
		docs, err := s.runtime.Docs(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		for i := range docs {
			created := int64(0)
			if docs[i].ID == "later" { // a namesake, of after the script
				created = time.Now().Add(time.Hour).UnixMilli()
			}
			if _, err := s.runtime.PutDoc(t.Context(), kind, docs[i].ID, old(docs[i].Body, created), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	versions, err := s.runtime.Items(t.Context(), entity.ItemsQuery{Kind: "script-version", Limit: entity.MaxItems})
	if err != nil || len(versions) != 1 {
		t.Fatal(len(versions), err)
	}
	versions[0].Body = old(versions[0].Body, 0)
	if err := s.runtime.PutItems(t.Context(), versions); err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}

	s = start(t, dir)
	s.token = token
	check := func(name, state, latest string) {
		t.Helper()
		s.post("room-1", `{"ts":2000,"values":{"x":1}}`)
		s.syncScript(name)
		var got scripted
		s.get("/v1/scripts/"+name, &got)
		if got.State != state {
			t.Errorf("%+v, want it %s", got, state)
		}
		same(t, "what "+name+" does", s.latest("room-1"), latest)
	}
	check("mine", "on", "map[second:1 x:1]")
	check("before", "refused", "map[second:1 x:1]")
	s.send(204, "DELETE", "/v1/entities/room-1", "", "")
	var list struct{ Versions []scripted }
	s.get("/v1/scripts/mine/versions", &list)
	s.send(200, "POST", "/v1/scripts/mine/rollback", mediaJSON, fmt.Sprintf(`{"version":%d}`, list.Versions[1].Version))
	check("mine", "on", "map[first:1 x:1]")
}

func TestATrialTooManyIsToBeTriedAgain(t *testing.T) {
	t.Parallel()
	if p := problemOf(fmt.Errorf("try: %w", script.ErrBusy)); p.Status != 503 || !strings.Contains(p.Detail, "only 2 scripts can be tried at once") {
		t.Errorf("%+v", p)
	}
}

func TestScriptsAreExportedAndImported(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.putScript(201, "a", "function on_reading(e, r)\n  e:set { y = r.x }\nend")
	_, lines := s.send(200, "GET", "/v1/export?what=scripts", "", "")
	if want := `{"name":"a","source":"function on_reading(e, r)\n  e:set { y = r.x }\nend","keys":["x"]}`; strings.TrimSpace(lines) != want {
		t.Fatalf("%s, want %s", lines, want)
	}
	other := start(t, "")
	other.send(200, "POST", "/v1/import?what=scripts", mediaNDJSON, strings.TrimSpace(lines)+"\n"+`{"name":"b","source":"if"}`+"\n")
	other.post("e", `{"ts":1000,"values":{"x":4}}`)
	other.syncScript("a")
	same(t, "latest", other.latest("e"), "map[x:4 y:4]")
	if list := other.scripts.List(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// A script that somebody else has written does not get what the importer may do.
func TestAnImportedScriptIsItsOwnersOrOff(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	keeper, operator, admin := s.as(tokens["keeper"]), s.as(tokens["operator"]), s.as(tokens["admin"])
	keeper.putScript(201, "mine", "function on_reading(e) e:set { by = 'keeper' } end")
	keeper.send(200, "POST", "/v1/scripts/mine/switch", mediaJSON, `{"on":false}`)
	_, off := admin.send(200, "GET", "/v1/export?what=scripts", "", "")
	keeper.send(200, "POST", "/v1/scripts/mine/switch", mediaJSON, `{"on":true}`)
	_, lines := admin.send(200, "GET", "/v1/export?what=scripts", "", "")
	if !strings.Contains(off, `"owner":"keeper","off":true`) || !strings.Contains(lines, `"owner":"keeper"}`) {
		t.Fatalf("exported as %s and %s", off, lines)
	}
	for _, c := range []struct {
		what         string
		who          *running
		line         string
		owner, state string
		room, other  string
	}{
		{"an admin keeps the owner", admin, lines, "keeper", "on", `"keeper"`, "<nil>"},
		{"and what is off", admin, off, "keeper", "disabled", "<nil>", "<nil>"},
		{"one who is no admin does not", operator, lines, "operator", "disabled", "<nil>", "<nil>"},
		{"an owner that is not there", admin, strings.ReplaceAll(lines, `"owner":"keeper"`, `"owner":"nobody"`), "admin", "disabled", "<nil>", "<nil>"},
		{"one's own", operator, strings.ReplaceAll(lines, `"owner":"keeper"`, `"owner":"operator"`), "operator", "on", `"keeper"`, `"keeper"`},
		{"none named", admin, strings.ReplaceAll(lines, `,"owner":"keeper"`, ``), "admin", "disabled", "<nil>", "<nil>"},
	} {
		admin.send(204, "DELETE", "/v1/scripts/mine", "", "")
		for _, id := range []string{"room-1", "other"} {
			admin.send(204, "DELETE", "/v1/entities/"+id, "", "")
		}
		_, answer := c.who.send(200, "POST", "/v1/import?what=scripts", mediaNDJSON, c.line)
		if !strings.Contains(answer, `"accepted":1`) {
			t.Fatalf("%s: %s", c.what, answer)
		}
		for _, id := range []string{"room-1", "other"} {
			admin.post(id, `{"ts":2000,"values":{"x":1}}`)
		}
		s.syncScript("mine")
		var got scripted
		admin.get("/v1/scripts/mine", &got)
		if got.Owner != c.owner || got.State != c.state {
			t.Errorf("%s: it is %q's and %s", c.what, got.Owner, got.State)
		}
		for id, want := range map[string]string{"room-1": c.room, "other": c.other} {
			same(t, c.what+": "+id, admin.latest(id), map[bool]string{true: "map[x:1]", false: "map[by:" + want + " x:1]"}[want == "<nil>"])
		}
	}
}

// What a mapping computes of what a script has written carries on how many scripts stand behind it.
func TestACircleThroughAMappingEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mapping, script string
		late            bool
		latest          string
	}{
		"single":    {"insert into a select a.y + 1 as x", "e:set { y = r.x }", false, "map[x:8 y:7 z:1]"},
		"group":     {"insert into a select sum(m.y) + 1 as x from (a, b) as m", "e:set { y = r.x }", false, "map[x:8 y:7 z:1]"},
		"pattern":   {"insert into a select max(m.y) + 1 as x from like \"a%\" as m", "e:set { y = r.x }", false, "map[x:8 y:7 z:1]"},
		"window":    {"insert into a select max(m.y) over 5m + 1 as x from (a, b) as m", "e:set { y = r.x }", false, "map[x:8 y:7 z:1]"},
		"attribute": {"insert into a select z * 0 + attributes.y + 1 as x", "e:set_attributes { y = r.x }", false, "map[x:8 z:1]"},
		"late":      {"insert into a select max(y) over 1s + 1 as x", "e:set { y = r.x }", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "")
			s.post("a", `{"ts":1000,"values":{"z":1}}`)
			s.send(201, "PUT", "/v1/mappings/next", "text/plain", c.mapping)
			if c.late {
				s.post("a", `{"ts":900000,"values":{"y":5}}`)
				if err := s.mappings.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.putScript(201, "again", "function on_reading(e, r) "+c.script+" end")
			s.post("a", `{"ts":1000,"values":{"x":0}}`)
			var got scripted
			for got.Failures == 0 && got.Runs < 10*behavior.MaxDepth { // the mapping and the script take turns
				s.syncScript("again")
				s.get("/v1/scripts/again", &got)
			}
			if got.Failures == 0 || !strings.Contains(got.Failed[0].Text, "a circle of behaviors") {
				t.Errorf("%+v", got)
			}
			if !c.late {
				if got.Runs != behavior.MaxDepth {
					t.Errorf("%d runs, want %d", got.Runs, behavior.MaxDepth)
				}
				same(t, "latest", s.latest("a"), c.latest)
			}
		})
	}
}
