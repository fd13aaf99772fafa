package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// mustSend makes a request that must succeed.
func mustSend(t *testing.T, addr, method, path, media, body string) {
	t.Helper()
	c, err := newClient(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.do(t.Context(), method, path, media, body, nil); err != nil {
		t.Fatal(err)
	}
}

func TestExportedDataIsImported(t *testing.T) {
	t.Parallel()
	from, _ := startServer(t, t.TempDir())
	to, _ := startServer(t, t.TempDir())
	dir := t.TempDir()
	types := filepath.Join(dir, "types.json")
	if err := os.WriteFile(types, []byte(`[{"id":"Meter","extends":["Device"]},{"id":"Device"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := command(t, 0, "types", "--http", from.HTTPAddr(), "--file", types, "--format", "native")
	if out != "Meter\nDevice\n" {
		t.Errorf("types: %s", out)
	}
	mustSend(t, from.HTTPAddr(), "POST", "/v1/entities", "application/json", `{"id":"m","type":"Meter","attributes":{"floor":3}}`)
	mustSend(t, from.HTTPAddr(), "POST", "/v1/entities", "application/json", `{"id":"b","relations":[{"type":"has","to":"m"}]}`)
	mustSend(t, from.HTTPAddr(), "POST", "/v1/entities/m/telemetry", "application/json", `[{"ts":1,"values":{"p":1.5}},{"ts":2,"values":{"p":2.5}}]`)
	mustSend(t, from.HTTPAddr(), "PUT", "/v1/mappings/twice", "text/plain", `insert into other select m.q * 2 as q`)
	mustSend(t, from.HTTPAddr(), "PUT", "/v1/scripts/half", "application/json", `{"source":"function on_reading(e, r) e:set { half = r.none / 2 } end","keys":["none"]}`)
	mustSend(t, from.HTTPAddr(), "PUT", "/v1/queries/hungry", "application/json", `{"filter":"p > 2"}`)
	mustSend(t, from.HTTPAddr(), "PUT", "/v1/retention/meters", "application/json", `{"type":"Meter","raw":"36500d"}`)
	mustSend(t, from.HTTPAddr(), "PUT", "/v1/alarm-rules/high", "application/json", `{"type":"Meter","raise":"p > 2","severity":"major"}`)
	for _, what := range sorts {
		if what == "latest" {
			continue
		}

		file := filepath.Join(dir, what)
		command(t, 0, "export", "--http", from.HTTPAddr(), "--what", what, "--file", file)
		command(t, 1, "export", "--http", from.HTTPAddr(), "--what", what, "--file", file) // exists
		if out, _ := command(t, 0, "import", "--http", to.HTTPAddr(), "--what", what, "--file", file); !strings.Contains(out, map[string]string{"types": "2", "entities": "2", "history": "2"}[what]+" accepted, 0 failed") {
			t.Errorf("import of %s: %s", what, out)
		}
		a, _ := command(t, 0, "export", "--http", from.HTTPAddr(), "--what", what)
		if b, _ := command(t, 0, "export", "--http", to.HTTPAddr(), "--what", what); a != b || a == "" {
			t.Errorf("%s: exported %s, then %s", what, a, b)
		}
	}
	if out, _ := command(t, 0, "types", "--http", to.HTTPAddr()); !strings.Contains(out, "Meter") {
		t.Errorf("types: %s", out)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, 1, "import", "--http", to.HTTPAddr(), "--what", "history", "--file", wrong); !strings.Contains(out, "line 1: ") {
		t.Errorf("a wrong line: %s", out)
	}
	command(t, 2, "import", "--what", "latest")
	command(t, 2, "export", "--what", "history", "--format", "xml")
	command(t, 2, "export", "--what", "history", "--http", "192.0.2.1:80")
}

func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	if pgtest.OnPostgres() {
		t.Skip("PostgreSQL has its own tools for this")
	}
	dir := t.TempDir()
	s, _ := startServer(t, dir)
	mustSend(t, s.HTTPAddr(), "POST", "/v1/entities/m/telemetry", "application/json", `{"ts":1,"values":{"p":1.5}}`)
	file, restored := filepath.Join(t.TempDir(), "copy.db"), filepath.Join(t.TempDir(), "data")
	command(t, 0, "backup", "--data", dir, "--file", file)
	command(t, 0, "restore", "--data", restored, "--file", file)
	command(t, 1, "restore", "--data", restored, "--file", file)
	command(t, 2, "backup", "--data", dir)
	command(t, 2, "backup", "--data", dir, "--store", dir, "--file", file)
	again, _ := startServer(t, restored)
	if points := history(t, again.HTTPAddr(), "m", "p"); len(points) != 1 || points[0].Value != 1.5 {
		t.Errorf("restored: %v", points)
	}
}

func TestBenchRunsOnServersOfItsOwn(t *testing.T) {
	t.Parallel()
	binary, dir := build(t), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for _, shape := range []string{"hot", "modify", "search", "commands"} {
		out := run("bench", "--shape", shape, "--duration", "200ms", "--entities", "300", "--data", dir)
		if !strings.Contains(out, "messages/s") || !strings.Contains(out, "CPU") {
			t.Errorf("bench of %s: %s", shape, out)
		}
	}
	out := run("bench", "--shape", "secure,connects,hostile,alarms", "--duration", "50ms", "--entities", "20", "--connections", "10", "--data", dir)
	for _, want := range []string{"of the messages/s without", "20 idle connections, with TLS", "first logins by password", "logins/s", "beside strangers", "filters/s", "wills/s", "memory at most", "of the messages/s without rules"} {
		if !strings.Contains(out, want) {
			t.Errorf("bench does not tell %q: %s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	command(t, 2, "bench", "--shape", "round")
	command(t, 2, "bench", "--shape", "meters", "--store", "postgres://h/d")
	command(t, 2, "verify", "--rounds", "0")
	command(t, 2, "verify", "--store", dir)
	command(t, 2, "verify", "--store", "postgres://h/d", "--data", dir)
}

// A connection that is quicker than the others sends no more than its share: the
// entities of the others are registered as well, in whatever order they come to it.
func TestRegistrationReachesEachEntityOnce(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	r := &benchRun{link: linkTo(s.MQTTAddr()), benchOptions: benchOptions{connections: 7, entities: 40, inFlight: 3}}
	var mu sync.Mutex
	sent := make(map[string]int)
	held := make(chan struct{})
	r.message = func(l *loader) (topic, payload []byte) {
		if l.index == 0 { // the slow one: it waits until the others have sent theirs
			<-held
		}
		topic, payload = meterMessage(l)
		mu.Lock()
		defer mu.Unlock()
		sent[string(topic)]++
		if len(sent) == 40-6 { // all but those of the first
			close(held)
		}
		return topic, payload
	}
	r.goRound(1)
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e := range 40 {
		if n := sent[string(topicOf(e))]; n != 1 {
			t.Errorf("entity %d got %d messages", e, n)
		}
	}
	if n := r.acked.Load(); n != 40 {
		t.Errorf("%d were acknowledged", n)
	}
}

func TestVerifyFindsWhatIsLostDoubledOrInvented(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		there       []int64
		sent, acked int64
		want        outcome
	}{
		{[]int64{0, 1, 2}, 4, 3, outcome{3, 0, 0, 0}},
		{[]int64{0, 1, 2, 3}, 4, 3, outcome{3, 0, 0, 0}}, // not acknowledged, and there
		{[]int64{0, 2}, 4, 3, outcome{3, 1, 0, 0}},
		{[]int64{0, 1, 1, 2}, 4, 3, outcome{3, 0, 1, 0}},
		{[]int64{0, 1, 2, 9, -1}, 4, 3, outcome{3, 0, 0, 2}},
	} {
		if got := judge(tt.there, tt.sent, tt.acked); got != tt.want {
			t.Errorf("%v of %d, %d acknowledged: %+v, want %+v", tt.there, tt.sent, tt.acked, got, tt.want)
		}
	}
	if o := (outcome{acknowledged: 1}); o.wrong() {
		t.Error("nothing is wrong")
	}
	if o := (outcome{lost: 1}); !o.wrong() {
		t.Error("a loss is nothing wrong")
	}
}

func TestServeSetsUpTheMemoryOfTheEntities(t *testing.T) {
	t.Parallel()
	o := serveOptions{hot: 64, window: 8, idleAfter: time.Minute, sealAfter: time.Minute, logAge: time.Hour, timeout: time.Hour, grace: time.Second}
	c, err := o.entities()
	if want := (entity.Config{HotBytes: 64 << 20, WindowBytes: 8 << 20, IdleAfter: time.Minute, PresenceTimeout: time.Hour, PresenceGrace: time.Second}); err != nil || c != want {
		t.Errorf("%+v is %+v, %v, want %+v", o, c, err, want)
	}
	o.idleAfter, o.timeout, o.grace = 0, 0, 0
	if c, err = o.entities(); err != nil || c.IdleAfter >= 0 || c.PresenceTimeout >= 0 || c.PresenceGrace >= 0 {
		t.Errorf("never is %v, %v, %v, %v", c.IdleAfter, c.PresenceTimeout, c.PresenceGrace, err)
	}
	for _, wrong := range []string{"--hot-mib=0", "--hot-mib=9223372036854775807", "--window-mib=-1", "--idle-after=-1s", "--idle-after=soon", "--seal-after=0s", "--change-log-age=0s", "--presence-timeout=-1s", "--presence-grace=-1s", "--device-rate-kib=-1", "--gateway-rate-kib=1073741825"} {
		command(t, 2, "serve", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--data", t.TempDir(), wrong)
	}
}

// A store whose files are damaged inside opens, and verify finds it.
func TestVerifyFindsWhatIsWrongWithAStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcess(t, build(t), dir)
	var body []byte
	for i := range 5000 {
		body = fmt.Appendf(append(body, ','), `{"ts":%d,"values":{"text":"reading %d"}}`, i+1, i)
	}
	body[0] = '['
	mustSend(t, p.http, "POST", "/v1/entities/a/telemetry", "application/json", string(append(body, ']')))
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, 0, "verify", "--check", "--data", dir); !regexp.MustCompile(`(?m)^1 entities, 1 latest values, 0 attributes, 0 relations, 0 commands, 500[01] changes$`).MatchString(out) {
		t.Errorf("verify: %s", out)
	}
	for _, none := range []string{dir + "-none", t.TempDir()} {
		if out, _ := command(t, 1, "verify", "--check", "--data", none); strings.Contains(out, "nothing is wrong") {
			t.Errorf("verify of no store: %s", out)
		}
		if left, err := filepath.Glob(filepath.Join(none, "*")); err != nil || len(left) > 0 {
			t.Errorf("verify of no store has made %v, %v", left, err)
		}
	}
	name := filepath.Join(dir, "greenroom.db")
	db, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(db, []byte("reading 2500"))
	copy(db[at-2000:], make([]byte, 4000))
	if err := os.WriteFile(name, db, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, 1, "verify", "--check", "--data", dir); !strings.Contains(out, "damaged") {
		t.Errorf("verify: %s", out)
	}
}
