//go:build unix

package server

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// guideFiles are guides that are one session with the program, from above to below, one after the other. Their
// blocks are told apart by what stands behind the fence:
//
//	sh             commands, run as they are; the text block that follows is what they print
//	sh eventually  the same, for what comes a moment later: run until it prints that
//	sh NAME        commands that go on, in another terminal of this name
//	text NAME      what that terminal has printed since
//	sh NAME, again ends what runs there, as Ctrl-C does; "sh stop NAME" does it alone
//	sh build       commands that are run in the repository
//	sh postgres    commands for which there is a PostgreSQL server
var guideFiles = []string{"../docs/guides/entities.md", "../docs/guides/servers.md"}

var updateGuide = flag.Bool("update-guide", false, "write what the commands of the guides print into them")

// guidePrelude makes the commands of a guide use the ports that the test has found
// free, in the place of the default ones.
const guidePrelude = `
curl() { command curl --connect-to "127.0.0.1:8080:127.0.0.1:$GUIDE_HTTP" "$@"; }
mosquitto_pub() { command mosquitto_pub -p "$GUIDE_MQTT" "$@"; }
mosquitto_sub() { command mosquitto_sub -p "$GUIDE_MQTT" "$@"; }
greenroom() {
  local http="127.0.0.1:$GUIDE_HTTP" mqtt="127.0.0.1:$GUIDE_MQTT" command=$1
  shift
  case $command in
  serve) command greenroom serve --http "$http" --mqtt "$mqtt" "$@" ;;
  export | import | types) command greenroom "$command" --http "$http" "$@" ;;
  *) command greenroom "$command" "$@" ;;
  esac
}
`

// guideBlock is a fenced block of a guide.
type guideBlock struct {
	words []string // behind the fence
	text  string
	line  int
	begin int // where text begins and ends in the file
	end   int
}

func (b *guideBlock) is(words ...string) bool { return slices.Equal(b.words, words) }

// guideBlocks returns the blocks that are commands or what they print.
func guideBlocks(page string) (blocks []guideBlock) {
	fences := regexp.MustCompile("(?ms)^```((?:sh|text)[^\n]*)\n(.*?)^```$")
	for _, m := range fences.FindAllStringSubmatchIndex(page, -1) {
		blocks = append(blocks, guideBlock{
			words: strings.Fields(page[m[2]:m[3]]), text: page[m[4]:m[5]],
			line: 1 + strings.Count(page[:m[0]], "\n"), begin: m[4], end: m[5],
		})
	}
	return blocks
}

// guideRun is the session.
type guideRun struct {
	t         *testing.T
	dir       string
	env       []string
	ports     *strings.Replacer // back to those of the guide
	further   *strings.Replacer // from those of the guide that are not the default ones
	terminals map[string]*guideTerminal
}

// guideTerminal is a terminal with a command that goes on.
type guideTerminal struct {
	cmd   *exec.Cmd
	out   logBuffer
	shown int // how much of it the guide has shown
}

func TestTheGuidesAreRuns(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: the guides need %s", program)
		}
	}
	g := newGuideRun(t)
	for i, least := range []int{40, 15} {
		g.guide(guideFiles[i], least)
	}
}

// guide runs a guide, which has so many blocks at least.
func (g *guideRun) guide(file string, least int) {
	t := g.t
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := guideBlocks(string(page))
	if len(blocks) < least {
		t.Fatalf("%s has only %d blocks", file, len(blocks))
	}
	printed := make(map[int]string)
	for i := 0; i < len(blocks); i++ {
		b, want := &blocks[i], ""
		shows := i+1 < len(blocks) && blocks[i+1].is("text")
		if shows {
			want = blocks[i+1].text
		}
		got, wrong := g.block(b, want)
		if wrong != "" {
			t.Fatalf("%s:%d: %s\n%s", file, b.line, wrong, b.text)
		}
		switch {
		case b.words[0] == "text":
			printed[i], want = got, b.text
		case shows:
			i++
			printed[i] = got
		}
		if !*updateGuide && guidePlain(got) != guidePlain(want) {
			t.Fatalf("%s:%d: the commands print\n%s\nand the guide says\n%s", file, b.line, guidePlain(got), guidePlain(want))
		}
	}
	for _, terminal := range g.terminals { // the next guide has others
		g.interrupt(terminal)
	}
	if *updateGuide {
		text := string(page)
		for i, b := range slices.Backward(blocks) {
			if p, ok := printed[i]; ok {
				text = text[:b.begin] + p + text[b.end:]
			}
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // it is a page of the repository
			t.Fatal(err)
		}
	}
}

func newGuideRun(t *testing.T) *guideRun {
	t.Helper()
	g := &guideRun{t: t, dir: t.TempDir(), terminals: make(map[string]*guideTerminal)}
	http, mqtt := freePort(t), freePort(t)
	bin := t.TempDir()
	g.env = append(os.Environ(), "GUIDE_HTTP="+http, "GUIDE_MQTT="+mqtt, "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C")
	back, forth := []string{":" + http, ":8080", ":" + mqtt, ":1883"}, []string(nil)
	for _, port := range []string{"7401", "7402", "7403", "8081", "8082", "1884", "1885"} {
		free := freePort(t)
		back, forth = append(back, ":"+free, ":"+port), append(forth, port, free)
	}
	g.ports, g.further = strings.NewReplacer(back...), strings.NewReplacer(forth...)
	t.Cleanup(func() {
		for name, terminal := range g.terminals {
			g.interrupt(terminal)
			if t.Failed() {
				t.Logf("terminal %s:\n%s", name, &terminal.out)
			}
		}
	})
	return g
}

// freePort returns a port that nobody has at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// block does what a block says, and returns what is printed meanwhile.
func (g *guideRun) block(b *guideBlock, want string) (got, wrong string) {
	switch {
	case b.is("sh"), b.is("sh", "build"):
		return g.run(b)
	case b.is("sh", "postgres"):
		g.postgres()
		return g.run(b)
	case b.is("sh", "eventually"):
		return g.until(want, func() (string, string) { return g.run(b) })
	case b.is("text"):
		return "", "nothing printed this"
	case len(b.words) == 3 && b.words[1] == "stop":
		g.interrupt(g.terminals[b.words[2]])
		return "", ""
	case b.words[0] == "text":
		terminal := g.terminals[b.words[1]]
		got, wrong = g.until(b.text, func() (string, string) {
			said := g.ports.Replace(terminal.out.String())[terminal.shown:]
			if *updateGuide {
				return said, ""
			}
			return firstLines(said, strings.Count(b.text, "\n")), "" // it may have said more by now
		})
		terminal.shown += len(got)
		return got, wrong
	default:
		return "", g.start(b.words[1], b.text)
	}
}

// firstLines returns the first n lines of a text.
func firstLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[:min(n, len(lines))], "")
}

// postgres gives the commands from now on a server, by the variables of libpq.
func (g *guideRun) postgres() {
	g.t.Helper()
	server := pgtest.Start(g.t)
	u, err := url.Parse(server.URL("postgres"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.env = append(g.env, "PGHOST="+u.Query().Get("host"), "PGUSER="+u.User.Username(), "PGSSLMODE=disable",
		"PATH="+g.path()+string(os.PathListSeparator)+server.Programs())
}

func (g *guideRun) path() string {
	for _, e := range slices.Backward(g.env) {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return ""
}

func (g *guideRun) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", guidePrelude+g.further.Replace(script))
	cmd.Dir, cmd.Env = g.dir, g.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs a block to its end.
func (g *guideRun) run(b *guideBlock) (got, wrong string) {
	limit := 6 * patience
	if b.is("sh", "build") { // on a machine that has not built it before
		limit *= 4
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), limit)
	defer cancel()
	cmd := g.command(ctx, b.text)
	if b.is("sh", "build") {
		cmd.Dir = ".."
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Sprintf("%v\n%s", err, out)
	}
	// Headers of HTTP end in CR LF, and the guide, as all text in the repository, in LF.
	return strings.ReplaceAll(g.ports.Replace(string(out)), "\r\n", "\n"), ""
}

// start runs a block in another terminal.
func (g *guideRun) start(name, script string) (wrong string) {
	if old := g.terminals[name]; old != nil {
		g.interrupt(old)
	}
	terminal := &guideTerminal{cmd: g.command(context.Background(), script)}
	terminal.cmd.Stdout, terminal.cmd.Stderr = &terminal.out, &terminal.out
	if err := terminal.cmd.Start(); err != nil {
		return err.Error()
	}
	g.terminals[name] = terminal
	return ""
}

// interrupt is Ctrl-C.
func (g *guideRun) interrupt(terminal *guideTerminal) {
	if terminal.cmd.ProcessState != nil {
		return
	}
	_ = syscall.Kill(-terminal.cmd.Process.Pid, syscall.SIGINT) // it may have ended
	stuck := time.AfterFunc(patience, func() { _ = terminal.cmd.Cancel() })
	defer stuck.Stop()
	_ = terminal.cmd.Wait() // an interrupted command has failed
}

// until looks until it sees what is wanted. Where the guide is written it looks until
// nothing has changed for a while.
func (g *guideRun) until(want string, look func() (string, string)) (got, wrong string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	before, stable := "", 0
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got, wrong = look()
		if *updateGuide {
			if stable++; got != before || got == "" {
				stable = 0
			}
			if before = got; stable < 20 && time.Now().Before(deadline) {
				continue
			}
			return got, wrong
		}
		if guidePlain(got) == guidePlain(want) || time.Now().After(deadline) {
			return got, wrong
		}
	}
}

// guideChanges are the parts of an output that are others in each run: the time of the
// day, versions of entities, the numbers of changes, what was counted and how long it took.
var guideChanges = []struct{ is, becomes string }{
	{`\b1[7-9]\d{11}\b`, "<now>"},
	{`("timestamp":)1[7-9]\d{8}\b`, "${1}<now>"},
	{`time=\S+`, "time=<now>"},
	{`(?m)^Date: .*$`, "Date: <now>"},
	{`(?m)^Greenroom .*$`, "Greenroom <version>"},
	{`(?m)(127\.0\.0\.1:740\d +)\S+$`, "$1<version>"},
	{`(\S)   +`, "$1  "},                              // of a table, whose columns are as wide as the ports of a run
	{`"presence":\{[^}]*\}`, `"presence":<presence>`}, // who is online is a matter of a moment
	{`"etag":"[^"]*"`, `"etag":"<etag>"`},
	{`\\"[0-9a-z]+-\d+\\"`, "<etag>"},
	{`"actor":"[^"]*"`, `"actor":"<actor>"`},
	{`"(next|cursor)":"[^"]*"`, `"$1":"<cursor>"`},
	{`"(seq|source_seq)":\d+`, `"$1":<n>`},
	// The version is the number of a change; whether a reading has replaced another
	// is a matter of a moment.
	{`(mapping:[a-z0-9-]+)@\d+(:again)?`, "$1@<n>"},
	{`store [A-Z2-7]{26}`, "store <identity>"},
	{`up to change \d+, copied at \S+`, "up to change <n>, copied at <now>"},
	{`--seed \d+`, "--seed <n>"},
	{`greenroom-verify-\d+`, "greenroom-verify-<n>"},
	{`acknowledged \d+`, "acknowledged <n>"},
	{`packed \d+ times`, "packed <n> times"},
	{`\d+ entities, \d+ latest values, \d+ attributes, \d+ relations, \d+ commands, \d+ changes`, "<n> of all kinds"},
	{`\d+ lines, \d+ accepted`, "<n> lines, <n> accepted"}, // a sum is computed once a commit
}

// guidePlain puts names in the place of those parts.
func guidePlain(text string) string {
	for _, c := range guideChanges {
		text = regexp.MustCompile(c.is).ReplaceAllString(text, c.becomes)
	}
	return string(bytes.TrimSpace([]byte(text)))
}
