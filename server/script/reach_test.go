package script

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// reach has, for each function and field that a script can use, how it tries to get at the entities of another tenant. "theirs" never was
// its owner's; kept has what the script has put aside of "moved", while that was. What it says it gets, it writes to its own entity. A
// function without a row fails the test.
var reach = map[string]string{
	// The entity.
	"e:set":            `kept.e:set { hacked = 1 } || kept.e:set({ hacked = 1 }, kept.ts) || kept.set(kept.e, { hacked = 1 }) || kept.set(e, { id = "moved", entity = "theirs" }) || e.set("theirs", { hacked = 1 }) || e.set({ id = "theirs" }, { hacked = 1 }) || e:set("theirs", { hacked = 1 }) || e:set { ["theirs/hacked"] = 1 } || e:set { ["../theirs"] = { hacked = 1 } }`,
	"e:command":        `kept.e:command("hacked") || kept.command(e, "hacked", { entity = "moved", id = "theirs" }) || e.command({ id = "theirs" }, "hacked") || e:command("hacked", { to = "theirs" }, "theirs") || e:command("theirs/hacked")`,
	"e:set_attributes": `kept.e:set_attributes { hacked = 1 } || e.set_attributes("theirs", { hacked = 1 }) || e:set_attributes { id = "theirs", ["../theirs/hacked"] = 1, created = 1 }`,
	"e:desire":         `kept.e:desire { hacked = 1 } || e.desire({ id = "theirs" }, { hacked = 1 }) || e:desire { ["/theirs/hacked"] = 1 } || e:desire({ hacked = 1 }, "theirs")`,
	"e.id":             `e.id = "theirs" || say(e.id, kept.e.id) || rawset(e, "id", "theirs") e:set { hacked = 1 } say(e.latest.secret) || rawset(e, "id", nil)`,
	"e.type":           `e.type = "theirs" || say(e.type, kept.e.type)`,
	"e.created":        `e.created = kept.created || say(kept.e.created == e.created, kept.e.created)`,
	"e.ts":             `e.ts = kept.ts || say(kept.e.ts == e.ts)`,
	"e.late":           `say(kept.e.late)`,
	"e.online":         `say(kept.e.online)`,
	"e.latest":         `e.latest.secret = 1 || say(kept.latest.secret, kept.e.latest.secret) || say(e.latest["theirs/secret"], e.latest["../theirs/telemetry/secret"]) || say(e.latest[{ id = "theirs" }])`,
	"e.attributes":     `e.attributes.hacked = 1 || say(kept.attributes.secret, kept.e.attributes.secret) || say(e.attributes["theirs/secret"], e.attributes["../theirs/secret"], e.attributes["~1theirs~1secret"], e.attributes[""])`,
	"e.desired":        `say(kept.e.desired.secret, e.desired["theirs"], e.desired["/theirs"], e.desired["../theirs"])`,
	"e.reported":       `say(kept.e.reported.secret, e.reported["theirs"], e.reported["/theirs"], e.reported["../theirs"])`,

	// What was put aside.
	"coroutine.wrap":    `say(kept.wrap()) || coroutine.wrap(function() kept.e:set { hacked = 1 } say(kept.e.latest.secret) end)()`,
	"coroutine.create":  `say(coroutine.resume(coroutine.create(function() kept.e:desire { hacked = 1 } return kept.e.latest.secret end)))`,
	"coroutine.resume":  `say(coroutine.resume(kept.co))`,
	"coroutine.yield":   `local co = coroutine.create(function(x) while true do say(x.id, x.latest.secret) x = coroutine.yield(x) end end) coroutine.resume(co, kept.e) coroutine.resume(co, "theirs")`,
	"coroutine.status":  `say(coroutine.status(kept.co))`,
	"coroutine.running": `say(coroutine.running())`,
	"pcall":             `say(pcall(kept.write)) || say(pcall(kept.e.command, kept.e, "hacked"))`,
	"xpcall":            `xpcall(kept.write, function(err) say(err, kept.e.latest.secret) kept.write() end) || xpcall(error, kept.write)`,
	"setmetatable":      `local o = setmetatable({}, { __index = kept.e }) say(o.id, o.latest.secret) o:set { hacked = 1 } || say(pcall(setmetatable, kept.e, { __index = function() return "theirs" end }))`,
	"getmetatable":      `say(getmetatable(e), getmetatable(kept.e)) || local m = getmetatable(e) m.__index(e, "theirs") || getmetatable(e).id = "theirs" || getmetatable("").__index = kept.e say((""):set { hacked = 1 }) || getmetatable("").__index = string`,
	"rawget":            `for _, name in ipairs { "id", "latest", "entity", "e", "b", "s" } do say(rawget(e, name), rawget(kept.e, name)) end`,
	"rawset":            `rawset(kept.latest, "secret", nil) || rawset(kept.e, "id", "theirs") kept.e:set { hacked = 1 } say(kept.e.id) || rawset(kept.e, "id", nil)`,
	"rawequal":          `say(rawequal(e, kept.e), rawequal(e.latest, kept.latest))`,
	"pairs":             `for k, v in pairs(e) do say(k, v) end || for k, v in pairs(e.latest) do say(k, v) end || for k, v in pairs(kept.attributes) do say(k, v) end`,
	"ipairs":            `for k, v in ipairs(e.latest) do say(k, v) end || for k, v in ipairs(kept.e) do say(k, v) end`,
	"next":              `say(next(e), next(kept.e), next(e.latest), next(kept.attributes))`,
	"select":            `select(1, kept.e):set { hacked = 1 }`,
	"unpack":            `say(unpack(kept.e)) || say(unpack { kept.latest.secret, kept.e.id })`,
	"tostring":          `say(tostring(e), tostring(kept.e), tostring(kept.set), tostring(e.latest))`,
	"tonumber":          `say(tonumber(tostring(kept.e):match("0x%x+") or "0"))`,
	"type":              `say(type(e), type(kept.e), type(kept.latest))`,
	"assert":            `assert(kept.e):set { hacked = 1 } || assert(kept.write)()`,
	"error":             `local ok, err = pcall(error, setmetatable({}, { __tostring = kept.write })) say(tostring(err))`,
	"print":             `print(kept.e, kept.latest.secret, e.latest["theirs/secret"]) || say(print)`,
	"table.insert":      `table.insert(kept.e, "theirs") || kept.e[1] = "theirs" || say(kept.e[1], e[1])`,
	"table.remove":      `say(pcall(table.remove, kept.e))`,
	"table.sort":        `table.sort({ 2, 1 }, function() kept.e:set { hacked = 1 } say(kept.e.latest.secret) return true end)`,
	"table.concat":      `say(pcall(table.concat, kept.e))`,
	"table.getn":        `say(table.getn(kept.e), #e.latest)`,
	"table.maxn":        `say(table.maxn(kept.e))`,
	"string.gsub":       `("x"):gsub("x", function() kept.write() return kept.e.latest.secret end) || say((("secret"):gsub("%w+", kept.latest))) || say((("secret"):gsub("%w+", e.attributes)))`,
	"string.gmatch":     `for w in tostring(kept.e):gmatch("%w+") do say(w) end`,
	"string.format":     `say(("%s %q"):format(tostring(kept.e), tostring(kept.latest.secret)))`,
	"string.rep":        `say(e.latest[("../"):rep(5) .. "theirs/secret"])`,
	"string.char":       `say(e.latest["secret" .. string.char(0) .. "theirs"], e.attributes[string.char(0, 255) .. "theirs"])`,
	"e.latest of e.id":  `say(e.latest[kept.id .. ".secret"], e.latest[kept.id .. "/secret"])`,
	"self":              `self = kept.self say(self and self.secret) || self = { secret = kept.latest.secret }`,
	"on_reading":        `on_reading(kept.e, { row = -1 }) || on_reading({ id = "theirs" }, { keep = false }) || on_reading("theirs", { row = -1 })`,

	// They take and return nothing but numbers and texts.
	"string.byte": "", "string.find": "", "string.len": "", "string.lower": "", "string.match": "", "string.reverse": "", "string.sub": "",
	"string.upper": "",
	"math.abs":     "", "math.acos": "", "math.asin": "", "math.atan": "", "math.atan2": "", "math.ceil": "", "math.cos": "", "math.cosh": "",
	"math.deg": "", "math.exp": "", "math.floor": "", "math.fmod": "", "math.frexp": "", "math.ldexp": "", "math.log": "", "math.log10": "",
	"math.max": "", "math.min": "", "math.mod": "", "math.modf": "", "math.pow": "", "math.rad": "", "math.random": "", "math.randomseed": "",
	"math.sin": "", "math.sinh": "", "math.sqrt": "", "math.tan": "", "math.tanh": "",
}

// thief is a script that puts aside what it sees, and runs the rows.
const thief = `
local said, seen, names = {}, {}, {}
function say(...) for i = 1, select("#", ...) do said[#said + 1] = tostring((select(i, ...))) end end
local function walk(t, path)
  if seen[t] then return end
  seen[t] = true
  for k, v in pairs(t) do
    if type(v) == "function" then names[#names + 1] = path .. k elseif type(v) == "table" then walk(v, path .. k .. ".") end
  end
end
walk(_G, "")
walk(getmetatable("") or {}, "string.")
local rows = {}
local function attempt(f)
  local ok, err = pcall(f)
  if not ok then say(err) end
end
%s
function on_reading(e, r)
  if r.keep then
    kept = {
      e = e, id = e.id, set = e.set, command = e.command, latest = e.latest, attributes = e.attributes, created = e.created, ts = e.ts, self = self,
      write = function() e:set { hacked = 1 } e:command("hacked") e:desire { hacked = 1 } end,
      co = coroutine.create(function() while true do e:set { hacked = 1 } coroutine.yield(e.latest.secret) end end),
      wrap = coroutine.wrap(function() while true do coroutine.yield(e.id, e.latest.secret, e.attributes.secret) end end),
    }
    self.secret = e.latest.secret
    e:set { hacked = 1 }
  elseif r.look then
    e:set { has = kept ~= nil, names = names }
  elseif rows[r.row] then
    said = {}
    rows[r.row](e, r)
    e:set { ["said" .. r.row] = "says " .. table.concat(said, " ") }
  end
end`

// TestAScriptReachesNoOtherTenant has a script try all that there is, after its owner has lost an entity to another tenant.
func TestAScriptReachesNoOtherTenant(t *testing.T) {
	p := build(t, t.TempDir())
	order := slices.Sorted(maps.Keys(reach))
	var rows strings.Builder
	for i, name := range order {
		fmt.Fprintf(&rows, "rows[%d] = function(e, r)\n", i)
		for attempt := range strings.SplitSeq(reach[name], "||") {
			fmt.Fprintf(&rows, "attempt(function() %s end)\n", attempt)
		}
		rows.WriteString("end\n")
	}
	tenant := func(id, owner string) {
		t.Helper()
		secret := fmt.Appendf(nil, `{"tenant":%q,"secret":"s3cret"}`, owner)
		edits := entity.Edits{Patches: []entity.Patch{
			{Section: entity.Attributes, Form: entity.MergePatch, Body: secret},
			{Section: entity.Desired, Form: entity.MergePatch, Body: secret},
			{Section: entity.Reported, Form: entity.MergePatch, Body: secret},
		}}
		if _, err := p.rt.Edit(t.Context(), id, edits); err != nil {
			t.Fatal(err)
		}
	}
	own, theirs := Owner{Name: "ann"}, []string{"moved", "theirs"}
	if _, err := p.Put(t.Context(), "thief", Script{Source: fmt.Sprintf(thief, rows.String())}, own, MaxScripts, ""); err != nil {
		t.Fatal(err)
	}
	keep := func(ts int64, secret string) {
		for _, id := range theirs {
			p.write(id, ts, entity.Sample{Key: "keep", Value: value.Int(1)}, entity.Sample{Key: "secret", Value: value.String(secret)})
		}
	}
	keep(1, "before")
	tenant("moved", "ann")
	tenant("theirs", "ben")
	keep(2, "before")
	p.sync("thief")
	mine := ""
	for i := 0; mine == ""; i++ { // the runner of "moved" has it
		id := fmt.Sprint("ann-", i)
		p.write(id, 3, entity.Sample{Key: "look", Value: value.Int(1)})
		p.sync("thief")
		if has, _ := p.latest(id, "has"); has == "true" {
			mine = id
		}
	}
	tenant("moved", "ben")
	keep(4, "s3cret")
	state := func() (text string) {
		for _, id := range theirs {
			err := p.rt.View(t.Context(), id, func(v entity.View) error {
				text += fmt.Sprint(id, v.ETag(), v.Revision(), v.Updated())
				for l := range v.EachLatest() {
					text += fmt.Sprint(l)
				}
				return nil
			})
			commands, more := p.rt.Commands(t.Context(), id, entity.CommandsQuery{})
			if err != nil || more != nil {
				t.Fatal(err, more)
			}
			text += fmt.Sprint(commands)
		}
		return text
	}
	p.sync("thief")
	before := state()
	if moved, from := p.latest("moved", "hacked"); moved != "1" || strings.Count(before, "hacked") != 1 {
		t.Errorf("what the script has done to its own entity before: %s of %v, to the others: %s", moved, from, before)
	}

	readings := make([]entity.Reading, len(order))
	for i := range readings {
		readings[i] = entity.Reading{TS: int64(10 + i), Values: []entity.Sample{{Key: "row", Value: value.Int(int64(i))}}}
	}
	if err := p.rt.Write(t.Context(), mine, readings, 5000); err != nil {
		t.Fatal(err)
	}
	p.sync("thief")

	if after := state(); after != before {
		t.Errorf("the entities of the other tenant were\n%s\nand are\n%s", before, after)
	}
	for i, name := range order {
		if said, _ := p.latest(mine, fmt.Sprint("said", i)); said == "" || strings.Contains(said, "s3cret") {
			t.Errorf("%s says %s", name, said)
		}
	}
	kept, err := p.State(t.Context(), "thief", mine)
	if status := fmt.Sprint(p.Status("thief"), string(kept)); err != nil || strings.Contains(status, "s3cret") {
		t.Errorf("%s, %v", status, err)
	}

	// Each function and each field has a row.
	var names []string
	text, _ := p.latest(mine, "names")
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		t.Fatal(err)
	}
	host := (&box{}).host()
	for name := range host.Methods {
		names = append(names, "e:"+name)
	}
	for name, inner := range host.Fields {
		if names = append(names, "e."+name); inner.Methods != nil || inner.Fields != nil {
			t.Errorf("e.%s has something of its own", name)
		}
	}
	for name := range entityFields {
		names = append(names, "e."+name)
	}
	names = append(names, "e.latest of e.id", "self", "on_reading")
	for _, name := range names {
		if _, ok := reach[name]; !ok && name != "say" {
			t.Errorf("%s has no row", name)
		}
	}
	for name := range reach {
		if !slices.Contains(names, name) {
			t.Errorf("there is no %s", name)
		}
	}
}
