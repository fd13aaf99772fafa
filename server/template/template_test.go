package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// docs is a store in memory.
type docs struct {
	list map[string]entity.Doc
	fail error
	// unread is why they cannot be read.
	unread error
}

func (d *docs) Docs(context.Context, string) (list []entity.Doc, err error) {
	for _, doc := range d.list {
		list = append(list, doc)
	}
	slices.SortFunc(list, func(a, b entity.Doc) int { return strings.Compare(a.ID, b.ID) })
	return list, d.unread
}

func (d *docs) PutDoc(_ context.Context, kind, id string, body []byte, condition string) (entity.Doc, error) {
	old, had := d.list[id]
	etag := ""
	if had {
		etag = old.ETag()
	}
	if err := entity.CheckCondition(condition, etag); err != nil {
		return old, err
	}
	doc := entity.Doc{Kind: kind, ID: id, Body: body, Version: old.Version + 1}
	if d.list == nil {
		d.list = map[string]entity.Doc{}
	}
	d.list[id] = doc
	return doc, d.fail
}

func (d *docs) DeleteDoc(_ context.Context, _, id, _ string) error {
	if _, ok := d.list[id]; !ok {
		return entity.ErrNotFound
	}
	delete(d.list, id)
	return d.fail
}

// now is the time of all messages.
var now = time.UnixMilli(1_700_000_000_000)

func openBook(t *testing.T, d *docs) *Book {
	t.Helper()
	b, err := Open(t.Context(), d, slog.New(slog.DiscardHandler), []Taken{{"e/", "the server"}, {"v1/devices/me/", "thingsboard"}, {"v1/gateway/", "thingsboard"}})
	if err != nil {
		t.Fatal(err)
	}
	b.now = func() time.Time { return now }
	return b
}

func parse(t *testing.T, text string) *Template {
	t.Helper()
	parsed, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return parsed
}

// shown is an outcome, or the error.
func shown(o *Outcome, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case o.Into == Nothing:
		return o.Entity + " nothing"
	case o.Timed:
		return fmt.Sprintf("%s %s %s at %d", o.Entity, o.Into, o.Values, o.TS)
	default:
		return fmt.Sprintf("%s %s %s", o.Entity, o.Into, o.Values)
	}
}

func TestMessagesAreReadAsTheTemplateSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ template, topic, payload, want string }{
		{
			`{"topic":"zigbee2mqtt/{id}","members":"*"}`, "zigbee2mqtt/lamp", `{"state":"ON", "brightness":215,"color":{"x":0.1,"y":2},"action":null}`,
			`lamp telemetry {"state":"ON","brightness":215,"color":{"x":0.1,"y":2}}`,
		},
		{
			`{"topic":"zigbee2mqtt/{id}","members":"*","flatten":true}`, "zigbee2mqtt/lamp", `{"color":{"x":0.1,"y":{"z":[1,{"a":2}]}},"e":{}}`,
			`lamp telemetry {"color.x":0.1,"color.y.z":[1,{"a":2}]}`,
		},
		{
			`{"topic":"tele/{id}/SENSOR","entity":"tasmota-{id}","values":{"kw":"ENERGY.Power / 1000","t":"DS18B20.Temperature * 1.8 + 32","none":"Missing.at + 1"}}`,
			"tele/a/SENSOR", `{"ENERGY":{"Power":3200},"DS18B20":{"Temperature":20}}`, `tasmota-a telemetry {"kw":3.2,"t":68}`,
		},
		{`{"topic":"a/{id}","values":{"second":"list.` + "`1`" + `.v","whole":"list"}}`, "a/b", `{"list":[{"v":1},{"v":2}]}`, `b telemetry {"second":2,"whole":[{"v":1},{"v":2}]}`},
		{`{"topic":"shellies/{id}/relay/{n}/{key}","payload":"text","values":{"{key}_{n}":"value"}}`, "shellies/plug/relay/0/power", ` 21.03 `, `plug telemetry {"power_0":21.03}`},
		{`{"topic":"x/{id}","payload":"text","values":{"on":"value = \"on\""}}`, "x/y", "on", `y telemetry {"on":true}`},
		{`{"topic":"x/{id}","payload":"text","values":{"v":"value"}}`, "x/y", `"a \"b\""`, `y telemetry {"v":"a \"b\""}`},
		{`{"topic":"x/{id}","payload":"text","values":{"v":"value"}}`, "x/y", `true`, `y telemetry {"v":true}`},
		{`{"topic":"x/{id}","payload":"text","values":{"v":"value"}}`, "x/y", `{"a":1}`, `y telemetry {"v":"{\"a\":1}"}`},
		{`{"topic":"x/{id}","into":"reported","members":"*"}`, "x/y", `{"fw":"1.2","cfg":{"a":1}}`, `y reported {"fw":"1.2","cfg":{"a":1}}`},
		{`{"topic":"+/{id}/x","entity":"{id}","into":"nothing"}`, "x/y/x", `not JSON`, `y nothing`},
		{`{"topic":"x/{id}","when":"kind = 2","members":"*"}`, "x/y", `{"kind":1}`, `y nothing`},
		{`{"topic":"x/{id}","when":"kind = 2","members":"*"}`, "x/y", `{}`, `y nothing`},
		{`{"topic":"x/{id}","members":"p.*","time":"p.ts","time_unit":"s"}`, "x/y", `{"p":{"ts":1631186545.04,"a":1},"q":2}`, `y telemetry {"a":1} at 1631186545040`},
		{`{"topic":"x/{id}","members":"*","time":"at"}`, "x/y", `{"at":"1451649600512","a":1}`, `y telemetry {"a":1} at 1451649600512`},
		{`{"topic":"x/{id}","members":"*","time":"at"}`, "x/y", `{"at":null,"a":1}`, `y telemetry {"a":1}`},
		{`{"topic":"x/{id}","members":"*","time":"at","time_unit":"iso"}`, "x/y", `{"at":"2016-01-01T12:00:00.5+01:00","a":1}`, `y telemetry {"a":1} at 1451646000500`},
		{`{"topic":"x/{id}","members":"*","time":"at","time_unit":"iso","time_zone":"Europe/Berlin"}`, "x/y", `{"at":"2016-01-01T12:00:00","a":1}`, `y telemetry {"a":1} at 1451646000000`},
		{`{"topic":"x/{id}","members":"*","time":"at","time_unit":"iso","time_zone":"UTC"}`, "x/y", `{"at":"2016-01-01T12:00:00","a":1}`, `y telemetry {"a":1} at 1451649600000`},
		{`{"topic":"x/{id}","values":{"a":"b * 2"},"members":"*"}`, "x/y", `{"a":1,"b":2}`, `y telemetry {"a":4,"b":2}`},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"ts":5,"values":{"a":1}}`, `y telemetry {"ts":5,"values":{"a":1}}`},
	} {
		b := openBook(t, &docs{})
		trial, err := b.NewTrial("", parse(t, tt.template))
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		if got := shown(trial.Read(tt.topic, []byte(tt.payload))); got != tt.want {
			t.Errorf("%s\n%s %s\ngot  %s\nwant %s", tt.template, tt.topic, tt.payload, got, tt.want)
		}
	}
}

func TestMessagesThatDoNotFitAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, entity.MaxDepth+1) + "1" + strings.Repeat("}", entity.MaxDepth+1)
	many := &strings.Builder{}
	for i := range entity.MaxReadingKeys + 1 {
		fmt.Fprintf(many, `,"k%d":1`, i)
	}
	for _, tt := range []struct{ template, topic, payload, want string }{
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"a":}`, "payload: must be JSON; invalid character '}'"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", ``, "payload: must be JSON"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `21`, "for a single value the template needs payload text"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", "{\"a\":\"\xff\"}", "must be UTF-8"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"a":"\ud800"}`, "payload: "},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"a":1,"a":2}`, `the key "a" comes twice`},
		{`{"topic":"x/{id}","members":"*","flatten":true}`, "x/y", `{"a":{"b":1},"a.b":2}`, `the key "a.b" comes twice`},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"a":1e999}`, "payload: "},
		{`{"topic":"x/{id}","members":"*","flatten":true}`, "x/y", deep, "nested more than 32 deep"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", "{" + many.String()[1:] + "}", "more than 1024 keys"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{"a":"` + strings.Repeat("x", MaxPayloadBytes) + `"}`, "a template takes at most"},
		{`{"topic":"x/{id}","members":"*","flatten":true}`, "x/y", `{"` + strings.Repeat("n", 300) + `":{"a":{}}}`, "must have 1 to 256 bytes, not 300"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y", `{}`, "no value that the template asks for"},
		{`{"topic":"x/{id}","members":"p.*"}`, "x/y", `{"p":3}`, `members: the payload must have an object there, not "3"`},
		{`{"topic":"x/{id}","values":{"a":"b / c"}}`, "x/y", `{"b":1,"c":0}`, "values.a: "},
		{`{"topic":"x/{id}","values":{"a":"b * 2"}}`, "x/y", `{"b":"c"}`, "values.a: "},
		{`{"topic":"x/{id}","members":"*","time":"at"}`, "x/y", `{"a":1,"at":"soon"}`, "the time must be a number"},
		{`{"topic":"x/{id}","members":"*","time":"at","time_unit":"s"}`, "x/y", `{"a":1,"at":1e300}`, "the time must be a number in s"},
		{`{"topic":"x/{id}","members":"*","time":"at","time_unit":"iso"}`, "x/y", `{"a":1,"at":"2016-01-01T12:00:00"}`, "one without a zone needs time_zone"},
		{`{"topic":"x/{id}","payload":"text","values":{"a":"value"}}`, "x/y", "  ", "no bytes"},
		{`{"topic":"x/{id}","payload":"text","values":{"a":"value"}}`, "x/y", strings.Repeat("x", entity.MaxTextBytes+1), "payload: "},
		{`{"topic":"x/{id}","members":"*"}`, "x/ y", `{"a":1}`, "must not begin or end with a space"},
		{`{"topic":"x/{id}","members":"*"}`, "x/" + strings.Repeat("y", 300), `{"a":1}`, "must have 1 to 256 bytes"},
		{`{"topic":"x/{id}","payload":"text","values":{"{id}":"value"}}`, "x/", "1", "must have 1 to 256 bytes"},
		{`{"topic":"x/{id}","members":"*"}`, "x/y/z", `{"a":1}`, `x/{id} does not take the topic "x/y/z"`},
	} {
		b := openBook(t, &docs{})
		trial, err := b.NewTrial("", parse(t, tt.template))
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		o, err := trial.Read(tt.topic, []byte(tt.payload))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s\n%s %.100s\ngot  %.300s\nwant %s", tt.template, tt.topic, tt.payload, shown(o, err), tt.want)
		}
	}
}

func TestMistakesInTemplatesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"topic":"","members":"*"}`:                                                                       "topic: must have 1 to 512 bytes, not 0",
		`{"topic":"$SYS/{id}","members":"*"}`:                                                              "topic: must not begin with $",
		`{"topic":"a/x{id}","members":"*"}`:                                                                `topic: the level "x{id}" must be`,
		`{"topic":"a/{id","members":"*"}`:                                                                  "topic: the level",
		`{"topic":"a/#","members":"*"}`:                                                                    "topic: the level",
		`{"topic":"{id}/{id}","members":"*"}`:                                                              "topic: the placeholder {id} comes twice",
		`{"topic":"a/b","members":"*"}`:                                                                    "entity: must be the id of the entity, as the topic has no placeholder {id}",
		`{"topic":"a/{x}","members":"*","entity":"{y}"}`:                                                   "entity: there is no placeholder {y}; those that it may have are: {x}",
		`{"topic":"a/{id}","members":"*","entity":"a/{id}"}`:                                               "entity: ",
		`{"topic":"a/{id}"}`:                                                                               "values: must have a key",
		`{"topic":"a/{id}","into":"telemetri","members":"*"}`:                                              `into: must be telemetry, reported, nothing, not "telemetri"`,
		`{"topic":"a/{id}","into":"nothing","members":"*"}`:                                                "into: what goes to nothing has no values",
		`{"topic":"a/{id}","into":"nothing","when":"a = 1"}`:                                               "into: what goes to nothing has no values",
		`{"topic":"a/{id}","into":"nothing","payload":"text"}`:                                             "into: what goes to nothing has no values",
		`{"topic":"a/{number}","entity":"{number}","members":"*"}`:                                         "",
		`{"topic":"a/{number}","entity":"{number}","members":"*","commands":[{"topic":"a/{number}/set"}]}`: "entity: must not have the placeholder {number}",
		`{"topic":"a/{id}","into":"reported","members":"*","time":"t"}`:                                    "time: what is reported has the time of its arrival",
		`{"topic":"a/{id}","payload":"text","members":"*"}`:                                                "members: a payload that is a text has none",
		`{"topic":"a/{id}","payload":"text","values":{"a":"x"}}`:                                           "values.a: column 1: a payload that is a text has one name only: value",
		`{"topic":"a/{id}","values":{"a":"b +"}}`:                                                          "values.a: column 4: expected",
		`{"topic":"a/{id}","values":{"a":"b c"}}`:                                                          "values.a: column 3: expected",
		`{"topic":"a/{id}","values":{"a":"avg(b)"}}`:                                                       "values.a: column 1: avg is over many values",
		`{"topic":"a/{id}","values":{"{x}":"b"}}`:                                                          "values.{x}: there is no placeholder {x}",
		`{"topic":"a/{id}","values":{"":"b"}}`:                                                             "values.: ",
		`{"topic":"a/{id}","members":"p"}`:                                                                 "members: must be * for all members",
		`{"topic":"a/{id}","members":"p + 1.*"}`:                                                           "members: ",
		`{"topic":"a/{id}","members":"*","time":"t","time_unit":"h"}`:                                      "time_unit: must be ms, s, iso",
		`{"topic":"a/{id}","members":"*","time":"t","time_unit":"iso","time_zone":"Mars"}`:                 "time_zone: must be the name of a zone",
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/+/set"}]}`:                                "commands[0].topic: must be the topic of a message",
		`{"topic":"a/{id}/{n}","members":"*","commands":[{"topic":"a/{id}/{n}/set"}]}`:                     "commands[0].topic: there is no placeholder {n}",
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}/set","payload":{"a":"{b}"}}]}`:       "commands[0].payload: there is no placeholder {b}",
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}/set","payload":3,"text":true}]}`:     "commands[0].payload: must be a string",
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}/set"},{"topic":"b/{id}/set"}]}`:      `commands[1].name: there is another one for ""`,
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}/set","answer":{"topic":"a/b"}}]}`:    "commands[0].answer.topic: must have the placeholder {id}",
		`{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}"}]}`:                                 "commands[0].topic: the topic is taken: a/+ is the topic of this template, too",
		`{"topic":"e/{id}/x","members":"*"}`:                                                               "topic: the topic is taken: topics that begin with e/ are those of the server",
		`{"topic":"v1/devices/{id}","members":"*"}`:                                                        "",
		`{"topic":"v1/devices/{id}/x","members":"*"}`:                                                      "topic: the topic is taken: topics that begin with v1/devices/me/ are those of thingsboard",
		`{"topic":"v1/{id}/telemetry","members":"*"}`:                                                      "topic: the topic is taken: topics that begin with v1/gateway/ are those of thingsboard",
		`{"topic":"{id}/events/rpc","members":"*"}`:                                                        "",
		`{"topic":"{building}/{id}/telemetry","members":"*"}`:                                              "",
	} {
		_, err := openBook(t, &docs{}).NewTrial("", parse(t, text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{``, `[]`, `null`, `{"topics":"a"}`, `{"topic":3}`, `{} {}`, `{"topic":"` + strings.Repeat("x", MaxTemplateBytes) + `"}`} {
		if _, err := Parse([]byte(text)); text != "null" && !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func TestTheTemplateCountsWhoseTopicIsCloser(t *testing.T) {
	t.Parallel()
	b := openBook(t, &docs{})
	for i, topic := range []string{"a/{id}/{key}", "a/{id}/online", "{x}/{id}/b", "a/x/{id}", "a/{id}/+/deep"} {
		if _, err := b.Put(t.Context(), fmt.Sprint(i), parse(t, `{"topic":"`+topic+`","members":"*"}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	for topic, want := range map[string]string{
		"a/y/online": "1", "a/y/power": "0", "a/y/b": "0", "c/y/b": "2", "a/x/online": "3", "a/y/z/deep": "4",
		"a/y": "", "c/y/c": "", "a//": "0", "$a/y/b": "", strings.Repeat("a/", 30): "", strings.Repeat("a", MaxTopicBytes+1): "",
	} {
		got := ""
		if u, _ := b.set.Load().find(topic); u != nil {
			got = u.template.name
		}
		if got != want {
			t.Errorf("%q is taken by %q, want %q", topic, got, want)
		}
	}
}

func TestTwoTemplatesDoNotTakeTheSameTopics(t *testing.T) {
	t.Parallel()
	d := &docs{}
	b := openBook(t, d)
	if _, err := b.Put(t.Context(), "one", parse(t, `{"topic":"a/{id}","members":"*","commands":[{"topic":"a/{id}/set","answer":{"topic":"a/{id}/answer"}}]}`), ""); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"topic":"a/{x}","entity":"{x}","members":"*"}`:                             `template "one" takes the same topics, with a/+, as its topic`,
		`{"topic":"a/{id}/set","members":"*"}`:                                       "as its command topic",
		`{"topic":"b/{id}","members":"*","commands":[{"topic":"a/{id}/answer"}]}`:    "as its answer topic",
		`{"topic":"b/{id}","members":"*","commands":[{"topic":"a/{id}"}]}`:           "as its topic",
		`{"topic":"b/{id}","members":"*","commands":[{"topic":"a/{command}/{id}"}]}`: "",
	} {
		_, err := b.Put(t.Context(), "two", parse(t, text), "")
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	// What is in its own way it may replace.
	if _, err := b.Put(t.Context(), "one", parse(t, `{"topic":"a/{id}","members":"*"}`), entity.IfAny); err != nil {
		t.Error(err)
	}
	if u, _ := b.set.Load().find("a/x/set"); u != nil && u.template.name == "one" {
		t.Error("the topic of a command that is gone is still taken")
	}
}

func TestTemplatesAreKept(t *testing.T) {
	t.Parallel()
	d := &docs{}
	b := openBook(t, d)
	first, err := b.Put(t.Context(), "one", parse(t, `{"topic":"a/{id}","members":"*"}`), entity.IfNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "one", parse(t, `{"topic":"b/{id}","members":"*"}`), entity.IfNone); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("put again: %v", err)
	}
	if u, _ := b.set.Load().find("b/x"); u != nil {
		t.Error("what was refused is in force")
	}
	if _, err := b.Put(t.Context(), "one", parse(t, `{"topic":"b/{id}","members":"*"}`), first.ETag); err != nil {
		t.Error(err)
	}
	d.list["other"] = entity.Doc{ID: "other", Body: []byte(`{"topic":"b/{x}","entity":"{x}","members":"*"}`), Version: 1}
	d.list["worse"] = entity.Doc{ID: "worse", Body: []byte(`?`), Version: 1}
	again := openBook(t, d)
	list := again.List()
	if len(list) != 3 || list[0].Problem != "" || list[0].Topic != "b/{id}" || list[1].Problem == "" || list[2].Problem == "" {
		t.Errorf("kept: %+v", list)
	}
	if err := again.Delete(t.Context(), "one", ""); err != nil {
		t.Error(err)
	}
	if s, err := again.Get("other"); err != nil || s.Problem != "" {
		t.Errorf("what was in the way is gone, and it is not in force: %+v, %v", s, err)
	}
	if _, err := again.Get("one"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if err := again.Delete(t.Context(), "one", ""); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// After an error of the store nobody knows what it has.
func TestAfterAnErrorOfTheStoreItsTemplatesAreInForce(t *testing.T) {
	t.Parallel()
	d := &docs{fail: errors.New("disk on fire")}
	b := openBook(t, d)
	if _, err := b.Put(t.Context(), "one", parse(t, `{"topic":"a/{id}","members":"*"}`), ""); !errors.Is(err, d.fail) {
		t.Errorf("put: %v", err)
	}
	if u, _ := b.set.Load().find("a/x"); u == nil {
		t.Error("the template that was stored is not in force")
	}
}

func TestADeletedTemplateIsOutOfForceWhateverTheStoreSays(t *testing.T) {
	t.Parallel()
	d := &docs{}
	b := openBook(t, d)
	for _, name := range []string{"one", "two"} {
		if _, err := b.Put(t.Context(), name, parse(t, `{"topic":"`+name+`/{id}","members":"*"}`), ""); err != nil {
			t.Fatal(err)
		}
	}
	d.unread = errors.New("disk on fire")
	if err := b.Delete(t.Context(), "one", ""); !errors.Is(err, d.unread) {
		t.Errorf("delete: %v", err)
	}
	if u, _ := b.set.Load().find("one/x"); u != nil || len(b.List()) != 1 {
		t.Errorf("it is still in force: %v", b.List())
	}
	if u, _ := b.set.Load().find("two/x"); u == nil {
		t.Error("the other is not in force")
	}
}

func TestTheNumberOfTemplatesIsBounded(t *testing.T) {
	t.Parallel()
	b := openBook(t, &docs{})
	for i := range MaxTemplates {
		if _, err := b.Put(t.Context(), fmt.Sprint(i), parse(t, fmt.Sprintf(`{"topic":"a%d/{id}","members":"*"}`, i)), ""); err != nil {
			t.Fatal(err)
		}
	}
	one := parse(t, `{"topic":"b/{id}","members":"*"}`)
	if _, err := b.Put(t.Context(), "more", one, ""); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if _, err := b.Put(t.Context(), "7", one, ""); err != nil {
		t.Errorf("in the place of one: %v", err)
	}
}

func TestReadyTemplatesTakeTheirMessagesTogether(t *testing.T) {
	t.Parallel()
	b := openBook(t, &docs{})
	want := map[string]string{
		"zigbee2mqtt":              `lamp telemetry {"state":"ON","brightness":215,"color_temp":325,"linkquality":94}`,
		"zigbee2mqtt-availability": `lamp reported {"online":true}`,
		"zigbee2mqtt-bridge":       ` nothing`,
		"tasmota-sensor":           `tasmota_9CF9D1 telemetry {"Time":"2024-02-24T22:20:38","ENERGY.Power":3.2,"ENERGY.Voltage":230,"DS18B20.Temperature":21.5}`,
		"tasmota-state":            `tasmota_9CF9D1 telemetry {"on":false,"uptime_s":611,"wifi_signal":-78}`,
		"tasmota-lwt":              `tasmota_9CF9D1 reported {"online":true}`,
		"shelly1-relay":            `shelly1pm-AABBCC telemetry {"relay_0":true}`,
		"shelly1-meter":            `shelly1pm-AABBCC telemetry {"power_0":21.03}`,
		"shelly1-online":           `shelly1pm-AABBCC reported {"online":true}`,
		"shelly2-status":           `shellyplus1pm-a8032ab12345 telemetry {"switch:0.id":0,"switch:0.apower":8.9,"switch:0.output":true} at 1631186545040`,
		"shelly2-online":           `shellyplus1pm-a8032ab12345 reported {"online":true}`,
	}
	for _, r := range AllReady() {
		if _, err := b.Put(t.Context(), r.Name, &r.Template, ""); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	for _, r := range AllReady() {
		u, levels := b.set.Load().find(r.Topic)
		if u == nil || u.template.name != r.Name {
			t.Errorf("%s does not take %s", r.Name, r.Topic)
			continue
		}
		if got := shown(u.template.read(levels, []byte(r.Payload), now)); got != want[r.Name] {
			t.Errorf("%s\ngot  %s\nwant %s", r.Name, got, want[r.Name])
		}
	}
}

func TestCommandsGoOutAsTheTemplateSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ command, name, request, want string }{
		{`{"topic":"z/{id}/set"}`, "set", `{"state":"ON"}`, `z/lamp/set {"state":"ON"}`},
		{`{"topic":"z/{id}/set"}`, "get", ``, `z/lamp/set `},
		{`{"topic":"z/{id}/set","payload":{"{command}":"{request}"}}`, "state", `"ON"`, `z/lamp/set {"state":"ON"}`},
		{`{"topic":"cmnd/{id}/{command}","payload":"{request}","text":true}`, "POWER", `"ON"`, `cmnd/lamp/POWER ON`},
		{`{"topic":"cmnd/{id}/{command}","payload":"{request}","text":true}`, "Dimmer", `40`, `cmnd/lamp/Dimmer 40`},
		{`{"topic":"cmnd/{id}/{command}","payload":"{request}","text":true}`, "Status", ``, `cmnd/lamp/Status `},
		{
			`{"topic":"{id}/rpc","payload":{"id":"{number}","src":"us/{id}","method":"{command}","params":"{request}"}}`, "Switch.Set", `{"id":0,"on":true}`,
			`lamp/rpc {"id":7,"method":"Switch.Set","params":{"id":0,"on":true},"src":"us/lamp"}`,
		},
		{`{"topic":"{id}/rpc","payload":{"params":"{request}","list":["{request}",1.50,true]}}`, "x", ``, `lamp/rpc {"list":[null,1.50,true]}`},
		{`{"topic":"z/{id}","payload":"set {command} to {request} as {number}"}`, "a\"b", `{"x":1}`, `z/lamp "set a\"b to {\"x\":1} as 7"`},
		{`{"topic":"cmnd/{id}/{command}"}`, "a/b", ``, `invalid: the name "a/b" of a command cannot be a level of a topic`},
		{`{"topic":"cmnd/{id}/{command}"}`, "#", ``, `invalid: the name "#" of a command cannot be a level of a topic`},
		{`{"name":"on","topic":"z/{id}/on"}`, "off", ``, "none"},
		{`{"name":"on","topic":"z/{id}/on"}`, "on", `1`, "z/lamp/on 1"},
	} {
		c, err := parse(t, `{"topic":"q/{id}","members":"*","commands":[`+tt.command+`]}`).compile("x")
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		command := entity.Command{Name: tt.name}
		command.Request, _ = value.FromJSON(tt.request)
		got := "none"
		if way := c.routeOf(tt.name); way != nil {
			m, err := way.render(&command, 7, bindings{"id": "lamp"})
			got = m.Topic + " " + string(m.Payload)
			if err != nil {
				got = err.Error()
			}
		}
		if got != tt.want {
			t.Errorf("%s of %s\ngot  %s\nwant %s", tt.name, tt.command, got, tt.want)
		}
	}
	// What a large request makes of a small payload is bounded.
	list, err := json.Marshal(slices.Repeat([]string{"{request}"}, 300))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, `{"topic":"q/{id}","members":"*","commands":[{"topic":"z/{id}/set","payload":`+string(list)+`}]}`).compile("x")
	if err != nil {
		t.Fatal(err)
	}
	large := entity.Command{Name: "x", Request: value.String(strings.Repeat("x", entity.MaxTextBytes))}
	if _, err := c.routeOf("x").render(&large, 1, bindings{"id": "lamp"}); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("a message of 20 MB: %v", err)
	}
}

func TestSubscriptionsNameTheEntitiesOfCommands(t *testing.T) {
	t.Parallel()
	p, err := parsePattern("cmnd/{id}/{command}")
	if err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]string{
		"cmnd/a/#": "map[id:a]", "cmnd/a/+": "map[id:a]", "cmnd/a/POWER": "map[command:POWER id:a]", "cmnd/+/+": "map[]", "#": "map[]", "cmnd/#": "map[]",
		"cmnd/a/b/#": "map[command:b id:a]", "cmnd/a": "no", "cmnd/a/b/c": "no", "cmnd/a/b/c/#": "no", "stat/a/#": "no", "+/a/+": "map[id:a]",
		"cmnd/a/" + strings.Repeat("b", MaxTopicBytes+MaxLevels): "no", "cmnd/a/#" + strings.Repeat("/", MaxLevels): "no",
	} {
		got := "no"
		if known, ok := p.coveredBy(filterLevels(filter)); ok {
			got = fmt.Sprint(known)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
}

// Whatever a device sends, a template either makes readings of it that the runtime would make of its own form, or
// refuses it.
func FuzzRead(f *testing.F) {
	for _, r := range AllReady() {
		f.Add(r.Topic, []byte(r.Payload))
	}
	f.Add("zigbee2mqtt/a", []byte(`{"a":{"b":[1,{"c":null}]},"\u00e9":"\\\"","ts":1}`))
	var all []*compiled
	for _, r := range AllReady() {
		c, err := r.Template.compile(r.Name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, c)
	}
	s, err := newSet(all, nil, MaxAllCompiledBytes)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		u, levels := s.find(topic)
		if u == nil {
			return
		}
		if u.role == answers {
			if d, err := parseAnswer(payload); err == nil {
				for i := range u.template.commands {
					said := saying{answer: u.template.commands[i].answer, document: d}
					_, _ = said.settle(&entity.Command{Name: "POWER", ID: "1"})
				}
			}
			return
		}
		if u.role != receives {
			return
		}
		o, err := u.template.read(levels, payload, now)
		if err != nil {
			if !errors.Is(err, entity.ErrInvalid) {
				t.Errorf("%q: %v", payload, err)
			}
			return
		}
		if o.Into == Nothing {
			return
		}
		if !json.Valid(o.Values) {
			t.Errorf("%q becomes %q", payload, o.Values)
		}
		if o.Into != Telemetry {
			return
		}
		list, err := entity.ParseReadings(o.message(), now)
		if err != nil || len(list) != 1 || len(list[0].Values) != len(o.readings[0].Values) {
			t.Errorf("%q becomes %q: %v", payload, o.message(), err)
		}
	})
}
