package script

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

// plant is a runtime with scripts on a store in a directory.
type plant struct {
	*Service
	t     testing.TB
	dir   string
	rt    *entity.Runtime
	close func()
	held  chan struct{} // closed when a script is first called for the entity "held"; the call then waits for free
	free  chan struct{}
	once  sync.Once
}

// admin may write all entities.
var admin = Owner{Name: "admin", Identity: "1"}

func build(t testing.TB, dir string) *plant {
	t.Helper()
	disk, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	sys := actor.NewSystem("test", actor.WithLogger(quiet))
	p := &plant{t: t, dir: dir, held: make(chan struct{}), free: make(chan struct{})}
	if p.rt, err = entity.Open(t.Context(), sys, disk, entity.Config{}); err != nil {
		t.Fatal(err)
	}
	may := func(owner Owner, v entity.View) bool {
		if v.ID() == "held" {
			p.once.Do(func() { close(p.held); <-p.free })
		}
		tenant, _ := v.Attribute(entity.Attributes, "/tenant")
		return owner == admin || strings.HasPrefix(v.ID(), owner.Name+"-") || tenant.Value.Text() == owner.Name
	}
	if p.Service, err = Open(t.Context(), p.rt, Config{May: may, Logger: quiet, Behaviors: behavior.Config{Gather: time.Millisecond, SaveEvery: 5 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	closed := false
	p.close = func() {
		if closed {
			return
		}
		closed = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(p.Close(ctx), p.rt.Close(ctx)); err != nil {
			t.Error(err)
		}
		if _, err := sys.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(p.close)
	return p
}

func (p *plant) restart() *plant {
	p.t.Helper()
	p.close()
	return build(p.t, p.dir)
}

func (p *plant) put(name, source string) Stored {
	p.t.Helper()
	st, err := p.Put(p.t.Context(), name, Script{Source: source, Keys: []string{"x"}}, admin, MaxScripts, "")
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

func (p *plant) write(id string, ts int64, samples ...entity.Sample) {
	p.t.Helper()
	if err := p.rt.Write(p.t.Context(), id, []entity.Reading{{TS: ts, Values: samples}}, 50); err != nil {
		p.t.Fatal(err)
	}
}

func x(n int64) entity.Sample { return entity.Sample{Key: "x", Value: value.Int(n)} }

func (p *plant) sync(name string) {
	p.t.Helper()
	if err := p.Sync(p.t.Context(), name); err != nil {
		p.t.Fatal(err)
	}
}

// latest returns the latest value of a key as JSON, "" for none.
func (p *plant) latest(id, key string) (text string, from entity.Origin) {
	p.t.Helper()
	err := p.rt.View(p.t.Context(), id, func(v entity.View) error {
		if l, ok := v.Latest(key); ok {
			text, from = string(l.Value.AppendJSON(nil)), l.Origin
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return text, from
}

// fresh is a script that does all that scripts can.
const fresh = `
function on_reading(e, r)
  assert(e.type == "" and e.online == false and e.late == false and e.ts > 0 and e.created > 0)
  local limit = e.attributes.limits.high
  if r.x > limit and e.latest.flow == "low" then
    self.count = (self.count or 0) + 1
    e:set { alarm = "dry run", n = self.count, list = {1, 2.5, "a"}, object = {ok = true} }
    e:set_attributes { alarm = { kind = "dry", since = e.ts } }
    e:desire { power = 0 }
    e:command("stop", { reason = "dry run", of = e.id })
  end
end`

func TestAScriptReadsAnEntityAndDoesWhatItMay(t *testing.T) {
	p := build(t, t.TempDir())
	if _, err := p.rt.Edit(t.Context(), "pump", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(`{"limits":{"high":80,"a/b":[1]}}`)}}}); err != nil {
		t.Fatal(err)
	}
	st := p.put("dry-run", fresh)
	p.write("pump", 1000, entity.Sample{Key: "flow", Value: value.String("low")})
	for i := range int64(4) {
		p.write("pump", 2000+i, x(78+i))
	}
	p.sync("dry-run")
	for key, want := range map[string]string{"alarm": `"dry run"`, "n": "1", "list": `[1,2.5,"a"]`, "object": `{"ok":true}`} {
		got, from := p.latest("pump", key)
		if got != want || from.Source != fmt.Sprint("script:dry-run@", st.Version) {
			t.Errorf("%s is %s from %v, want %s", key, got, from, want)
		}
	}
	snap, err := p.rt.Entity(t.Context(), "pump")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(entity.AppendAttributes(nil, snap.Section(entity.Attributes))); !strings.Contains(got, `"alarm":{"kind":"dry","since":2003}`) {
		t.Errorf("attributes %s", got)
	}
	if got := string(entity.AppendAttributes(nil, snap.Section(entity.Desired))); got != `{"power":0}` {
		t.Errorf("desired %s", got)
	}
	commands, err := p.rt.OpenCommands(t.Context(), "pump")
	if err != nil || len(commands) != 1 || commands[0].Name != "stop" || commands[0].By != "script:dry-run" || commands[0].Request != value.JSON(`{"reason":"dry run","of":"pump"}`) {
		t.Errorf("commands %+v, %v", commands, err)
	}
	if state, err := p.State(t.Context(), "dry-run", "pump"); err != nil || string(state) != `{"count":1}` {
		t.Errorf("state %s, %v", state, err)
	}
	p = p.restart()
	p.write("pump", 3000, x(99))
	p.sync("dry-run")
	if got, _ := p.latest("pump", "n"); got != "2" {
		t.Errorf("after a restart n is %s", got)
	}
}

func TestAScriptThatLoopsEndsAndNamesTheLine(t *testing.T) {
	p := build(t, t.TempDir())
	p.put("loop", "function on_reading(e, r)\n  e:set { before = 1 }\n  while true do\n    local n = r.x\n  end\nend")
	p.put("good", "function on_reading(e, r) e:set { good = r.x } end")
	p.write("a", 1, x(1))
	p.sync("loop")
	p.sync("good")
	st := p.Status("loop")
	if st.Failures != 1 || len(st.Failed) != 1 || !strings.Contains(st.Failed[0].Text, "out of steps") {
		t.Fatalf("%+v", st)
	}
	if line := LineOf(st.Failed[0].Text, ""); line < 3 || line > 5 {
		t.Errorf("line %d of %q", line, st.Failed[0].Text)
	}
	before, _ := p.latest("a", "before")
	if good, _ := p.latest("a", "good"); before != "" || good != "1" {
		t.Errorf("before %s, good %s", before, good)
	}
	for i := range int64(behavior.MaxInRow) {
		p.write("a", 2+i, x(1))
	}
	p.sync("loop")
	p.sync("good")
	if st := p.Status("loop"); st.Off != behavior.OffFailures {
		t.Errorf("%+v", st)
	}
	if st := p.Status("good"); st.Off != "" || st.Runs != behavior.MaxInRow+1 {
		t.Errorf("the neighbor: %+v", st)
	}
}

func TestAMistakeInAScriptHasALine(t *testing.T) {
	p := build(t, t.TempDir())
	for name, c := range map[string]struct {
		script Script
		in     string
		line   int
	}{
		"syntax":    {Script{Source: "function on_reading(e, r)\n  if then\nend"}, "source", 2},
		"end":       {Script{Source: "function on_reading(e, r)\n\n"}, "source", 1},
		"label":     {Script{Source: "function on_reading(e, r)\n  break\nend"}, "source", 2},
		"top level": {Script{Source: "\nlocal n = nil + 1"}, "source", 2},
		"host":      {Script{Source: "function on_reading() end\ne:set { a = 1 }"}, "source", 2},
		"functions": {Script{Source: "x = 1"}, "source", 0},
		"empty":     {Script{}, "source", 0},
		"where":     {Script{Source: "function on_reading() end", Where: "x >"}, "where", 0},
		"clock":     {Script{Source: "function on_reading() end", Where: "age(x) > 1m"}, "where", 0},
		"keys":      {Script{Source: "function on_reading() end", Keys: []string{""}}, "keys", 0},
		"loop":      {Script{Source: "while true do end"}, "source", 1},
	} {
		_, err := p.Put(t.Context(), "bad", c.script, admin, MaxScripts, "")
		at, ok := errors.AsType[*Error](err)
		if !ok || at.In != c.in || at.Line != c.line || !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v (%+v), want line %d of %s", name, err, at, c.line, c.in)
		}
	}
	if list := p.List(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestVersionsAreKeptAndComeBack(t *testing.T) {
	p := build(t, t.TempDir())
	var first Stored
	for i := range MaxVersions + 3 {
		st := p.put("v", fmt.Sprintf("function on_reading(e) e:set { v = %d } end", i))
		if i == 2 {
			first = st
		}
	}
	same := p.put("v", fmt.Sprintf("function on_reading(e) e:set { v = %d } end", MaxVersions+2))
	p = p.restart()
	list, err := p.Versions(t.Context(), "v")
	if err != nil || len(list) != MaxVersions+1 || list[0].Version != same.Version || list[MaxVersions].Version != first.Version || list[MaxVersions].Updated != first.Updated {
		t.Fatalf("%d versions, %v; the first %+v, the last %+v, want %+v", len(list), err, list[0], list[len(list)-1], first)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Version >= list[i-1].Version {
			t.Fatalf("version %d comes after %d", list[i].Version, list[i-1].Version)
		}
	}
	old, err := p.Version(t.Context(), "v", first.Version)
	if err != nil || old.Source != first.Source {
		t.Fatalf("%+v, %v", old, err)
	}
	if _, err := p.Version(t.Context(), "v", 1<<40); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
	if err := p.Delete(t.Context(), "v", ""); err != nil {
		t.Fatal(err)
	}
	again := p.put("v", first.Source)
	if list, err := p.Versions(t.Context(), "v"); err != nil || len(list) != 1 || again.Version <= same.Version {
		t.Errorf("of one that was deleted: %+v, %v", list, err)
	}
}

func TestAScriptIsForTheEntitiesOfItsOwner(t *testing.T) {
	p := build(t, t.TempDir())
	put := func(owner, name string, quota int) error {
		_, err := p.Put(t.Context(), name, Script{Source: "function on_reading(e) e:set { by = '" + owner + "' } end", Keys: []string{"x"}}, Owner{Name: owner}, quota, "")
		return err
	}
	if err := put("ann", "mine", 1); err != nil {
		t.Fatal(err)
	}
	if err := put("ann", "more", 1); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
	p.write("ann-1", 1, x(1))
	p.write("ben-1", 1, x(1))
	p.sync("mine")
	ann, _ := p.latest("ann-1", "by")
	if ben, _ := p.latest("ben-1", "by"); ann != `"ann"` || ben != "" {
		t.Errorf("ann's has %s, ben's %s", ann, ben)
	}
	if err := put("ben", "mine", 1); err != nil { // another owner takes it over
		t.Fatal(err)
	}
	p.write("ann-1", 2, x(1))
	p.write("ben-1", 2, x(1))
	p.sync("mine")
	ann, _ = p.latest("ann-1", "by")
	if ben, _ := p.latest("ben-1", "by"); ann != `"ann"` || ben != `"ben"` {
		t.Errorf("ann's has %s, ben's %s", ann, ben)
	}
	sc := Script{Source: "function on_reading(e) e:set { n = 1 } end", Keys: []string{"x"}}
	for owner, want := range map[string]int{"ann": 2, "ben": 0} {
		steps, err := p.Try(t.Context(), "mine", &sc, Owner{Name: owner}, behavior.Trial{Entity: "ann-1", To: 100})
		if err != nil || len(steps) != want {
			t.Errorf("%s tries %d steps of ann's, %v, want %d", owner, len(steps), err, want)
		}
	}
}

// abort makes a change of a script whose call waits, and ends the context of the change when it has begun.
func (p *plant) abort(change func(context.Context) error, begun func() bool) {
	p.t.Helper()
	free := sync.OnceFunc(func() { close(p.free) })
	defer free()
	p.write("held", 1, x(1))
	<-p.held
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- change(ctx) }()
	for !begun() && len(ended) == 0 {
		runtime.Gosched()
	}
	cancel()
	free()
	if err := <-ended; err != nil {
		p.t.Errorf("the change that was begun: %v", err)
	}
}

func TestAScriptIsDeletedWholeWhereTheCallerLeaves(t *testing.T) {
	p := build(t, t.TempDir())
	p.put("mine", "function on_reading(e) self.secret = 1 end")
	p.put("mine", "function on_reading(e) self.secret = 2 end")
	p.write("a", 1, x(1))
	p.sync("mine")
	p.abort(func(ctx context.Context) error { return p.Delete(ctx, "mine", "") }, func() bool { return p.find("mine") == nil })
	p.isClear("mine")
}

// isClear checks that nothing is stored of a script but its document.
func (p *plant) isClear(name string) {
	p.t.Helper()
	for kind, from := range map[string]string{"script": name + "\x00s", kindVersions: name + "\x00"} {
		items, err := p.rt.Items(p.t.Context(), entity.ItemsQuery{Kind: kind, From: from, To: name + "\x01", Limit: 10})
		if err != nil || len(items) != 0 {
			p.t.Errorf("%q is left of kind %s, %v", items, kind, err)
		}
	}
}

// What a crash has left of a script that was being deleted is not that of the next one.
func TestANewScriptHasNothingOfAnEarlierOne(t *testing.T) {
	p := build(t, t.TempDir())
	p.put("mine", "function on_reading(e) self.secret = 1 end")
	p.put("mine", "function on_reading(e) self.secret = 2 end")
	p.write("a", 1, x(1))
	p.sync("mine")
	if err := p.rt.DeleteDoc(t.Context(), kindScript, "mine", ""); err != nil {
		t.Fatal(err)
	}
	p = p.restart()
	p.put("mine", "function on_reading(e) end")
	p.isClear("mine")

	// Nor is anything left of one that could not be put in force.
	if _, err := p.rt.PutDoc(t.Context(), kindScript, "bad", []byte(`{"source":"if"}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := p.rt.PutItems(t.Context(), []entity.Item{{Kind: "script", Key: "bad\x00sa", Body: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	p = p.restart()
	if err := p.Delete(t.Context(), "bad", ""); err != nil {
		t.Fatal(err)
	}
	p.isClear("bad")
}

func TestAScriptIsPutWholeWhereTheCallerLeaves(t *testing.T) {
	p := build(t, t.TempDir())
	first := p.put("mine", "function on_reading(e) e:set { v = 1 } end")
	stored := func() bool {
		docs, err := p.rt.Docs(t.Context(), kindScript)
		return err != nil || docs[0].Version != first.Version
	}
	p.abort(func(ctx context.Context) error {
		_, err := p.Put(ctx, "mine", Script{Source: "function on_reading(e) e:set { v = 2 } end", Keys: []string{"x"}}, admin, MaxScripts, "")
		return err
	}, stored)
	p.write("a", 1, x(1))
	p.sync("mine")
	if got, _ := p.latest("a", "v"); got != "2" {
		t.Errorf("v is %s", got)
	}
}

func TestScopedOwnersLeaveRoomForOthers(t *testing.T) {
	p := build(t, t.TempDir())
	put := func(name, note, owner string, quota int) error {
		_, err := p.Put(t.Context(), name, Script{Source: "function on_reading(e) end", Keys: []string{"x"}, Note: note}, Owner{Name: owner}, quota, "")
		return err
	}
	for i := range MaxScripts - Reserved {
		if err := put(fmt.Sprint("s", i), "", fmt.Sprint("owner", i/MaxOwned), MaxOwned); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("more", "", "another", MaxOwned); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
	if err := put("s0", "again", "owner0", MaxOwned); err != nil {
		t.Errorf("an own one is replaced: %v", err)
	}
	if err := put("more", "", "admin", MaxScripts); err != nil {
		t.Errorf("one of an owner who may write all entities: %v", err)
	}
}

func TestAnotherNoteIsAnotherVersion(t *testing.T) {
	p := build(t, t.TempDir())
	sc := Script{Source: "function on_reading(e) end", Note: "one"}
	var last Stored
	for i, note := range []string{"one", "two", "two"} {
		sc.Note = note
		st, err := p.Put(t.Context(), "n", sc, admin, MaxScripts, "")
		if err != nil || st.Note != note || (st.Version == last.Version) != (i == 2) {
			t.Errorf("%+v, %v", st, err)
		}
		last = st
	}
}

func TestATrialOfWhatPrintsAndFailsIsBounded(t *testing.T) {
	p := build(t, t.TempDir())
	const n = 200
	for i := range int64(n) {
		p.write("a", 100+i, x(i))
	}
	sc := Script{Source: "function on_reading(e, r)\n  local s = ('x'):rep(4000)\n  for i = 1, 20 do print(s) end\n  error(('y'):rep(100000))\nend"}
	steps, err := p.Try(t.Context(), "", &sc, admin, behavior.Trial{Entity: "a", To: 1000, Last: n})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for i := range steps {
		shown += len(steps[i].Err.Error()) + len(strings.Join(steps[i].Printed, ""))
		if steps[i].Line != 4 {
			t.Errorf("line %d", steps[i].Line)
		}
	}
	if shown > behavior.MaxTryBytes+100_000 || shown < behavior.MaxTryBytes/2 {
		t.Errorf("%d steps show %d bytes", len(steps), shown)
	}
}

func TestOnlySoManyTrialsAreUnderWay(t *testing.T) {
	p := build(t, t.TempDir())
	p.write("held", 1, x(1))
	p.write("a", 1, x(1))
	sc := Script{Source: "function on_reading(e, r) end"}
	tryAs := func(owner Owner, id string) error {
		_, err := p.Try(t.Context(), "", &sc, owner, behavior.Trial{Entity: id, To: 100})
		return err
	}
	try := func(id string) error { return tryAs(Owner{}, id) } // everybody, where nobody has to log in
	free := sync.OnceFunc(func() { close(p.free) })
	defer free()
	ended := make(chan error, 1)
	go func() { ended <- tryAs(admin, "held") }()
	<-p.held
	for range MaxTrials + 1 {
		if err := try("a"); err != nil { // one at a time
			t.Fatal(err)
		}
	}
	if err := tryAs(admin, "a"); !errors.Is(err, ErrBusy) { // one for each owner
		t.Errorf("%v, want ErrBusy", err)
	}
	other, err := p.trials.begin(Owner{}) // another one is under way
	if err != nil {
		t.Fatal(err)
	}
	if err := tryAs(Owner{Name: "ann"}, "a"); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	other()
	free()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := tryAs(admin, "a"); err != nil {
		t.Error(err)
	}
}

func TestATrialTellsWhatAScriptWouldHaveDone(t *testing.T) {
	p := build(t, t.TempDir())
	for i := range int64(5) {
		p.write("a", 100+i, x(i))
	}
	sc := Script{Keys: []string{"x"}, Source: `
function on_reading(e, r)
  print("x is", r.x)
  self.sum = (self.sum or 0) + r.x
  if r.x == 3 then error("three") end
  e:set { sum = self.sum }
  e:command("go", r.x)
end
print("loaded")`}
	steps, err := p.Try(t.Context(), "", &sc, admin, behavior.Trial{Entity: "a", To: 1000, Last: 3})
	if err != nil || len(steps) != 3 {
		t.Fatalf("%+v, %v", steps, err)
	}
	for i, want := range []struct {
		kept, sum string
		line      int
	}{{`{"sum":2}`, "2", 0}, {`{"sum":2}`, "", 5}, {`{"sum":6}`, "6", 0}} {
		s := &steps[i]
		sum := ""
		if len(s.Readings) > 0 {
			sum = string(s.Readings[0].Values[0].Value.AppendJSON(nil))
		}
		if string(s.Kept) != want.kept || sum != want.sum || s.Line != want.line || (s.Err != nil) != (want.line > 0) || len(s.Printed) != 1 || s.Printed[0] != fmt.Sprint("x is\t", i+2) {
			t.Errorf("step %d: %+v, want %+v", i, s, want)
		}
	}
	if got, _ := p.latest("a", "sum"); got != "" {
		t.Errorf("the trial has written %s", got)
	}
}

func TestEveryMinuteIsForEntitiesThatSomethingIsKeptOf(t *testing.T) {
	spec, err := (&Script{Source: "function every_minute(e) e:set { n = self.n } end"}).compile("m", program{})
	if err != nil || spec.Every != time.Minute {
		t.Fatalf("%v, %v", spec.Every, err)
	}
	spec, err = (&Script{Source: "function on_reading(e) end"}).compile("m", program{})
	if err != nil || spec.Every != 0 {
		t.Fatalf("%v, %v", spec.Every, err)
	}
}

func TestAScriptGetsNothingElse(t *testing.T) {
	p := build(t, t.TempDir())
	for name, source := range map[string]string{
		"require": `require("os")`, "io": `io.open("x")`, "os": `os.execute("x")`, "load": `load("return 1")()`, "greenroom": `greenroom.send(".x", 1)`,
		"debug": `debug.getinfo(1)`, "a meta table": `getmetatable(e).__index = print`, "an assignment": `e.id = "other"`,
		"no number": `e:set { n = 0/0 }`, "a function": `e:set { n = print }`, "a list": `e:set { 1, 2 }`, "no table": `e:set(1)`, "no name": `e:command(1)`,
		"many": `for i = 1, 100 do e:set { n = i } end`, "a large state": `self.s = ("x"):rep(5000)`, "memory": `local t = {} for i = 1, 1e9 do t[i] = {i} end`,
		"a string": `local s = "x" while true do s = s .. s end`, "a pattern": `(("a"):rep(30)):find(("a*"):rep(30) .. "b")`,
		"another pattern": `(("a"):rep(1e5)):find(".-.-.-b")`, "a width": `string.format("%99999d", 1)`, "a repetition": `("x"):rep(1e9)`, "a cycle": `self.me = self`,
		"a deep state": `local t = self for i = 1, 100 do t.t = {} t = t.t end`, "a loop in pcall": `while true do pcall(function() while true do end end) end`,
		"a loop in sort": `table.sort({2, 1}, function() while true do end end)`, "coroutines": `local function f() coroutine.wrap(f)() end f()`,
		"a list behind texts": `getmetatable("").__newindex = {} local s = "x" s[6e7] = 1`, "an index of itself": `local t = {} setmetatable(t, {__index = t}) return t.x`,
		"prints": `while true do print(("x"):rep(1e5)) end`,
	} {
		t.Run(name, func(t *testing.T) {
			p.put("hostile", "function on_reading(e, r)\n"+source+"\nend")
			before := p.Status("hostile").Failures
			p.write("a", time.Now().UnixMilli(), x(1))
			p.sync("hostile")
			if st := p.Status("hostile"); st.Failures != before+1 {
				t.Errorf("%+v", st)
			}
		})
	}
	p.put("hostile", "function on_reading(e, r) e:set { fine = 1 } end")
	p.write("a", time.Now().UnixMilli(), x(1))
	p.sync("hostile")
	if got, _ := p.latest("a", "fine"); got != "1" {
		t.Errorf("fine is %s", got)
	}
}

func TestAScriptInForceThatIsPutDisabledIsSwitchedOff(t *testing.T) {
	t.Parallel()
	p := build(t, t.TempDir())
	sc := Script{Source: "function on_reading(e, r) end"}
	first, err := p.Put(t.Context(), "a", sc, admin, MaxScripts, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.PutDisabled(t.Context(), "a", sc, admin, MaxScripts, entity.IfNone); !errors.Is(err, entity.ErrConflict) || p.Status("a").Off != "" {
		t.Fatalf("%v, and it is %q", err, p.Status("a").Off)
	}
	again, err := p.PutDisabled(t.Context(), "a", sc, admin, MaxScripts, "")
	if err != nil || again.Version != first.Version || p.Status("a").Off != behavior.OffDisabled {
		t.Errorf("version %d after %d: %v, and it is %q", again.Version, first.Version, err, p.Status("a").Off)
	}
}
