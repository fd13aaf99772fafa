package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc64"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// conformRounds is how often each operation is asked: once with its examples, then
// with whatever its schemas allow.
const conformRounds = 12

// What the schemas allow is answered as they say: with a documented status, and a body
// of the documented schema, which has no member that is not in it.
func TestAnswersAreThoseOfTheDescription(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.token = s.principal(`{"name":"root","grants":[{"role":"admin"},{"role":"device","filter":"id like \"%\""}]}`)
	c := newConformance(t, s)
	c.answerCommands()
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(gone.Close)
	c.gone = gone.URL
	operations := listOperations()
	order := func(o *operation) int { // what deletes much comes last
		switch {
		case o.method == http.MethodDelete && o.id != "cancelCommand":
			return 2
		case o.id == "cancelCommand":
			return 1
		case o.id == "postBulk":
			return 1
		default:
			return 0
		}
	}
	slices.SortStableFunc(operations, func(a, b operation) int { return order(&a) - order(&b) })
	for round := range conformRounds {
		c.fixtures()
		if round == 1 {
			c.do("DELETE", "/v1/types/Room", "")
			c.do("DELETE", "/v1/mappings/fahrenheit", "")
		}
		for i := range operations {
			c.ask(&operations[i], round)
		}
	}
	for _, o := range operations {
		for _, status := range o.statuses {
			// An ordinary request cannot open a WebSocket, and this server is no node of a cluster.
			if !c.succeeded[fmt.Sprint(o.id, status)] && o.id != "socket" && o.id != "getCluster" {
				t.Errorf("%s %s was never answered with %d", o.method, o.pattern, status)
			}
		}
	}
}

func TestExamplesAreOfTheirSchemas(t *testing.T) {
	t.Parallel()
	d := describe(t)
	c := &conformance{t: t, doc: d.openapiDoc, schemas: map[string]*jsonschema.Schema{}}
	c.compile()
	bodies := 0
	for path, operations := range d.openapiDoc["paths"].(object) {
		for method, op := range operations.(object) {
			check := func(at string, content any) {
				for media, body := range content.(object) {
					pointer := at + "/content/" + escape(media) + "/schema"
					bodies++
					if example, ok := body.(object)["example"]; !ok {
						t.Errorf("%s has no example", pointer)
					} else if err := c.schema(pointer).Validate(example); err != nil {
						t.Errorf("the example of %s: %v", pointer, err)
					}
				}
			}
			base := "/paths/" + escape(path) + "/" + method
			if body, ok := op.(object)["requestBody"].(object); ok {
				check(base+"/requestBody", body["content"])
			}
			for status, r := range op.(object)["responses"].(object) {
				if r.(object)["content"] != nil {
					check(base+"/responses/"+status, r.(object)["content"])
				}
			}
		}
	}
	if bodies < len(listOperations()) {
		t.Errorf("only %d bodies are described", bodies)
	}
}

// conformance compares a server with its description.
type conformance struct {
	*running
	t         *testing.T
	doc       object
	compiler  *jsonschema.Compiler
	schemas   map[string]*jsonschema.Schema // by their pointers
	rand      *rand.Rand
	succeeded map[string]bool // by operation and status
	command   string          // the id of an open command of room-1
	gone      string          // the URL of a webhook that takes nothing
}

func newConformance(t *testing.T, s *running) *conformance {
	t.Helper()
	var doc object
	s.get("/openapi.json", &doc)
	closeAll(doc["components"].(object)["schemas"])
	c := &conformance{
		running: s, t: t, doc: doc, schemas: map[string]*jsonschema.Schema{}, succeeded: map[string]bool{},
	}
	c.compile()
	return c
}

// closeAll makes objects refuse members that are not described.
func closeAll(v any) {
	switch v := v.(type) {
	case object:
		if v["properties"] != nil && v["additionalProperties"] == nil && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeAll(member)
		}
	case []any:
		for _, item := range v {
			closeAll(item)
		}
	}
}

func (c *conformance) compile() {
	c.compiler = jsonschema.NewCompiler()
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource("http://localhost/openapi.json", c.doc); err != nil {
		c.t.Fatal(err)
	}
}

func escape(segment string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(segment))
}

// schema compiles the schema at a place in the document.
func (c *conformance) schema(pointer string) *jsonschema.Schema {
	if s := c.schemas[pointer]; s != nil {
		return s
	}
	s, err := c.compiler.Compile("http://localhost/openapi.json#" + pointer)
	if err != nil {
		c.t.Fatalf("%s: %v", pointer, err)
	}
	c.schemas[pointer] = s
	return s
}

// fixtures makes what the examples name, again after each round.
func (c *conformance) fixtures() {
	c.do("DELETE", "/v1/mappings/new-putMapping", "") // which computes the same as fahrenheit
	for _, f := range [][3]string{
		{"/v1/types/Room", mediaJSON, `{"telemetry":{"temperature":{"type":"number"}}}`},
		{"/v1/entities/room-1", mediaJSON, `{"attributes":{"floor":2},"desired":{"setpoint":21}}`},
		{"/v1/entities/sensor-1", mediaJSON, `{}`},
		{"/v1/entities/room-1/relations/contains/sensor-1", mediaJSON, `{"since":2020}`},
		{"/v1/queries/hot-rooms", mediaJSON, `{"filter":"temperature > 30"}`},
		{"/v1/mappings/fahrenheit", mediaText, "insert into room select sensor.t * 1.8 + 32 as fahrenheit"},
		{"/v1/templates/zigbee2mqtt", mediaJSON, `{"topic":"zigbee2mqtt/{id}","members":"*","commands":[{"topic":"zigbee2mqtt/{id}/set"}]}`},
		{"/v1/scripts/dry-run", mediaJSON, `{"source":"function on_reading(e, r) end"}`},
		{"/v1/retention/meters", mediaJSON, `{"raw":"30d","tiers":[{"step":"1h"}]}`},
		{"/v1/webhooks/ops", mediaJSON, `{"url":"` + c.gone + `"}`},
		{"/v1/alarm-rules/overheating", mediaJSON, `{"raise":"heat > 80","clear":"heat < 70","severity":"major","webhooks":["ops"]}`},
	} {
		for _, condition := range []string{"If-None-Match", "If-Match"} {
			if resp, _ := c.do("PUT", f[0], f[2], "Content-Type", f[1], condition, "*"); resp.StatusCode < 300 {
				break
			}
		}
	}
	c.post("room-1", `{"ts":1451649600512,"values":{"temperature":21.5,"fahrenheit":70}}`)
	c.post("sensor-1", `{"t":20}`)
	if err := c.claims.Offer("", "room-1", "from-the-label", 0); err != nil {
		c.t.Fatal(err)
	}
	c.post("room-1", `{"heat":90}`)
	if err := c.alarms.Sync(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	made, err := c.runtime.Command(c.t.Context(), "room-1", entity.NewCommand{Name: "restart", Key: "of the fixtures"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.command = made.ID
}

// answerCommands is the device of sensor-1.
func (c *conformance) answerCommands() {
	stop, err := c.runtime.Receive("sensor-1", func(got entity.Command) {
		_ = c.runtime.Done(context.Background(), got.Entity, got.ID, value.Bool(true)) // it may be deleted
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(stop)
}

// deadLetter waits for a delivery that was given up and returns its number.
func (c *conformance) deadLetter() uint64 {
	for {
		list, _, err := c.alarms.DeadLetters(c.t.Context(), "ops", 0, 1)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(list) > 0 {
			return list[0].Seq
		}
		if err := pause.For(c.t.Context(), 5*time.Millisecond); err != nil {
			c.t.Fatal(err)
		}
	}
}

// keepEditing edits what an entity should be again and again, until end is called.
func (c *conformance) keepEditing(id string) (end func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; pause.For(ctx, 5*time.Millisecond) == nil; i++ {
			if _, err := c.runtime.Edit(c.t.Context(), id, entity.Edits{Patches: []entity.Patch{{Section: entity.Desired, Body: fmt.Appendf(nil, `{"n":%d}`, i)}}}); err != nil {
				c.t.Error(err)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// ask sends one request to an operation and checks the answer.
func (c *conformance) ask(o *operation, round int) {
	at := "/paths/" + escape(o.pattern) + "/" + strings.ToLower(o.method)
	op := c.doc["paths"].(object)[o.pattern].(object)[strings.ToLower(o.method)].(object)
	c.rand = rand.New(rand.NewPCG(crc64.Checksum([]byte(o.id), crc64.MakeTable(crc64.ISO)), uint64(round+300))) //nolint:gosec // the same requests each time, whatever operations there are
	path, header := c.parameters(o, op, round)
	body, media := c.body(op, round)
	if o.id == "postBulk" && round == 2 {
		body = `{"filter":"","delete":true,"dry_run":true}`
	}
	if o.id == "postSession" && round == 2 {
		body = `{"token":"` + c.token + `"}`
	}
	if o.id == "putEntity" && round == 1 { // the example has another id than the path
		body = `{"attributes":{"floor":2}}`
	}
	if o.id == "putTemplate" && round == 1 { // another one has the topics of the example
		body = `{"topic":"other/{id}","members":"*"}`
	}
	if o.id == "getDeviceCommand" && round == 1 {
		if _, err := c.runtime.Command(c.t.Context(), "root", entity.NewCommand{Name: "reboot"}); err != nil {
			c.t.Fatal(err)
		}
	}
	if o.id == "getDeviceUpdate" && round == 1 {
		defer c.keepEditing("root")()
	}
	if o.id == "rollBackScript" && round == 0 {
		list, err := c.scripts.Versions(c.t.Context(), "dry-run")
		if err != nil {
			c.t.Fatal(err)
		}
		body = fmt.Sprintf(`{"version":%d}`, list[len(list)-1].Version)
	}
	if o.id == "putAlarmRule" && round == 2 {
		path, header, body = "/v1/alarm-rules/overheating?check", http.Header{}, `{"raise":"heat > 80","severity":"major"}`
	}
	if strings.HasSuffix(o.id, "DeadLetter") && round == 2 {
		path = fmt.Sprintf("/v1/webhooks/ops/dead/%d", c.deadLetter())
		if o.id == "retryDeadLetter" {
			path += "/retry"
		}
	}
	if o.id == "clearAlarm" && round == 2 { // it can be when it is not hot any more
		c.post("room-1", `{"heat":75}`)
		if err := c.alarms.Sync(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		list, _, err := c.alarms.Alarms(c.t.Context(), alarm.Query{Open: true, Rule: "overheating", Entity: "room-1"})
		if err != nil || len(list) != 1 {
			c.t.Fatalf("open alarms %v, %v", list, err)
		}
		path, body = "/v1/alarms/"+list[0].ID+"/clear", "{}"
	}
	if o.id == "completeDeviceMessage" && round == 2 { // that of the fixtures was canceled
		made, err := c.runtime.Command(c.t.Context(), "room-1", entity.NewCommand{Name: "restart", Key: "to be completed"})
		if err != nil {
			c.t.Fatal(err)
		}
		path = "/devices/room-1/messages/devicebound/" + made.ID + "?api-version=2021-04-12"
	}
	if o.id == "postAnswer" && round < 2 {
		body = `{"id":"` + c.command + `","progress":50}`
	}
	if o.id == "getType" && round == 2 {
		path = "/v1/types/Room?resolved=true"
	}
	if o.id == "postCommand" && round == 2 {
		path, body = "/v1/entities/sensor-1/commands?wait=25s", `{"name":"restart"}`
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, o.method, "http://"+c.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatalf("%s %s: %v", o.method, path, err)
	}
	req.Header = header
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Errorf("%s %s %s: %v", o.method, path, body, err)
		return
	}
	defer resp.Body.Close()
	asked := fmt.Sprintf("%s %s %v %.500s", o.method, path, header, body)
	if (o.id == "stream" || o.id == "streamAlarms") && resp.StatusCode == http.StatusOK { // which has no end
		c.succeeded[o.id+"200"] = true
		return
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Errorf("%s: %v", asked, err)
		return
	}
	c.check(o, at, asked, resp, text)
	if resp.StatusCode == http.StatusAccepted && o.id == "postBulk" { // few may run together
		c.finished(resp.Header.Get("Location"))
	}
}

func (c *conformance) check(o *operation, at, asked string, resp *http.Response, text []byte) {
	status := strconv.Itoa(resp.StatusCode)
	documented, ok := c.doc["paths"].(object)[o.pattern].(object)[strings.ToLower(o.method)].(object)["responses"].(object)[status].(object)
	if !ok || resp.StatusCode >= 500 {
		c.t.Errorf("%s: status %s %.500s", asked, status, text)
		return
	}
	pointer := at + "/responses/" + status
	if ref, ok := documented["$ref"].(string); ok {
		pointer = strings.TrimPrefix(ref, "#")
		documented = c.doc["components"].(object)["responses"].(object)[strings.TrimPrefix(ref, "#/components/responses/")].(object)
	}
	if resp.StatusCode < 300 {
		c.succeeded[o.id+status] = true
	}
	content, _ := documented["content"].(object)
	if content == nil {
		if len(text) > 0 {
			c.t.Errorf("%s: %s with a body %.500s", asked, status, text)
		}
		return
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || content[media] == nil {
		c.t.Errorf("%s: %s with a body of %q", asked, status, resp.Header.Get("Content-Type"))
		return
	}
	if !strings.HasSuffix(media, "json") || media == mediaNDJSON {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = c.schema(pointer + "/content/" + escape(media) + "/schema").Validate(value)
	}
	if err != nil {
		c.t.Errorf("%s: %s %.500s: %v", asked, status, text, err)
	}
}

// parameters returns a path with its query, and a header.
func (c *conformance) parameters(o *operation, op object, round int) (path string, header http.Header) {
	path, header = o.pattern, http.Header{}
	query := url.Values{}
	list, _ := op["parameters"].([]any)
	fresh := makesNew(o) && (round == 1 || round == 3 && o.id == "patchEntity") // in round 1 its type is gone
	for _, item := range list {
		p := item.(object)
		name, schema := p["name"].(string), p["schema"].(object)
		var value any
		switch {
		case name == "command" && round < 4:
			value = c.command
		case name == "token":
			value = c.token
		case name == "timeout" && (o.id == "getDeviceCommand" || round == 1):
			value = "1000"
		case name == "timeout":
			value = "1"
		case name == "wait":
			value = "10ms"
		case round == 0 && o.method == http.MethodPut && name == "If-Match":
			value = "*" // the fixtures are there
		case fresh && strings.HasPrefix(firstName(o.pattern), name+"}"):
			if value = "new-" + o.id; o.id == "putType" {
				value = p["example"] // as the body has it
			}
		case fresh && name == "If-None-Match":
			value = "*"
		case fresh && p["in"] == "path":
			value = p["example"]
		case fresh:
			continue
		case round == 2 && o.id == "putMapping" && name == "check":
			value = "true"
		case round == 2 && o.id == "putMapping" && p["required"] != true:
			continue
		case round == 0 && o.id == "getActor" && name == "path":
			value = "/" // one of the two must be given
		case round == 0 && p["in"] == "path", p["example"] != nil && p["in"] == "path" && c.rand.IntN(4) > 0:
			value = p["example"]
			if value == nil {
				value = "1"
			}
		case round == 0 && p["required"] != true, p["required"] != true && c.rand.IntN(5) > 1:
			continue
		case p["example"] != nil && (round == 0 || c.rand.IntN(2) == 0):
			value = p["example"]
		default:
			value = c.value(schema, 0)
		}
		switch p["in"] {
		case "path":
			text := fmt.Sprint(value)
			if text == "" || strings.Trim(text, ".") == "" { // which a client takes out of a path
				text = "x"
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(text), 1)
		case "header":
			header.Set(name, c.condition(name, round))
		default:
			query[name] = texts(value, p["explode"] == false)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, header
}

// firstName is a path from its first name on.
func firstName(pattern string) string {
	_, rest, _ := strings.Cut(pattern, "{")
	return rest
}

// makesNew reports whether a write under If-None-Match makes what its path names.
func makesNew(o *operation) bool {
	return slices.Contains(o.statuses, http.StatusCreated) && o.request.has("If-None-Match")
}

// condition returns a version, or any.
func (c *conformance) condition(name string, round int) string {
	if round < 2 || name == "If-None-Match" || c.rand.IntN(4) > 0 {
		return "*"
	}
	return `"3k"`
}

// texts is the value of a parameter of a query.
func texts(v any, joined bool) []string {
	list, ok := v.([]any)
	if !ok {
		if f, ok := v.(float64); ok {
			return []string{strconv.FormatFloat(f, 'f', -1, 64)}
		}
		return []string{fmt.Sprint(v)}
	}
	var out []string
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	if joined {
		return []string{strings.Join(out, ",")}
	}
	return out
}

// body returns a body and its media type.
func (c *conformance) body(op object, round int) (body, media string) {
	described, ok := op["requestBody"].(object)
	if !ok {
		return "", ""
	}
	content := described["content"].(object)
	medias := make([]string, 0, len(content))
	for media := range content {
		medias = append(medias, media)
	}
	slices.Sort(medias)
	media = medias[c.rand.IntN(len(medias))]
	value := content[media].(object)["example"]
	if round > 2 && round%3 != 0 {
		value = c.value(content[media].(object)["schema"].(object), 0)
	}
	if text, ok := value.(string); ok && !strings.HasSuffix(media, "+json") && media != mediaJSON {
		return text, media
	}
	text, err := json.Marshal(value)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text), media
}

// words are texts that a request may have anywhere.
var words = []string{"", "a", "room-1", "sensor-1", "temperature", "Room", "temperature > 20", "attributes.floor = 2", "avg", "1h", "day", "Grüße ✓", "x/y", `"`, strings.Repeat("long", 60)}

// value makes a value that a schema allows.
func (c *conformance) value(s object, depth int) any {
	if list, ok := s["examples"].([]any); ok && c.rand.IntN(3) == 0 {
		return list[c.rand.IntN(len(list))]
	}
	if ref, ok := s["$ref"].(string); ok {
		return c.value(c.doc["components"].(object)["schemas"].(object)[strings.TrimPrefix(ref, "#/components/schemas/")].(object), depth+1)
	}
	for _, of := range []string{"enum", "oneOf", "anyOf"} {
		if list, ok := s[of].([]any); ok {
			chosen := list[c.rand.IntN(len(list))]
			if of == "enum" {
				return chosen
			}
			return c.value(chosen.(object), depth+1)
		}
	}
	switch s["type"] {
	case "object":
		return c.object(s, depth)
	case "array":
		list := []any{}
		least, _ := s["minItems"].(float64)
		for items, _ := s["items"].(object); depth < 8 && items != nil && (len(list) < int(least) || c.rand.IntN(2) == 0) && len(list) < 3; {
			list = append(list, c.value(items, depth+1))
		}
		return list
	case "string":
		if s["format"] == "date-time" {
			return "2016-01-01T12:00:00Z"
		}
		return words[c.rand.IntN(len(words))]
	case "integer", "number":
		return c.number(s)
	case "boolean":
		return c.rand.IntN(2) == 0
	case "null":
		return nil
	default: // anything
		return []any{nil, true, 1.5, "text", object{"a": 1.0}, []any{}}[c.rand.IntN(6)]
	}
}

func (c *conformance) object(s object, depth int) any {
	out := object{}
	required, _ := s["required"].([]any)
	properties, _ := s["properties"].(object)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(required, any(name)) || depth < 6 && c.rand.IntN(3) == 0 {
			out[name] = c.value(properties[name].(object), depth+1)
		}
	}
	if of, ok := s["additionalProperties"].(object); ok && depth < 6 {
		for range c.rand.IntN(3) {
			out[words[1+c.rand.IntN(len(words)-1)]] = c.value(of, depth+1)
		}
	}
	return out
}

// number makes a number, often the least or the greatest that is allowed.
func (c *conformance) number(s object) float64 {
	least, ok := s["minimum"].(float64)
	if !ok {
		least = -1000
	}
	most, ok := s["maximum"].(float64)
	if !ok {
		most = 1e12
	}
	switch c.rand.IntN(3) {
	case 0:
		return least
	case 1:
		return most
	default:
		return least + float64(c.rand.IntN(100))
	}
}
